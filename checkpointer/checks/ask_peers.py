"""Parallel queries to all nodes of a cluster for the console, with limits on time and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from checkpointer.checks.ask_namenode import get_logged_in
from checkpointer.checks.bounded import ask_all
from checkpointer.daemon.daemon_address import daemon_url
from checkpointer.errors import TransferError
from checkpointer.transfer.image_acceptance import ask_txids
from console.cluster_page import Peer, PeerAnswer
from hadoop_common.addresses import WILDCARDS, host_port
from hadoop_common.configuration import Configuration
from journal.quorum.address import SCHEME, QuorumAddress
from site_config.addresses import address, scoped_key
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.failover_keys import AUTOMATIC_FAILOVER, ZKFC_HTTP_ADDRESS, ZKFC_HTTPS_ADDRESS
from site_config.journal_node_keys import JOURNALNODE_HTTP_ADDRESS, JOURNALNODE_HTTPS_ADDRESS
from site_config.keys import CONSOLE_PEERS, DEFAULTS

_SECONDS: Final = 4.0
_MAX_PEERS: Final = 64
_BEANS: Final = "/jmx?qry=Hadoop:service=NameNode,name={}"
_NAMENODE_BEANS: Final = ("NameNodeStatus", "FSNamesystem", "FSNamesystemState")


def peers_of(configuration: Configuration, role: Role) -> list[Peer]:
    """Return the nodes that a cluster's configuration names.

    Raises:
        ConfigurationError: the configuration cannot be used for `role`.
    """
    config = CheckpointConfig.from_configuration(configuration, role)
    settings = configuration.with_defaults(DEFAULTS)
    secure = config.web.http is None

    def urls(hosts: Sequence[str], plain: str, secured: str) -> list[str]:
        port = int((secured if secure else plain).rpartition(":")[2])
        return [f"{'https' if secure else 'http'}://{host_port(host, port)}" for host in dict.fromkeys(hosts)]

    found = [Peer(url, "namenode") for url in config.namenode_http_addresses]
    if config.shared_edits.startswith(f"{SCHEME}:"):
        hosts = [node.host for node in QuorumAddress.parse(config.shared_edits).nodes]
        plain, secured = JOURNALNODE_HTTP_ADDRESS.read(settings), JOURNALNODE_HTTPS_ADDRESS.read(settings)
        found += [Peer(url, "journalnode") for url in urls(hosts, plain, secured)]
    found.append(Peer(daemon_url(config), "daemon"))
    found += [Peer(url.rstrip("/"), "daemon") for url in CONSOLE_PEERS.read(settings)]
    # Hadoop's own controllers have no web server
    found += [Peer(url, "daemon", optional=True) for url in _controllers(config, settings, secure=secure)]
    return list({peer.url: peer for peer in found}.values())[:_MAX_PEERS]


def _controllers(config: CheckpointConfig, settings: Configuration, *, secure: bool) -> Iterator[str]:
    """Yield the base URL of each NameNode's failover controller, if the nameservice has automatic failover."""
    if not AUTOMATIC_FAILOVER.read(settings, scoped_key(settings, AUTOMATIC_FAILOVER.name, config.nameservice, "")):
        return
    base = ZKFC_HTTPS_ADDRESS if secure else ZKFC_HTTP_ADDRESS
    for namenode, (namenode_host, _) in zip(config.namenode_ids, config.namenode_rpc_addresses, strict=False):
        host, port = address(settings, scoped_key(settings, base.name, config.nameservice, namenode), base.port)
        yield f"{'https' if secure else 'http'}://{host_port(namenode_host if host in WILDCARDS else host, port)}"


def ask_peers(peers: Sequence[Peer]) -> list[PeerAnswer]:
    """Query all `peers` in parallel, each for a few seconds; read at most 1 MiB of a response."""
    answers = ask_all({peer: partial(_ask, peer) for peer in peers}, 2 * _SECONDS)
    return [found.value or PeerAnswer(peer, error=found.error) for peer, found in answers.items()]


def _ask(peer: Peer) -> PeerAnswer:
    if peer.kind == "daemon":
        return _status(peer)
    if peer.kind == "journalnode":
        # our nodes serve /status, Hadoop's nodes only /jmx
        try:
            return _status(peer)
        except TransferError as error:
            if error.status is None:
                raise
        bean, _ = _bean(f"{peer.url}/jmx?qry=Hadoop:service=JournalNode,*")
        return PeerAnswer(peer, beans={"JournalNodeInfo": bean})
    found = {name: _bean(peer.url + _BEANS.format(name)) for name in _NAMENODE_BEANS}
    _, clock_ahead = found[_NAMENODE_BEANS[0]]
    beans = {name: bean for name, (bean, _) in found.items()}
    return PeerAnswer(peer, beans=beans, last_txid=_last_txid(peer.url), clock_ahead=clock_ahead)


def _last_txid(url: str) -> int | None:
    try:
        return ask_txids(url, timeout=_SECONDS).newest
    except TransferError:
        return None


def _status(peer: Peer) -> PeerAnswer:
    status, clock_ahead = _get(f"{peer.url}/status")
    return PeerAnswer(peer, status=status, clock_ahead=clock_ahead)


def _bean(url: str) -> tuple[Mapping[str, Any], float]:
    content, clock_ahead = _get(url)
    beans = content.get("beans")
    return beans[0] if isinstance(beans, list) and beans and isinstance(beans[0], dict) else {}, clock_ahead


def _get(url: str) -> tuple[Mapping[str, Any], float]:
    """Return the JSON object, and the difference of the peer's clock (`HttpAnswer.clock_difference`)."""
    answer = get_logged_in(url, _SECONDS)
    content = answer.json
    if answer.status != HTTPStatus.OK or not isinstance(content, dict):
        raise TransferError(url, f"HTTP {answer.status} instead of the state of a node", status=answer.status)
    return content, answer.clock_difference
