"""Access to our servers on a cluster without Kerberos: only hosts in the configuration may call the servers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hadoop_common.access import ANYBODY, LOOPBACK, AccessRules
from hadoop_common.addresses import WILDCARDS
from hadoop_common.configuration import Configuration
from hadoop_common.process_user import process_user
from hadoop_rpc.user import USER_NAME
from journal.errors import JournalError
from journal.quorum.address import SCHEME, QuorumAddress
from site_config import keys
from site_config.addresses import default_fs, namenode_ids, parse_host_port

_LOG = logging.getLogger(__name__)
_OF_NAMENODES = (keys.SERVICERPC_ADDRESS, keys.RPC_ADDRESS, keys.HTTP_ADDRESS, keys.HTTPS_ADDRESS)
_OF_CHECKPOINTERS = (
    keys.SECONDARY_HTTP_ADDRESS,
    keys.SECONDARY_HTTPS_ADDRESS,
    keys.BACKUP_ADDRESS,
    keys.BACKUP_HTTP_ADDRESS,
)
_SUPERUSER = "hdfs"


def access_rules(settings: Configuration) -> AccessRules:
    """Return rules that admit loopback, all nameservices' NameNodes, checkpointers and JournalNodes, and the hosts and
    users in `checkpointer.access.*`.

    If the configuration does not name a NameNode, which Hadoop allows on JournalNode hosts, any host may call.

    Raises:
        ConfigurationError: HADOOP_USER_NAME or a key cannot be used.
    """
    namenodes = set(_namenode_hosts(settings))
    hosts = {*LOOPBACK, *namenodes, *_other_hosts(settings), *keys.ACCESS_HOSTS.read(settings)}
    if not namenodes:
        hosts.add(ANYBODY)
    users = {USER_NAME.read(settings) or process_user(), process_user(), _SUPERUSER, *keys.ACCESS_USERS.read(settings)}
    return AccessRules(tuple(sorted(hosts)), frozenset(users))


def _namenode_hosts(settings: Configuration) -> Iterator[str]:
    services = _services(settings)
    for service in ("", *services):
        ids = namenode_ids(settings, service) if service else []
        for suffix in ([service] if service else [""]) + [f"{service}.{each}" for each in ids]:
            for key in _OF_NAMENODES:
                yield from _host(settings, f"{key.name}.{suffix}" if suffix else key.name)
    host, _ = default_fs(settings)
    if host not in (*WILDCARDS, *services):
        yield host


def _services(settings: Configuration) -> list[str]:
    return [*keys.INTERNAL_NAMESERVICES.read(settings), *keys.NAMESERVICES.read(settings)]


def _other_hosts(settings: Configuration) -> Iterator[str]:
    for key in _OF_CHECKPOINTERS:
        for suffix in ("", *(f".{service}" for service in _services(settings))):
            yield from _host(settings, f"{key.name}{suffix}")
    # as in Hadoop, variables that refer to each other are a fault only in a key that is read
    for name in (each for each in sorted(settings.keys()) if each.startswith(keys.SHARED_EDITS_DIR.name)):
        value = settings.get(name, "")
        if value.startswith(f"{SCHEME}:"):
            try:
                yield from (node.host for node in QuorumAddress.parse(value).nodes)
            except JournalError as fault:
                # the code that uses the key also reports the fault
                _LOG.debug("%s: %s", name, fault)


def _host(settings: Configuration, key: str) -> Iterator[str]:
    text = settings.get(key, "")
    try:
        host = parse_host_port(text, 0)[0] if text else ""
    except ValueError:
        return
    if host not in WILDCARDS:
        yield host
