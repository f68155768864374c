"""Random calls, restarts and power cuts: a JournalNode keeps its promises, and accepts one writer at a time."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hadoop_rpc.errors import JavaIOError, JournalOutOfSyncError, RemoteError
from hadoop_rpc.qjournal_values import RequestInfo, SegmentState
from journal_node.node import JournalNode
from tests.depth import examples
from tests.journal_node.journal_node_support import HEADER, JOURNAL, Network, Writer, batch, formatted
from tests.journal_node.memory_disk import MemoryDisk


class JournalNodeMachine(RuleBasedStateMachine):
    """State machine of one node and successive writers; the model contains the accepted calls."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk("a")
        self.network = Network()
        self.finalized: list[tuple[int, int]] = []
        self.first: int | None = None  # first txid of the segment in progress
        self.last = 0
        self.is_open = False
        self.older: list[Writer] = []

    @property
    def node(self) -> JournalNode:
        return self.network.nodes["a"]

    @property
    def written(self) -> bool:
        return self.first is not None and self.last >= self.first

    @initialize()
    def begin(self) -> None:
        self.writer = formatted(self.network.node("a", self.disk))

    # ---- the current writer ----

    @precondition(lambda self: self.first is None)
    @rule()
    def start(self) -> None:
        self.writer.start(self.last + 1)
        self.first, self.is_open = self.last + 1, True

    @precondition(lambda self: self.is_open)
    @rule(count=st.integers(1, 4))
    def write(self, count: int) -> None:
        assert self.first is not None
        self.writer.write(self.first, self.last + 1, self.last + count)
        self.last += count

    @precondition(lambda self: self.written)
    @rule()
    def finalize(self) -> None:
        assert self.first is not None
        self.writer.end(self.first, self.last)
        self.finalized.append((self.first, self.last))
        self.first, self.is_open = None, False

    @rule(back=st.integers(0, 3))
    def commit(self, back: int) -> None:
        self.writer.committed = max(self.writer.committed or 0, self.last - back)
        self.writer.heartbeat()
        self.disk.sync("current/committed-txid")

    @precondition(lambda self: self.finalized)
    @rule(which=st.integers(0, 5))
    def purge(self, which: int) -> None:
        keep = self.finalized[min(which, len(self.finalized) - 1)][0]
        self.writer.purge(keep)
        self.finalized = [segment for segment in self.finalized if segment[1] >= keep]

    @precondition(lambda self: self.written)
    @rule()
    def finalize_elsewhere(self) -> None:
        assert self.first is not None
        with pytest.raises(JournalOutOfSyncError):
            self.writer.end(self.first, self.last + 1)
        self.is_open = False

    @rule(ahead=st.integers(2, 4))
    def write_a_gap(self, ahead: int) -> None:
        with pytest.raises(RemoteError):
            self.writer.write(self.first or 1, self.last + ahead, self.last + ahead)

    # ---- further events ----

    @rule()
    def take_over(self) -> None:
        self.older.append(self.writer)
        committed = self.writer.committed
        self.writer = Writer(self.node, epoch=self.writer.epoch + 1, committed=committed)
        newest = self.writer.begin()
        segments = [*self.finalized, *([(self.first, self.last)] if self.written else [])]
        assert newest == (segments[-1][0] if segments else None)
        self.is_open = False
        if not self.written:
            # An empty segment is moved aside.
            self.first = None
            return
        assert self.first is not None
        assert self.writer.prepare(self.first).segment == SegmentState(self.first, self.last, True)
        self.writer.accept(self.first, self.last)
        self.finalize()

    @precondition(lambda self: self.older)
    @rule(which=st.integers(0, 3))
    def older_writer_is_refused(self, which: int) -> None:
        older = self.older[-1 - min(which, len(self.older) - 1)]
        older.node = self.node
        for call in (
            older.heartbeat,
            lambda: older.write(self.first or 1, self.last + 1, self.last + 1),
            lambda: older.start(self.last + 1),
            lambda: older.end(1, max(1, self.last)),
            lambda: older.prepare(1),
            older.begin,
        ):
            with pytest.raises(JavaIOError, match="last promised epoch"):
                call()

    @rule()
    def repeated_call_is_refused(self) -> None:
        self.writer.heartbeat()
        with pytest.raises(JournalOutOfSyncError):
            self.node.heartbeat(RequestInfo(JOURNAL, self.writer.epoch, self.writer.serial))

    @rule(power_cut=st.booleans())
    def restart(self, power_cut: bool) -> None:
        if power_cut:
            self.disk.crash()
        else:
            self.node.close()
        self.writer.node = self.network.node("a", self.disk)
        if self.is_open and self.written:
            with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
                self.writer.write(self.first or 1, self.last + 1, self.last + 1)
        self.is_open = False
        if not self.written:
            self.first = None

    # ---- invariants ----

    @invariant()
    def acknowledged_segments_are_kept(self) -> None:
        manifest = self.node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest
        found = [(log.first, log.last, log.in_progress) for log in manifest.logs]
        expected = [(first, last, False) for first, last in self.finalized]
        if self.written:
            assert self.first is not None
            expected.append((self.first, self.last, True))
        assert found == expected
        for first, last, _ in found:
            segment = self.node.find_segment(JOURNAL, first, in_progress_ok=True)
            assert segment is not None
            with segment.content as content:
                assert content.read(segment.size) == HEADER + batch(first, last)


JournalNodeMachine.TestCase.settings = examples(150, stateful_step_count=30)
TestJournalNode = JournalNodeMachine.TestCase
