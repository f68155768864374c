"""`checkpointer run`: run the checkpoint daemon."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkpointer.cli.daemon_client import role_option
from console.process_panels import watch_log, watch_settings
from hadoop_common.child_module import child_module
from hadoop_common.cli.output import PRIVATE_UMASK, conf_option, load_configuration
from hadoop_common.cli.service_logging import log_warnings, logging_options, set_up_logging
from hadoop_common.sd_notify import Notifier, watchdog_interval
from image_tools.cli.memory_options import memory_options, with_options
from site_config import keys, merge_keys
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.report import likely_role
from site_config.shown_settings import shown_settings

if TYPE_CHECKING:
    from checkpointer.roles.role import CheckpointRole
    from console.check_page import CheckRow
    from console.cluster_page import PeerAnswer
    from site_config.kerberos import KerberosSettings

_LOG = logging.getLogger(__name__)

_PROBE_SECONDS = 5.0
_CHECK_SECONDS = 10.0
_VERIFY_SECONDS = 3600.0
_NICE = 10


@click.command("run")
@conf_option(required=True)
@role_option("Role of this node (default: standby in HA or with a shared edits directory, else secondary).")
@click.option("--shadow", is_flag=True, help="Upload nothing; compare the NameNode's images with our own.")
@memory_options("index and edits", configured=True)
@logging_options
def command(
    conf_dir: Path,
    role: Role | None,
    shadow: bool,
    memory: int | None,
    spill_dir: Path | None,
    verbose: bool,
    log_config: Path | None,
) -> None:
    """Run as a daemon: make checkpoints periodically or after a number of transactions, upload them, serve HTTP.

    A secondary fetches images and edits from a single NameNode. A standby of an HA nameservice reads the shared edits.
    A backup node registers with a single NameNode and receives its edits as a stream.

    With --shadow, the daemon makes and verifies images, but neither uploads them nor requests a roll, so nothing
    changes on the NameNode. It compares the contents of each new image of the NameNode with its own image, and reports
    a difference as an alarm. A backup node cannot run in shadow mode, because its registration changes the NameNode.

    SIGTERM stops the daemon. A running checkpoint ends at a safe point and leaves no half-written file. SIGHUP reloads
    the configuration. SIGQUIT prints the stacks of all threads on standard error.

    \b
    Example: checkpointer run --conf /etc/hadoop/conf --role secondary
    """
    os.umask(PRIVATE_UMASK)
    set_up_logging(verbose, log_config)
    watch_log()
    chosen = role or likely_role(load_configuration(conf_dir, warns=False))

    def configuration() -> CheckpointConfig:
        read = load_configuration(conf_dir, warns=False)
        config = replace(CheckpointConfig.from_configuration(read, chosen), conf_dir=conf_dir)
        watch_settings(shown_settings(log_warnings(read)))
        if shadow:
            config = config.in_shadow()
        limit = with_options(config.merge_settings.memory, memory, spill_dir)
        return replace(config, merge_settings=replace(config.merge_settings, memory=limit))

    config = configuration()
    if advice := _advice_on_codec(config):
        _LOG.warning("%s: %s", merge_keys.IMAGE_COMPRESSION_CODEC.name, advice)
    _try_tls(config)
    if config.kerberos is not None:
        _log_in(config.kerberos)
        # Kerberos has no timeout: while no KDC answers, a login can take minutes
        probe = partial(_try_web_logins, config.kerberos, config.namenode_http_addresses)
        threading.Thread(target=probe, name="web-logins", daemon=True).start()
    from checkpointer.daemon.blueprints import ConsoleQuestions
    from checkpointer.daemon.process import run_role

    run_role(
        role_class(chosen)(config),
        config,
        reload=configuration,
        notifier=Notifier(os.environ.get("NOTIFY_SOCKET", "")),
        heartbeat=watchdog_interval(os.environ, os.getpid()),
        questions=ConsoleQuestions(
            checks=partial(_checks, conf_dir, chosen),
            peers=partial(_peers, conf_dir, chosen),
            verify=partial(_verify, conf_dir, chosen),
        ),
    )


def _checks(conf_dir: Path, role: Role) -> list[CheckRow]:
    """Run the checks for the console, except checks that read whole images, which the verification includes."""
    from checkpointer.checks.gather import Cluster, gather
    from checkpointer.checks.registry import CHECKS, FactGroup, perform
    from checkpointer.checks.thresholds import Thresholds
    from console.check_page import CheckRow

    chosen = [check for check in CHECKS if FactGroup.IMAGE_CONTENT not in check.needs]
    parts = frozenset[FactGroup]().union(*(check.needs for check in chosen))
    cluster = Cluster.of(load_configuration(conf_dir, warns=False), role, parts)
    outcomes = perform(chosen, gather(cluster, parts, limit=_CHECK_SECONDS), Thresholds({}, {}))
    return [
        CheckRow(each.name, each.verdict.state.name, each.verdict.summary, each.verdict.details, each.hint)
        for each in outcomes
    ]


def _peers(conf_dir: Path, role: Role) -> list[PeerAnswer]:
    """Query the cluster's nodes for the console."""
    from checkpointer.checks.ask_peers import ask_peers, peers_of

    return ask_peers(peers_of(load_configuration(conf_dir, warns=False), role))


def _verify(conf_dir: Path, role: Role) -> list[CheckRow]:
    """Check every record of the newest image in a separate process with a low priority."""
    from checkpointer.daemon.child_process import start_low_priority
    from console.check_page import CheckRow

    words = ["check", "--conf", str(conf_dir), "--role", role.value, "--only", "storage", "--deep", "--json"]
    command = child_module("checkpointer", *words, "--timeout", f"{_VERIFY_SECONDS:g}")
    with start_low_priority(command, _NICE) as child:
        try:
            output, errors = child.communicate(timeout=2 * _VERIFY_SECONDS)
        except BaseException:
            child.kill()
            raise
    try:
        found = json.loads(output)
    except ValueError:
        found = {}
    if "checks" not in found:
        why = found.get("error") or errors.strip().rpartition("\n")[2] or "no message"
        summary = f"the verification exited with code {child.returncode} and no result: {why}"
        return [CheckRow("storage", "UNKNOWN", summary, (), f"Run `checkpointer {' '.join(words)}`.")]
    return [
        CheckRow(each["name"], each["state"], each["summary"], each["details"], each["hint"])
        for each in found["checks"]
    ]


def _advice_on_codec(config: CheckpointConfig) -> str:
    """Return the warning about the configured codec, or "" if there is none."""
    if not config.merge_settings.codec:
        return ""
    # this import loads the libraries of all codecs
    from image_format.codec_choice import advice_on_codec

    return advice_on_codec(config.merge_settings.codec)


def _try_tls(config: CheckpointConfig) -> None:
    """Load the TLS stores, so that a fault stops the daemon early; raise TlsSetupError on failure."""
    from hadoop_common.tls.reloading import ServerTls, use_client

    if config.web.https is not None:
        ServerTls(config.web.tls)
    if any(each.startswith("https:") for each in config.namenode_http_addresses):
        use_client(config.web.tls, at_once=True)


def _log_in(kerberos: KerberosSettings) -> None:
    """Log in with Kerberos; warn if the NameNodes refuse images from this principal."""
    from hadoop_rpc.kerberos import log_in
    from servlets.server_security import names_of

    login, server = kerberos.login, kerberos.require_server()
    server.http.check()
    log_in(login)
    _LOG.info("logged in as %s with the keytab %s", login.principal, login.keytab)
    if refusal := kerberos.refusal(names_of(server)[1]):
        _LOG.warning(
            "%s: set dfs.namenode.secondary.http-address to this host's name, as in the NameNodes' configuration, or "
            "add the user to dfs.cluster.administrators of the NameNodes",
            refusal,
        )
    else:
        key = kerberos.upload_principals.get(login.principal, keys.CLUSTER_ADMINISTRATORS.name)
        _LOG.info("NameNodes accept images from this principal: %s", key)


def _try_web_logins(kerberos: KerberosSettings, namenodes: Iterable[str]) -> None:
    """Log a warning for each NameNode whose web server does not use Kerberos."""
    from checkpointer.transfer.logins import refuses_logins
    from hadoop_rpc.spnego import advice_on_open_servers

    for url in namenodes:
        if refuses_logins(url, timeout=_PROBE_SECONDS):
            _LOG.warning("%s: %s", url, advice_on_open_servers(kerberos.login))


def role_class(role: Role) -> Callable[[CheckpointConfig], CheckpointRole]:
    """Return the class of a role, and import only its module."""
    match role:
        case Role.SECONDARY:
            from checkpointer.roles.secondary.role import SecondaryRole

            return SecondaryRole
        case Role.STANDBY:
            from checkpointer.roles.standby.role import StandbyRole

            return StandbyRole
        case Role.BACKUP:
            from checkpointer.roles.backup.role import BackupRole

            return BackupRole
