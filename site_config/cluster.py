"""The NameNodes in a configuration, independent of this node's role, and their HA states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.tls.settings import HTTP_POLICY
from hadoop_rpc.errors import RpcError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from site_config.addresses import Identity, identity, namenode_rpc, namenode_urls
from site_config.keys import DEFAULTS, HA_NAMENODES

# an unknown state sorts before standby, because the NameNode may be a slow active NameNode, or a NameNode without HA
_ORDER = {HAState.ACTIVE: 0, None: 1, HAState.OBSERVER: 2, HAState.STANDBY: 3, HAState.INITIALIZING: 4}


@dataclass(frozen=True, slots=True)
class NameNodeAddress:
    """A NameNode's addresses: `http` is `http://host:port`, and `rpc` is host and port, or None if not configured."""

    http: str
    rpc: tuple[str, int] | None


def namenode_addresses(configuration: Configuration) -> tuple[NameNodeAddress, ...]:
    """Return all NameNodes except this node.

    Raises:
        ConfigurationError: the HTTP address of a NameNode is missing or malformed.
    """
    settings = configuration.with_defaults(DEFAULTS)
    who: Identity = identity(settings)
    urls = namenode_urls(settings, who, HTTP_POLICY.read(settings))
    if not urls:
        raise ConfigurationError([settings.fault(HA_NAMENODES.name, "names only this node")])
    # an image can be fetched without RPC
    none: tuple[tuple[str, int], ...] = ()
    rpc = FaultCollector().take(lambda: namenode_rpc(settings, who), none)
    return tuple(NameNodeAddress(url, rpc[number] if number < len(rpc) else None) for number, url in enumerate(urls))


def ask_state(address: NameNodeAddress, *, user: str, timeout: float) -> HAState | None:
    """Return the HA state of a NameNode, or None if the query fails."""
    if address.rpc is None:
        return None
    try:
        with HAServiceClient(*address.rpc, user=user, timeout=timeout, connect_timeout=timeout) as client:
            return client.service_status().state
    except RpcError:
        # the NameNode may still answer over HTTP
        return None


def active_first(
    addresses: Sequence[NameNodeAddress], state_of: Callable[[NameNodeAddress], HAState | None]
) -> list[NameNodeAddress]:
    """Return the NameNodes in the order in which to try them; if there is only one, do not query it."""
    if len(addresses) < 2:
        return list(addresses)
    return sorted(addresses, key=lambda each: _ORDER[state_of(each)])
