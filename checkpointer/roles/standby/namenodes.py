"""RPC calls to the other NameNodes: search for the active NameNode, newest transactions, and rolls of the edit log."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from checkpointer.errors import TransferError
from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.version import ActiveVersion
from checkpointer.transfer.download import NO_SUCH_IMAGE, image_digest
from checkpointer.transfer.image_acceptance import ask_start_time
from hadoop_common.recurring_fault import PeerFaults
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import DEFAULT_TIMEOUT, NO_RETRY
from hadoop_rpc.client_protocol import ClientProtocolClient, RollingUpgradeInfo
from hadoop_rpc.errors import (
    NoSuchRpcMethodError,
    NotAuthorizedError,
    RpcConnectionError,
    RpcError,
    SafeModeError,
    StandbyError,
)
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from hadoop_rpc.namenode_protocol import NamenodeClient
from journal.journal import ReadableSegment
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
# short, because the upload of an image waits for the query of the state
_STATE_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 5.0
_TAKES_IMAGES = (HAState.ACTIVE, HAState.OBSERVER)


class RollRefusedError(RpcError):
    """Refusal of a roll request by every NameNode; the message contains each NameNode's response."""


class _NameNodeClients:
    """One NameNode: its HTTP address, and clients that connect on first use."""

    def __init__(self, http_address: str, rpc_address: tuple[str, int], user: str, timeout: float) -> None:
        host, port = rpc_address
        self.http_address = http_address
        self.edits = NamenodeClient(
            host, port, user=user, timeout=timeout, connect_timeout=_CONNECT_TIMEOUT, retry=NO_RETRY
        )
        self.ha = HAServiceClient(
            host, port, user=user, timeout=_STATE_TIMEOUT, connect_timeout=_CONNECT_TIMEOUT, retry=NO_RETRY
        )
        self.administration = ClientProtocolClient(
            host, port, user=user, timeout=timeout, connect_timeout=_CONNECT_TIMEOUT, retry=NO_RETRY
        )

    @property
    def address(self) -> str:
        return self.edits.address

    def version(self) -> ActiveVersion:
        """Return the `ActiveVersion` that the NameNode reports, in any HA state."""
        try:
            rolling = self.edits.is_rolling_upgrade()
        except NoSuchRpcMethodError:
            rolling = None
        info = self.edits.version_request().storage_info
        image = self.edits.most_recent_checkpoint_txid()
        return ActiveVersion(self.address, self.http_address, info, rolling, image)

    def close(self) -> None:
        self.edits.close()
        self.ha.close()
        self.administration.close()


def _start_time(http_address: str) -> int | None:
    """Return the start time of a NameNode's process, in ms since the epoch; None if it is unknown."""
    try:
        return ask_start_time(http_address, timeout=_STATE_TIMEOUT)
    except TransferError as error:
        _LOG.debug("%s does not report when it started: %s", http_address, error)
        return None


class NameNodes:
    """All other NameNodes of the nameservice. Any thread may call any method.

    Args:
        http_addresses, rpc_addresses: addresses of the same NameNodes, in the same order.
        user: a superuser of HDFS, because only superusers may request a roll.
        timeout: seconds for a call. Infinity means the RPC clients' default, because the tailer requests rolls and must
            not hang (Hadoop limits rolls with dfs.ha.tail-edits.rolledits.timeout).
        retries: number of requests for a roll to each NameNode (dfs.ha.tail-edits.namenode-retries).
    """

    def __init__(
        self,
        http_addresses: Sequence[str],
        rpc_addresses: Sequence[tuple[str, int]],
        *,
        user: str,
        timeout: float,
        retries: int,
    ) -> None:
        pairs = zip(http_addresses, rpc_addresses, strict=True)
        limit = DEFAULT_TIMEOUT if math.isinf(timeout) else timeout
        self._nodes = [_NameNodeClients(http, rpc, user, limit) for http, rpc in pairs]
        self._active: _NameNodeClients | None = None
        self._faults = {each.address: PeerFaults(_LOG, f"NameNode {each.address}") for each in self._nodes}
        self.retries = retries
        self._closed = False

    @classmethod
    def of(cls, config: CheckpointConfig) -> NameNodes:
        return cls(
            config.namenode_http_addresses,
            config.namenode_rpc_addresses,
            user=config.rpc_user,
            timeout=config.rpc_timeout,
            retries=config.roll_retries,
        )

    def _ask(self, node: _NameNodeClients, question: str, call: Callable[[], T]) -> T:
        """Return the response of one NameNode; log an RpcError if it is new, and re-raise it."""
        faults = self._faults[node.address]
        try:
            answer = call()
        except RpcError as error:
            # a call that the shutdown ended is not a fault of the NameNode
            if not self._closed:
                faults.occurred(question, str(error), hint=error.hint)
            raise
        faults.answered(question)
        return answer

    def _is_active(self, node: _NameNodeClients) -> bool:
        return self._ask(node, "state", node.ha.service_status).state is HAState.ACTIVE

    def close(self) -> None:
        """End running calls, and close the connections."""
        self._closed = True
        for node in self._nodes:
            node.close()

    @property
    def addresses(self) -> list[str]:
        """`host:port` of the RPC servers."""
        return [node.address for node in self._nodes]

    def accepts_images(self, http_address: str) -> bool | None:
        """Return whether the NameNode with this HTTP address is active or an observer; None if the NameNode does not
        answer.
        """
        node = next((each for each in self._nodes if each.http_address == http_address), None)
        if node is None:
            return None
        try:
            return node.ha.service_status().state in _TAKES_IMAGES
        except RpcError as error:
            _LOG.debug("the state of %s is unknown: %s", node.address, error)
            return None

    def last_txids(self) -> Mapping[str, int]:
        """Return the newest transaction of each NameNode that answers."""
        return self._ask_all(self._last_txid)

    def image_txids(self) -> Mapping[str, int]:
        """Return the txid of the newest image of each NameNode that answers."""
        return self._ask_all(lambda node: self._ask(node, "newest image", node.edits.most_recent_checkpoint_txid))

    def active_version(self) -> ActiveVersion | None:
        """Return the `ActiveVersion` of the active NameNode; None if no NameNode is active or the active NameNode does
        not answer.
        """
        for node in sorted(self._nodes, key=lambda each: each is not self._active):
            with suppress(RpcError):
                if self._is_active(node):
                    return self._ask(node, "version", node.version)
        return None

    def active_image_txid(self) -> int | None:
        """Return the txid of the active NameNode's newest image; None if no NameNode is active or the active NameNode
        does not answer.
        """
        active = self.active_version()
        return None if active is None else active.image_txid

    def active_txid(self) -> int | None:
        """Return the newest transaction of the active NameNode (the maximum if there are several), or None if no
        NameNode is active.
        """

        def ask(node: _NameNodeClients) -> int | None:
            return self._last_txid(node) if self._is_active(node) else None

        return max(self._ask_all(ask).values(), default=None)

    def _last_txid(self, node: _NameNodeClients) -> int:
        return self._ask(node, "last transaction", node.edits.transaction_id)

    def active_image_md5(self, txid: int) -> str | None:
        """Return the hexadecimal MD5 of the active NameNode's image at `txid`, "" if the NameNode does not have the
        image, or None if unknown.
        """
        for node in sorted(self._nodes, key=lambda each: each is not self._active):
            try:
                if not self._is_active(node):
                    continue
                if self._lacks_image(node, txid):
                    return ""
                return image_digest(node.http_address, txid, timeout=_STATE_TIMEOUT)
            except RpcError:
                continue
            except TransferError as error:
                if error.status in NO_SUCH_IMAGE:
                    _LOG.debug("%s has no image at txid %d: %s", node.http_address, txid, error)
                    return ""
                _LOG.info("it is not known whether %s has an image at txid %d: %s", node.http_address, txid, error)
        return None

    @staticmethod
    def _lacks_image(node: _NameNodeClients, txid: int) -> bool:
        """Return whether a NameNode's newest image is older than `txid`. An HTTP request for a missing image would make
        the NameNode log a stack trace.

        The edit log manifest proves nothing, because, with a quorum, it lists only local segments since the last
        failover.
        """
        with suppress(RpcError):
            return node.edits.most_recent_checkpoint_txid() < txid
        return False

    def lives(self) -> Mapping[str, int]:
        """Return the known start times of the NameNodes' processes, in ms since the epoch, by address."""
        return self._ask_all(lambda node: _start_time(node.http_address))

    def active_life(self) -> tuple[str, int] | None:
        """Return the active NameNode's address and the start time of its process; None if they are unknown."""
        active = self.active_version()
        began = None if active is None else _start_time(active.http_address)
        return None if active is None or began is None else (active.address, began)

    def rolling_upgrade(self) -> RollingUpgradeInfo | None:
        """Return the rolling upgrade that the active NameNode reports, or None if none is in progress.

        Raises:
            RpcError: no NameNode is active, or the active NameNode does not answer.
        """
        for node in sorted(self._nodes, key=lambda each: each is not self._active):
            with suppress(RpcConnectionError):
                if self._is_active(node):
                    return self._ask(node, "rolling upgrade", node.administration.rolling_upgrade)
        raise RpcConnectionError("no NameNode reports that it is active")

    def version_at(self, http_address: str) -> StorageInfo:
        """Return the VERSION of the configured NameNode with this HTTP address, in any state.

        Raises:
            RpcError: the NameNode does not answer.
        """
        node = next(each for each in self._nodes if each.http_address == http_address)
        return node.edits.version_request().storage_info

    def http_address(self, address: str) -> str:
        """Return the HTTP address of the NameNode with this RPC address, one of `addresses`."""
        return next(node.http_address for node in self._nodes if node.address == address)

    def _ask_all(self, question: Callable[[_NameNodeClients], T | None]) -> dict[str, T]:
        def ask(node: _NameNodeClients) -> T | None:
            try:
                return question(node)
            except RpcError:
                return None

        if not self._nodes:
            return {}
        with ThreadPoolExecutor(len(self._nodes), "ask-namenodes") as pool:
            answers = zip(self._nodes, pool.map(ask, self._nodes), strict=True)
            return {node.address: answer for node, answer in answers if answer is not None}

    def roll(self, cancelled: Callable[[], bool]) -> str:
        """Request that the active NameNode end its segment and begin another (rollEditLog); return its address.

        Send the request first to the NameNode that was last active, then to the other NameNodes, `retries` times to
        each (EditLogTailer.MultipleNameNodeProxy).

        Raises:
            RollRefusedError: no NameNode rolled its edits.
        """
        refusals: dict[str, str] = {}
        hint = "Check that a NameNode is active, and that this daemon's user is a superuser of HDFS."
        for _ in range(self.retries):
            for node in sorted(self._nodes, key=lambda each: each is not self._active):
                if cancelled():
                    raise RollRefusedError("the daemon is stopping")
                try:
                    signature = node.edits.roll_edit_log()
                except StandbyError:
                    refusals[node.address] = "is not active"
                except RpcError as error:
                    refusals[node.address] = error.message
                    if isinstance(error, SafeModeError | NotAuthorizedError):
                        hint = error.hint
                else:
                    self._active = node
                    first = signature.current_segment_txid
                    _LOG.info(
                        "%s rolled its edit log; the new segment begins at txid %d",
                        node.address,
                        first,
                        extra={"txid": first, "phase": "roll", "target": node.address},
                    )
                    return node.address
        reasons = "; ".join(f"{address}: {text}" for address, text in refusals.items()) or "no NameNode is configured"
        raise RollRefusedError(f"no NameNode rolled its edit log: {reasons}", hint=hint)


class JournalWitness:
    """Witness of the cluster's past: the shared edits and the active NameNode (`Witness`).

    `last` is the newest transaction to compare.
    """

    def __init__(self, source: EditSource, nodes: NameNodes, last: int) -> None:
        self._source = source
        self._nodes = nodes
        self._last = last

    def segments(self, from_txid: int) -> Sequence[ReadableSegment]:
        return self._source.present(from_txid, self._last)

    def newest(self) -> int | None:
        return self._nodes.active_txid()

    def image_md5(self, txid: int) -> str | None:
        return self._nodes.active_image_md5(txid)

    def lives(self) -> Mapping[str, int]:
        return self._nodes.lives()

    def active_life(self) -> tuple[str, int] | None:
        return self._nodes.active_life()
