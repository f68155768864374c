"""`namenode-stub`: formats storage, runs a NameNode as active or standby, and changes its state."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import click

from console.process_panels import watch_log, watch_settings
from hadoop_common.addresses import host_port, reachable_here
from hadoop_common.cli.output import EXISTING_FOLDER, load_configuration, shown_error
from hadoop_common.cluster_http import send_request
from hadoop_common.file_faults import network_reason
from hadoop_common.log_lines import log_to_stderr
from hadoop_common.process_control import Control
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.spnego import Spnego
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT
from namenode_stub.bootstrap import bootstrap_standby
from namenode_stub.config import StubConfig, stub_config
from namenode_stub.edit_journals import open_other_journals
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from site_config.shown_settings import shown_settings

# the recovery of a quorum may wait several times for a slow JournalNode (dfs.qjournal.*.timeout.ms)
_TRANSITION_SECONDS = 900.0
_POLL_SECONDS = 0.2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run a small NameNode that writes images and edits in Hadoop's formats."""


_conf = click.option(
    "--conf", "conf_dir", required=True, type=EXISTING_FOLDER, help="Directory with core-site.xml and hdfs-site.xml."
)


def _config(conf_dir: Path) -> StubConfig:
    """Read the configuration; on a kerberized cluster, also log in."""
    config = stub_config(load_configuration(conf_dir))
    if config.kerberos is not None:
        log_in(config.kerberos.login)
    return config


@cli.command("format")
@_conf
@click.option(
    "--layout",
    default=NEWEST_LAYOUT.value,
    show_default=True,
    help=f"Layout version, {MIN_MERGE_LAYOUT.value} to {NEWEST_LAYOUT.value}; -63 is the layout of Hadoop 2.7.",
)
@click.option("--force", is_flag=True, help="Delete existing data.")
def format_command(conf_dir: Path, layout: int, force: bool) -> None:
    """Create storage directories with an empty namespace, and format the configured journals.

    All JournalNodes of dfs.namenode.shared.edits.dir and dfs.namenode.edits.dir must be running.

        \b
        Example: namenode-stub format --conf /etc/hadoop/conf
    """
    config = _config(conf_dir)
    info = new_storage_info(layout)
    with ExitStack() as closing:
        journals = open_other_journals(config)
        for journal in journals:
            closing.callback(journal.close)
        format_storage(
            config.image_directories,
            config.edits_directories,
            info,
            journals=journals,
            force=force,
            user=config.rpc_user,
            group=config.supergroup,
        )
    click.echo(f"formatted, cluster {info.cluster_id}")


@cli.command("bootstrap-standby")
@_conf
@click.option("--force", is_flag=True, help="Delete existing data.")
def bootstrap_command(conf_dir: Path, force: bool) -> None:
    """Create the storage directories of a second NameNode with the newest image of the first NameNode, which must be
    running.

    \b
    Example: namenode-stub bootstrap-standby --conf /etc/hadoop/conf
    """
    _config(conf_dir)
    txid = bootstrap_standby(load_configuration(conf_dir), force=force)
    click.echo(f"formatted with the image at txid {txid}")


@cli.command("run")
@_conf
@click.option("--standby", is_flag=True, help="Follow the shared edits until asked to become active.")
def run(conf_dir: Path, standby: bool) -> None:
    """Run until SIGTERM or POST /shutdown: load image and edits, serve the namespace over RPC and HTTP, accept images.

    RPC is served at dfs.namenode.rpc-address, or at the host of fs.defaultFS. Hadoop's clients and checkpointers can
    use it for operations on names, but there are no DataNodes. Permissions are stored, but not enforced. The superuser
    is the user who runs this command, or HADOOP_USER_NAME.

    A standby follows dfs.namenode.shared.edits.dir and refers clients to the active NameNode. `namenode-stub transition
    active` or `hdfs haadmin -transitionToActive` makes it active. This fences the other NameNode, which stops at its
    next write. With dfs.ha.automatic-failover.enabled, the stub starts as a standby, and a failover controller
    (`checkpointer zkfc run`) changes its state. After a failure, it then becomes a standby again automatically.

        \b
        Example: namenode-stub run --conf /etc/hadoop/conf
    """
    log_to_stderr(logging.INFO)
    watch_log()
    config = _config(conf_dir)
    watch_settings(shown_settings(load_configuration(conf_dir)))
    stub = NameNodeStub(config, standby=standby)
    with Control(config.stop_timeout) as control, stub:
        while not stub.shutdown_requested.is_set() and control.wait(_POLL_SECONDS) is None:
            stub.recover()


@cli.command("transition")
@_conf
@click.argument("state", type=click.Choice(["active", "standby"]))
@click.option("--force", is_flag=True, help="Change the state even with automatic failover.")
def transition_command(conf_dir: Path, state: str, force: bool) -> None:
    """Make the running NameNode of this configuration active or standby.

    \b
    Example: namenode-stub transition active --conf /etc/hadoop/conf
    """
    url = f"{_own_url(_config(conf_dir))}/transition/{state}{'?force=true' if force else ''}"
    try:
        headers = Spnego(urlsplit(url).hostname or "").headers
        answer = send_request("POST", url, headers=headers, timeout=_TRANSITION_SECONDS)
    except OSError as fault:
        raise click.ClickException(f"{url}: no NameNode answers there: {network_reason(fault)}") from fault
    reply = answer.json
    if not isinstance(reply, dict):
        raise click.ClickException(f"{url}: the answer does not come from a NameNode (HTTP {answer.status})")
    if answer.status != HTTPStatus.OK:
        raise click.ClickException(
            f"{reply.get('error') or answer.text}\n  next: {reply.get('hint') or 'See its log.'}"
        )
    click.echo(f"the NameNode is {state}")


def _own_url(config: StubConfig) -> str:
    host, port = config.web.first
    scheme = "https" if config.web.http is None else "http"
    return f"{scheme}://{host_port(reachable_here(host), port)}"


def main() -> None:
    """Run the command line; an expected error prints one line and sets its exit code."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except Exception as fault:
        sys.exit(shown_error("namenode-stub", fault).exit_code)


if __name__ == "__main__":
    main()
