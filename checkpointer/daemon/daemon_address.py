"""Address at which commands on the daemon's host reach the daemon of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checkpointer.errors import TransferError
from hadoop_common.addresses import host_port, reachable_here
from hadoop_common.configuration import Configuration, ConfigurationError, ConfigurationFault
from hadoop_common.errors import HdfsError
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.report import likely_role


def daemon_url(config: CheckpointConfig) -> str:
    """Return the http or https URL of the daemon that uses `config`; loopback replaces a wildcard address."""
    host, port = config.web.first
    return f"{'https' if config.web.http is None else 'http'}://{host_port(reachable_here(host), port)}"


@dataclass(frozen=True, slots=True)
class DaemonAddresses:
    """The addresses at which the daemon of a configuration may listen.

    Attributes:
        urls: the role of the daemon at each address, the most likely address first.
        faults: faults of the configuration. These faults do not affect a running daemon, which has read an earlier
            configuration.
    """

    urls: Mapping[str, Role]
    faults: tuple[ConfigurationFault, ...] = ()

    def not_found(self) -> HdfsError:
        """Return the error to raise if no daemon answers. The error includes the faults, because a daemon cannot start
        with them.
        """
        places = ", ".join(f"{url} ({role.value})" for url, role in self.urls.items())
        problem = "no daemon answers"
        if self.faults:
            return ConfigurationError([*self.faults, ConfigurationFault(places, problem)])
        hint = "Start it with `checkpointer run --conf DIR`, or specify its role with --role if it runs elsewhere."
        return TransferError(places, problem, hint=hint)


def daemon_addresses(configuration: Configuration, role: Role | None) -> DaemonAddresses:
    """Return the addresses at which the daemon may listen; if `role` is given, only its address.

    Raises:
        ConfigurationError: the configuration does not contain the address for `role` or, without `role`, for the
            configured role.
    """
    likely = likely_role(configuration) if role is None else role
    config, faults = CheckpointConfig.with_faults(configuration, likely)
    if faults and not config.web.first[1]:
        raise ConfigurationError(faults)
    urls = {daemon_url(config): likely}
    for other in Role if role is None else ():
        try:
            config, found = CheckpointConfig.with_faults(configuration, other)
        except ConfigurationError:
            continue
        # a daemon cannot run in a role that the configuration does not allow
        if set(found) <= set(faults):
            urls.setdefault(daemon_url(config), other)
    return DaemonAddresses(urls, faults)
