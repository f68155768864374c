"""Addresses and identities in a cluster's configuration: nameservice, this node's id, and addresses of all
NameNodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from hadoop_common.addresses import WILDCARDS, host_port, is_local
from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.tls.settings import HttpPolicy
from site_config import keys

_RPC_KEYS = (keys.SERVICERPC_ADDRESS, keys.RPC_ADDRESS)
# characters that java.net.URI does not allow in a host; a host contains braces if a variable is not set
_NO_HOST = frozenset(' \t\r\n"<>\\^`{|}')
RPC_PORT = 8020


@dataclass(frozen=True, slots=True)
class Identity:
    """The nameservice of this node, and the node's id in the nameservice.

    Attributes:
        nameservice: "" if no nameservices are configured.
        namenodes: ids of the nameservice's NameNodes, empty if the nameservice has no HA.
        own_id: this node's id among `namenodes`, or "" if this node is not a NameNode of the nameservice.
    """

    nameservice: str = ""
    namenodes: tuple[str, ...] = ()
    own_id: str = ""

    @property
    def is_ha(self) -> bool:
        return bool(self.namenodes)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(each for each in self.namenodes if each != self.own_id)


def identity(configuration: Configuration, *own: ConfigKey[str]) -> Identity:
    """Return the nameservice, its NameNodes and this node's id (DFSUtil.getNamenodeNameServiceId).

    Among several nameservices, select the nameservice for which the first key of `own` contains an address of this
    host. If no nameservice matches, compare dfs.namenode.rpc-address instead. Only dfs.ha.namenode.id determines this
    node's id, because a checkpointer may run on a NameNode's host.

    Raises:
        ConfigurationError: the nameservice is ambiguous or unknown, or dfs.ha.namenode.id is not one of its NameNodes.
    """
    services = nameservices(configuration)
    own_id = keys.HA_NAMENODE_ID.read(configuration)
    nameservice = keys.NAMESERVICE_ID.read(configuration)
    _check_known(configuration, keys.INTERNAL_NAMESERVICES, services)
    if nameservice and services:
        _check_known(configuration, keys.NAMESERVICE_ID, [nameservice])
    if not nameservice:
        nameservice = _our_service(configuration, services, own_id, (*own, keys.RPC_ADDRESS))
    namenodes = tuple(namenode_ids(configuration, nameservice)) if nameservice else ()
    if own_id and namenodes and own_id not in namenodes:
        raise ConfigurationError(
            [
                configuration.fault(
                    keys.HA_NAMENODE_ID.name,
                    f"is not one of {keys.HA_NAMENODES.of(nameservice)} ({', '.join(namenodes)})",
                )
            ]
        )
    return Identity(nameservice, namenodes, own_id)


def nameservices(configuration: Configuration) -> list[str]:
    return keys.INTERNAL_NAMESERVICES.read(configuration) or keys.NAMESERVICES.read(configuration)


def namenode_ids(configuration: Configuration, nameservice: str) -> list[str]:
    return keys.HA_NAMENODES.read(configuration, keys.HA_NAMENODES.of(nameservice))


def _our_service(
    configuration: Configuration, services: list[str], own_id: str, own: tuple[ConfigKey[str], ...]
) -> str:
    if len(services) < 2:
        return services[0] if services else ""
    for key in own:
        local = [each for each in services if _is_here(configuration, key, each, own_id)]
        if len(local) == 1:
            return local[0]
        if local:
            raise _unclear(configuration, f"{key.name} of {' and '.join(local)} is an address of this host")
    holding = [each for each in services if own_id in namenode_ids(configuration, each)]
    if len(holding) == 1:
        return holding[0]
    raise _unclear(configuration, f"{own[-1].name} is not an address of this host for any of {', '.join(services)}")


def _is_here(configuration: Configuration, key: ConfigKey[str], nameservice: str, own_id: str) -> bool:
    """Return whether `key` of any NameNode in the nameservice is an address of this host; with `own_id`, check only the
    NameNode with that id.
    """
    ids = [each for each in namenode_ids(configuration, nameservice) if own_id in ("", each)]
    names = [key.of(nameservice), *(key.of(f"{nameservice}.{each}") for each in ids)]
    # a malformed address may belong to another nameservice, and the code that uses the address reports the fault
    faults = FaultCollector()
    hosts = [faults.take(partial(address, configuration, name, 0), ("", 0))[0] for name in names]
    return any(is_local(host) for host in hosts if host)


def _check_known(configuration: Configuration, key: ConfigKey[Any], services: list[str]) -> None:
    known = keys.NAMESERVICES.read(configuration)
    if not set(services).issubset(known):
        problem = f"is not in {keys.NAMESERVICES.name} ({', '.join(known) or 'empty'})"
        raise ConfigurationError([configuration.fault(key.name, problem)])


def _unclear(configuration: Configuration, problem: str) -> ConfigurationError:
    key = keys.NAMESERVICE_ID.name
    return ConfigurationError([configuration.fault(key, f"is required with several nameservices: {problem}")])


def scoped_key(configuration: Configuration, key: str, nameservice: str, namenode: str) -> str:
    """Return the most specific form of `key` that is set: `key.NS.NN`, `key.NS` or else `key`
    (DFSUtil.setGenericConf).
    """
    candidates = []
    if nameservice:
        candidates += [f"{key}.{nameservice}.{namenode}"] if namenode else []
        candidates += [f"{key}.{nameservice}"]
    return next((each for each in candidates if each in configuration), key)


def parse_host_port(text: str, default_port: int) -> tuple[str, int]:
    """Return the host and port of `host:port`, `[v6]:port` or `host`, optionally after a scheme.

    Raises:
        ValueError: the text is not an address.
    """
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = parts.port
    except ValueError as fault:
        raise ValueError(f"is not host:port ({fault})") from fault
    if not parts.hostname or parts.username or parts.path.strip("/") or _NO_HOST.intersection(parts.hostname):
        raise ValueError("is not host:port")
    return parts.hostname, default_port if port is None else port


def namenode_urls(configuration: Configuration, who: Identity, policy: HttpPolicy) -> tuple[str, ...]:
    """Return `http(s)://host:port` of the NameNodes that receive images: with HA, the other NameNodes; otherwise, the
    only NameNode.

    Raises:
        ConfigurationError: an address is malformed, or the host of a NameNode is not configured.
    """
    ids = who.others if who.is_ha else ("",)
    return tuple(_url(configuration, who.nameservice, namenode, policy) for namenode in ids)


def _url(configuration: Configuration, nameservice: str, namenode: str, policy: HttpPolicy) -> str:
    secure = not policy.plain
    base = keys.HTTPS_ADDRESS if secure else keys.HTTP_ADDRESS
    key = scoped_key(configuration, base.name, nameservice, namenode)
    host, port = address(configuration, key, base.port)
    if host in WILDCARDS:
        host = _host_of_rpc(configuration, nameservice, namenode, key)
    port = _port_of_server(configuration, key, port)
    return f"{'https' if secure else 'http'}://{host_port(host, port)}"


def _port_of_server(configuration: Configuration, key: str, port: int) -> int:
    """Return the port of another node's server; raise ConfigurationError for port 0."""
    if not port:
        raise ConfigurationError([configuration.fault(key, "has port 0, to which clients cannot connect")])
    return port


def namenode_rpc(configuration: Configuration, who: Identity) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of the RPC servers of the NameNodes in `namenode_urls`, in the same order.

    As Hadoop's checkpointers do, prefer the service RPC address (NameNode.getServiceAddress). Without HA, fs.defaultFS
    may define the address.

    Raises:
        ConfigurationError: an address is malformed, or the host of a NameNode is not configured.
    """
    ids = who.others if who.is_ha else ("",)
    return tuple(_rpc_address(configuration, who.nameservice, namenode) for namenode in ids)


def _rpc_address(configuration: Configuration, nameservice: str, namenode: str) -> tuple[str, int]:
    for base in _RPC_KEYS:
        key = scoped_key(configuration, base.name, nameservice, namenode)
        if not configuration.get(key, ""):
            continue
        host, port = address(configuration, key, RPC_PORT)
        if host in WILDCARDS:
            host = _host_of_rpc(configuration, nameservice, namenode, key)
        return host, _port_of_server(configuration, key, port)
    host, port = default_fs(configuration)
    if not namenode and host not in ("", nameservice):
        return host, _port_of_server(configuration, keys.DEFAULT_FS.name, port)
    # as a last resort, use Hadoop's default port on the host of the HTTP address
    http_key = scoped_key(configuration, keys.HTTP_ADDRESS.name, nameservice, namenode)
    host, _ = address(configuration, http_key, 0)
    if host in WILDCARDS:
        host = _host_of_rpc(configuration, nameservice, namenode, http_key)
    wanted = http_key.replace(keys.HTTP_ADDRESS.name, keys.RPC_ADDRESS.name)
    problem = f"names the NameNode's host, but no key names its RPC address; {RPC_PORT} is assumed: set {wanted}"
    configuration.warn(configuration.fault(http_key, problem))
    return host, RPC_PORT


def address(configuration: Configuration, key: str, default_port: int) -> tuple[str, int]:
    """Return the host and port of `key`; ("", `default_port`) if the key is not set.

    Raises:
        ConfigurationError: the value is not an address.
    """
    text = configuration.get(key, "")
    if not text:
        return "", default_port
    try:
        return parse_host_port(text, default_port)
    except ValueError as fault:
        raise ConfigurationError([configuration.fault(key, str(fault), text)]) from fault


def default_fs(configuration: Configuration) -> tuple[str, int]:
    """Return the host and RPC port in fs.defaultFS; the host is "" if the URI has no host or names another file system.

    A value without a slash is a host and port of HDFS, except "local" (FileSystem.fixName).

    Raises:
        ConfigurationError: the value is not a URI with a host and a port.
    """
    name = keys.DEFAULT_FS.read(configuration)
    if "/" not in name and name != "local":
        name = f"hdfs://{name}"
    try:
        parts = urlsplit(name)
        host, port = parts.hostname or "", RPC_PORT if parts.port is None else parts.port
    except ValueError as fault:
        raise ConfigurationError(
            [configuration.fault(keys.DEFAULT_FS.name, f"is not hdfs://host:port ({fault})")]
        ) from fault
    return (host, port) if parts.scheme == "hdfs" else ("", RPC_PORT)


def _host_of_rpc(configuration: Configuration, nameservice: str, namenode: str, key: str) -> str:
    """Return the host of the NameNode's RPC address, which replaces the wildcard address in `key`."""
    rpc_key = scoped_key(configuration, keys.RPC_ADDRESS.name, nameservice, namenode)
    host, _ = address(configuration, rpc_key, 0)
    if host in WILDCARDS and not namenode:
        host, _ = default_fs(configuration)
    if host in WILDCARDS or host == nameservice:
        suffix = f".{nameservice}.{namenode}" if namenode else ""
        wanted = dict.fromkeys((f"{key.removesuffix(suffix)}{suffix}", f"{keys.RPC_ADDRESS.name}{suffix}"))
        problem = f"does not name the NameNode's host; set {' or '.join(wanted)}"
        raise ConfigurationError([configuration.fault(key, problem)])
    return host
