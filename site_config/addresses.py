"""Who is who in a cluster's configuration: nameservice, this node's id, the NameNodes' and our own HTTP address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.endpoint import host_port
from hadoop_common.local_address import is_local
from hadoop_common.tls.settings import HttpPolicy
from site_config import keys

_RPC_KEYS = (keys.SERVICERPC_ADDRESS, keys.RPC_ADDRESS)
WILDCARDS = ("0.0.0.0", "::", "")
_RPC_PORT = 8020


@dataclass(frozen=True, slots=True)
class Identity:
    """Where this node belongs.

    Attributes:
        nameservice: "" without nameservices.
        namenodes: ids of the nameservice's NameNodes, empty without HA.
        own_id: which of them we are, "" if none.
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
    """Nameservice, its NameNodes and our id among them (DFSUtil.getNamenodeNameServiceId).

    Of several nameservices ours is the one for which the first of the keys `own`, or else
    dfs.namenode.rpc-address, has an address of this host. An id is ours only where dfs.ha.namenode.id says so: a
    checkpointer may run beside a NameNode and is none then.

    Raises:
        ConfigurationError: the nameservice is not clear, or dfs.ha.namenode.id is none of its NameNodes.
    """
    services = nameservices(configuration)
    own_id = keys.HA_NAMENODE_ID.read(configuration)
    nameservice = keys.NAMESERVICE_ID.read(configuration)
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
    """The nameservices of this cluster."""
    return keys.INTERNAL_NAMESERVICES.read(configuration) or keys.NAMESERVICES.read(configuration)


def namenode_ids(configuration: Configuration, nameservice: str) -> list[str]:
    """Ids of the NameNodes of a nameservice."""
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
    raise _unclear(configuration, f"{own[-1].name} of none of {', '.join(services)} is an address of this host")


def _is_here(configuration: Configuration, key: ConfigKey[str], nameservice: str, own_id: str) -> bool:
    """Whether a node of a nameservice, the one with `own_id` where that is known, has an address of this host."""
    ids = [each for each in namenode_ids(configuration, nameservice) if own_id in ("", each)]
    names = [key.of(nameservice), *(key.of(f"{nameservice}.{each}") for each in ids)]
    # a malformed address, which may be another nameservice's, is reported where it is needed
    faults = FaultCollector()
    hosts = [faults.take(partial(address, configuration, name, 0), ("", 0))[0] for name in names]
    return any(is_local(host) for host in hosts if host)


def _unclear(configuration: Configuration, problem: str) -> ConfigurationError:
    key = keys.NAMESERVICE_ID.name
    return ConfigurationError([configuration.fault(key, f"is needed, for there are several nameservices: {problem}")])


def scoped_key(configuration: Configuration, key: str, nameservice: str, namenode: str) -> str:
    """The most specific form of `key` that is set: `key.NS.NN`, `key.NS`, else `key` (DFSUtil.setGenericConf)."""
    candidates = []
    if nameservice:
        candidates += [f"{key}.{nameservice}.{namenode}"] if namenode else []
        candidates += [f"{key}.{nameservice}"]
    return next((each for each in candidates if each in configuration), key)


def parse_host_port(text: str, default_port: int) -> tuple[str, int]:
    """Host and port of `host:port`, `[v6]:port` or `host`, with or without a scheme before it.

    Raises:
        ValueError: not such an address.
    """
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = parts.port
    except ValueError as fault:
        raise ValueError(f"is not host:port ({fault})") from fault
    if not parts.hostname or parts.username or parts.path.strip("/"):
        raise ValueError("is not host:port")
    return parts.hostname, default_port if port is None else port


def namenode_urls(configuration: Configuration, who: Identity, policy: HttpPolicy) -> tuple[str, ...]:
    """`http(s)://host:port` of the NameNodes an image goes to: the others of an HA nameservice, or the only one.

    Raises:
        ConfigurationError: an address is malformed, or nothing says on which host a NameNode is.
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
    if not port:
        raise ConfigurationError([configuration.fault(key, "has port 0, to which nothing can connect")])
    return f"{'https' if secure else 'http'}://{host_port(host, port)}"


def namenode_rpc(configuration: Configuration, who: Identity) -> tuple[tuple[str, int], ...]:
    """Host and port of the RPC servers of the NameNodes that `namenode_urls` names, in the same order.

    The service RPC address is preferred where there is one, as Hadoop's own checkpointers prefer it
    (NameNode.getServiceAddress); without HA the address may come from fs.defaultFS.

    Raises:
        ConfigurationError: an address is malformed, or nothing says where a NameNode's RPC server is.
    """
    ids = who.others if who.is_ha else ("",)
    return tuple(_rpc_address(configuration, who.nameservice, namenode) for namenode in ids)


def _rpc_address(configuration: Configuration, nameservice: str, namenode: str) -> tuple[str, int]:
    for base in _RPC_KEYS:
        key = scoped_key(configuration, base.name, nameservice, namenode)
        if not configuration.get(key, ""):
            continue
        host, port = address(configuration, key, _RPC_PORT)
        if host in WILDCARDS:
            host = _host_of_rpc(configuration, nameservice, namenode, key)
        return host, port
    host, port = default_fs(configuration)
    if not namenode and host not in ("", nameservice):
        return host, port
    # Hadoop's default port on the host that the HTTP address names, for want of a better word.
    http_key = scoped_key(configuration, keys.HTTP_ADDRESS.name, nameservice, namenode)
    host, _ = address(configuration, http_key, 0)
    return (_host_of_rpc(configuration, nameservice, namenode, http_key) if host in WILDCARDS else host), _RPC_PORT


def address(configuration: Configuration, key: str, default_port: int) -> tuple[str, int]:
    """Host and port that `key` holds; a host of "" and the default port where it is not set.

    Raises:
        ConfigurationError: it is no address.
    """
    text = configuration.get(key, "")
    if not text:
        return "", default_port
    try:
        return parse_host_port(text, default_port)
    except ValueError as fault:
        raise ConfigurationError([configuration.fault(key, str(fault), text)]) from fault


def default_fs(configuration: Configuration) -> tuple[str, int]:
    """Host and RPC port that fs.defaultFS names; a host of "" where it names none, or another file system.

    Raises:
        ConfigurationError: it is no URI with a host and a port.
    """
    try:
        parts = urlsplit(keys.DEFAULT_FS.read(configuration))
        host, port = parts.hostname or "", _RPC_PORT if parts.port is None else parts.port
    except ValueError as fault:
        raise ConfigurationError(
            [configuration.fault(keys.DEFAULT_FS.name, f"is no hdfs://host:port ({fault})")]
        ) from fault
    return (host, port) if parts.scheme == "hdfs" else ("", _RPC_PORT)


def _host_of_rpc(configuration: Configuration, nameservice: str, namenode: str, http_key: str) -> str:
    rpc_key = scoped_key(configuration, keys.RPC_ADDRESS.name, nameservice, namenode)
    host, _ = address(configuration, rpc_key, 0)
    if host in WILDCARDS and not namenode:
        host, _ = default_fs(configuration)
    if host in WILDCARDS or host == nameservice:
        suffix = f".{nameservice}.{namenode}" if namenode else ""
        wanted = f"{http_key.removesuffix(suffix)}{suffix}"
        alternative = f"{keys.RPC_ADDRESS.name}{suffix}" if namenode else keys.DEFAULT_FS.name
        problem = f"does not say on which host the NameNode is; set {wanted} or {alternative}"
        raise ConfigurationError([configuration.fault(http_key, problem)])
    return host
