"""The other JournalNodes of a journal, and calls to these nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import NoSuchProtocolError, NotAuthorizedError
from hadoop_rpc.qjournal_protocol import InterQJournalClient, QJournalClient
from hadoop_rpc.qjournal_values import NodeManifest
from journal.quorum.address import NodeAddress, http_base, segment_url
from journal_node.peer_metrics import METRICS_AGE, promised_epoch

_LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 60.0

T = TypeVar("T")


class PeerNode(Protocol):
    """Another node; every method raises RpcError if the node does not answer or refuses the call."""

    @property
    def name(self) -> str: ...

    def manifest(self, journal_id: str) -> NodeManifest:
        """Return the node's finalized segments."""

    def segment_url(self, journal_id: str, first: int, namespace: StorageInfo, manifest: NodeManifest) -> str:
        """Return the URL of a segment in the manifest."""

    def storage_info(self, journal_id: str) -> StorageInfo:
        """Return the journal's namespace; nodes before Hadoop 3.5 raise NoSuchRpcMethodError or NoSuchProtocolError."""

    def promised_epoch(self, journal_id: str) -> int:
        """Return the newest epoch that the node has promised, at the creation of this object or later.

        Raises:
            JournalNotFormattedError: the node does not have the journal.
        """


class RpcPeer:
    """`PeerNode` over RPC; each call opens a connection, because calls are minutes apart.

    Args:
        user: the user in the calls.
        timeout: timeout of each call in seconds.
        nameservice: nameservice of the journal; a Hadoop 3 node may need it to find the journal.
        clock, pause: function that returns monotonic seconds, and function that waits.
    """

    def __init__(
        self,
        address: NodeAddress,
        *,
        user: str,
        timeout: float = DEFAULT_TIMEOUT,
        nameservice: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = address
        self._user = user
        self._timeout = timeout
        self._nameservice = nameservice
        self._clock = clock
        self._pause = pause
        self._made_at = clock()

    @property
    def name(self) -> str:
        return str(self._address)

    def manifest(self, journal_id: str) -> NodeManifest:
        try:
            return self._ask(lambda peer: peer.get_edit_log_manifest(journal_id, 0, in_progress_ok=False))
        except NoSuchProtocolError:
            # Hadoop 2 nodes have no protocol for other JournalNodes, but answer the calls of NameNodes.
            with self._client() as client:
                return client.get_edit_log_manifest(journal_id, 0, in_progress_ok=False)

    def segment_url(self, journal_id: str, first: int, namespace: StorageInfo, manifest: NodeManifest) -> str:
        return segment_url(http_base(self._address, manifest), journal_id, first, namespace)

    def storage_info(self, journal_id: str) -> StorageInfo:
        return self._ask(lambda peer: peer.get_storage_info(journal_id))

    def promised_epoch(self, journal_id: str) -> int:
        with self._client() as client:
            try:
                return client.get_journal_state(journal_id).last_promised_epoch
            except NotAuthorizedError as refusal:
                return self._epoch_in_metrics(journal_id, refusal)

    def _epoch_in_metrics(self, journal_id: str, refusal: NotAuthorizedError) -> int:
        """Return the promise in the node's metrics, which JournalNodes may read; raise `refusal` for old nodes."""
        try:
            manifest = self._ask(lambda peer: peer.get_edit_log_manifest(journal_id, 0, in_progress_ok=False))
        except NoSuchProtocolError:
            raise refusal from None
        left = self._made_at + METRICS_AGE - self._clock()
        if left > 0:
            # The metrics must include all promises from before this node was wiped.
            _LOG.info("%s: the metrics of %s will be read in %.0f s", journal_id, self.name, left)
            self._pause(left)
        return promised_epoch(http_base(self._address, manifest), journal_id, timeout=self._timeout)

    def _ask(self, call: Callable[[InterQJournalClient], T]) -> T:
        host, port = self._address.host, self._address.port
        with InterQJournalClient(
            host, port, user=self._user, timeout=self._timeout, nameservice=self._nameservice
        ) as client:
            return call(client)

    def _client(self) -> QJournalClient:
        host, port = self._address.host, self._address.port
        return QJournalClient(host, port, user=self._user, timeout=self._timeout, nameservice=self._nameservice)


def others(nodes: Sequence[NodeAddress], own_port: int, is_local: Callable[[str], bool]) -> tuple[NodeAddress, ...]:
    """Return `nodes` without this node, which has `own_port` on this host (JournalNodeSyncer.getJournalAddrList)."""
    found = tuple(node for node in nodes if node.port != own_port or not is_local(node.host))
    if len(found) == len(nodes):
        _LOG.warning(
            "this node, which listens on port %d, is not one of the JournalNodes %s",
            own_port,
            ", ".join(map(str, nodes)),
        )
    return found
