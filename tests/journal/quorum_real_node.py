"""The real JournalNode on a disk in memory, for the simulation of a quorum; it can die at any step."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import PreparedRecovery, RequestInfo
from journal.segment_format import HEADER_SIZE
from journal_node.node import JournalNode
from tests.journal.quorum_model import JOURNAL, NAMESPACE, NodeCrashedError, Snapshot, first_of, split_records
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk

T = TypeVar("T")

_PROMISED = "current/last-promised-epoch"
_OUTSIDE = 1_000_000  # an epoch higher than all others, for inspecting a copy of a node


class _Disk(FaultyDisk):
    """Disk that kills the process after a number of further changing steps."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk, -1, Killed)

    def arm(self, steps: int) -> None:
        self._at = len(self.steps) + steps


class RealNode:
    """A `JournalNode` on a `_Disk`; `crash_at` is the number of further disk steps before the node crashes, or "" if it
    never does.
    """

    def __init__(self, name: str, fetch: Callable[[str], bytes]) -> None:
        self.name = name
        self._disk = MemoryDisk(name)
        self._source = fetch
        self._boot()

    def _boot(self) -> None:
        self._armed = _Disk(self._disk)
        self._node = JournalNode(
            lambda _: self._armed,
            fetch=self._fetch,
            is_here=lambda host: self.name == f"{host}:8485",
            cache_bytes=1 << 20,
        )
        self._node.announce(8480, "http://0.0.0.0:8480")

    def __getattr__(self, method: str) -> Any:
        perform = getattr(self._node, method)
        return lambda *arguments, **named: self._alive(lambda: perform(*arguments, **named))

    @staticmethod
    def _alive(action: Callable[[], T]) -> T:
        try:
            return action()
        except Killed as end:
            raise NodeCrashedError from end

    @property
    def crash_at(self) -> str:
        return ""

    @crash_at.setter
    def crash_at(self, steps: str) -> None:
        if steps:
            self._armed.arm(int(steps))
        else:
            self._armed.disarm()

    @property
    def promised(self) -> int:
        return int(self._disk.read(_PROMISED)) if self._disk.exists(_PROMISED) else 0

    def crash(self) -> None:
        self._disk.crash()
        self._boot()

    def serve(self, url: str) -> bytes:
        return self._alive(lambda: _content(self._node, first_of(url)))

    def snapshot(self) -> Snapshot:
        disk = copy.deepcopy(self._disk)
        disk.crash()
        node = JournalNode(lambda _: disk, fetch=self._fetch)
        promised = node.open_journal(JOURNAL).epochs.promised
        logs = node.get_edit_log_manifest(JOURNAL, 0, in_progress_ok=False).manifest.logs
        finalized = {log.first: split_records(_content(node, log.first)[HEADER_SIZE:]) for log in logs}
        newest = node.new_epoch(JOURNAL, NAMESPACE, _OUTSIDE)
        serials = itertools.count()

        def reported(first: int) -> tuple[PreparedRecovery, list[bytes]]:
            prepared = node.prepare_recovery(RequestInfo(JOURNAL, _OUTSIDE, next(serials)), first)
            if prepared.segment is None:
                return prepared, []
            records = split_records(_content(node, first)[HEADER_SIZE:])
            assert len(records) == prepared.segment.last - first + 1
            return prepared, records

        return Snapshot(promised, finalized, {}, lambda first: 0, newest, reported)

    def _fetch(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        yield self._source(url)


def _content(node: JournalNode, first: int) -> bytes:
    found = node.find_segment(JOURNAL, first, in_progress_ok=True)
    assert found is not None
    with found.content as content:
        return content.read(found.size)
