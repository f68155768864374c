"""Address at which a configuration's daemon is reached from its own host."""

from __future__ import annotations

from collections.abc import Mapping

from checkpointer.errors import TransferError
from hadoop_common.addresses import host_port
from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.report import likely_role

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class DaemonNotFoundError(TransferError):
    """No daemon answers at the addresses where it may listen; `tried` maps those addresses to roles."""

    def __init__(self, tried: Mapping[str, Role]) -> None:
        self.tried = dict(tried)
        places = ", ".join(f"{url} ({role.value})" for url, role in tried.items())
        super().__init__(
            places,
            "no daemon answers",
            hint="Start it with `checkpointer run --conf DIR`, or specify its role with --role if it runs elsewhere.",
        )


def daemon_url(config: CheckpointConfig) -> str:
    """Return the http or https URL of the daemon that uses `config`; loopback replaces a wildcard address."""
    host, port = config.web.first
    host = _LOOPBACK.get(host, host)
    return f"{'https' if config.web.http is None else 'http'}://{host_port(host, port)}"


def candidate_urls(configuration: Configuration, role: Role | None) -> dict[str, Role]:
    """Return the addresses where the daemon may listen, most likely first; if `role` is given, only its address.

    Raises:
        ConfigurationError: the configuration cannot be used for `role` or, without `role`, for the configured role.
    """
    likely = likely_role(configuration) if role is None else role
    urls = {daemon_url(CheckpointConfig.from_configuration(configuration, likely)): likely}
    for other in Role if role is None else ():
        try:
            urls.setdefault(daemon_url(CheckpointConfig.from_configuration(configuration, other)), other)
        except ConfigurationError:
            # a daemon cannot run in a role for which the configuration is invalid
            continue
    return urls
