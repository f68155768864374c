"""The clusters of `checkpointer console`. A faulty configuration is read again at each query, until it is repaired."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.checks.ask_peers import ask_peers, peers_of
from checkpointer.cli.operator_login import log_in_as_operator
from console.cluster_page import Peer, PeerAnswer, ShownCluster
from hadoop_common.cli.output import echo, load_configuration, read_configuration
from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import HdfsError
from site_config.checkpoint_config import CheckpointConfig
from site_config.report import likely_role


def console_clusters(conf_dirs: Sequence[Path]) -> list[ShownCluster]:
    """Return the cluster of each configuration; the first configuration determines the login.

    Raises:
        ConfigurationError: all configurations are faulty.
        KerberosSetupError: Kerberos cannot be used on this host.
    """
    login = _Login(conf_dirs[0])
    clusters = {each: _ConfiguredCluster(each, login) for each in conf_dirs}
    faults = {each: cluster.fault for each, cluster in clusters.items() if cluster.fault}
    if len(faults) == len(clusters):
        raise ConfigurationError(dict.fromkeys(found for fault in faults.values() for found in fault.faults))
    for each, fault in faults.items():
        echo(f"warning: the configuration in {each} is faulty: {_joined(fault)}", err=True)
    with suppress(ConfigurationError):
        login.ensure()
    return [each.cluster for each in clusters.values()]


class _Login:
    """The login of this process, which is repeated until the configuration in `conf_dir` is valid."""

    def __init__(self, conf_dir: Path) -> None:
        self._conf_dir = conf_dir
        self._lock = threading.Lock()
        self._done = False

    def ensure(self) -> None:
        """Log in, unless this process is logged in; any thread may call this.

        Raises:
            ConfigurationError: the configuration is faulty.
            KerberosSetupError: Kerberos cannot be used on this host.
        """
        with self._lock:
            if not self._done:
                log_in_as_operator(load_configuration(self._conf_dir, warns=False))
                self._done = True


class _ConfiguredCluster:
    """The cluster of a configuration.

    Attributes:
        cluster: the cluster; while its configuration is faulty, its name is the directory.
        fault: fault of the configuration at the start, None if there was none.
    """

    def __init__(self, conf_dir: Path, login: _Login) -> None:
        self._conf_dir = conf_dir
        self._login = login
        self._peers: list[Peer] = []
        self.cluster = ShownCluster(str(conf_dir), self._ask)
        self.fault: ConfigurationError | None = None
        try:
            self._read(warns=True)
        except ConfigurationError as error:
            self.fault = error

    def _ask(self) -> Sequence[PeerAnswer]:
        """Query all nodes. Only one thread at a time may call this.

        Raises:
            HdfsError: the configuration is still faulty.
            KerberosSetupError: Kerberos cannot be used on this host.
        """
        if not self._peers:
            try:
                self._read(warns=False)
            except ConfigurationError as error:
                hint = f"Correct the configuration in {self._conf_dir}; the console then reads it again."
                raise HdfsError(f"the configuration is faulty: {_joined(error)}", hint=hint) from error
        # nodes that do not require a login answer in any case
        with suppress(ConfigurationError):
            self._login.ensure()
        return ask_peers(self._peers)

    def _read(self, *, warns: bool) -> None:
        """Read the nodes and the cluster's name from the configuration."""
        configuration = read_configuration(self._conf_dir, warns=warns)
        role = likely_role(configuration)
        peers = peers_of(configuration, role)
        nameservice = CheckpointConfig.from_configuration(configuration, role).nameservice
        self.cluster.name = f"{nameservice or peers[0].url.partition('://')[2]} ({self._conf_dir})"
        self._peers = peers


def _joined(error: ConfigurationError) -> str:
    return "; ".join(error.message.splitlines())
