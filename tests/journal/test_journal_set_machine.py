"""A set of directories whose disks fail and return while the set is written, rolled, purged, killed and recovered."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from tests.depth import examples
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO, LAYOUT, Disks, delete, file_journal, read_all, records

NAMES = ("a", "b", "c")
STEPS = ("open", "write", "sync", "rename")


class SetMachine(RuleBasedStateMachine):
    """State machine in which `acknowledged` contains the promised transactions; before a recovery, all disks are
    repaired.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr("os.fsync", lambda descriptor: None)
        self.disks = Disks(self.patches)
        self.folder = Path(tempfile.mkdtemp(prefix="journal-set-"))
        self.roots = [self.folder / name for name in NAMES]
        for root in self.roots:
            file_journal(root)
        self.acknowledged: dict[int, str] = {}
        self.purged_to = 1
        self.broken: set[int] = set()
        self.journals: JournalSet
        self.log: EditLogWriter | None = None

    def teardown(self) -> None:
        self.journals.close()
        self.patches.undo()
        shutil.rmtree(self.folder)

    @initialize(restore=st.booleans(), required=st.booleans())
    def open(self, restore: bool, required: bool) -> None:
        members = [
            JournalMember(FileJournal(root / "current"), required=required and root == self.roots[0])
            for root in self.roots
        ]
        self.journals = JournalSet(members, restore=restore)
        self.recover()

    def recover(self) -> None:
        self.disks.repair()
        self.broken.clear()
        self.journals.recover(INFO)
        found = read_all(self.journals, self.purged_to)
        assert {txid: found.get(txid) for txid in self.kept()} == self.kept()
        first = count_of(self.journals, self.purged_to) + self.purged_to
        self.log = EditLogWriter(self.journals, LAYOUT, first)
        # Transactions that were written but not acknowledged may also remain.
        self.acknowledged = found

    def kept(self) -> dict[int, str]:
        return {txid: path for txid, path in self.acknowledged.items() if txid >= self.purged_to}

    @precondition(lambda self: self.log is not None)
    @rule(count=st.integers(1, 4), synced=st.booleans())
    def write(self, count: int, synced: bool) -> None:
        assert self.log is not None
        try:
            written = {self.log.write(op): op.path for op in [delete(n) for n in range(count)]}
            if synced:
                self.log.flush()
        except JournalError:
            assert self.broken
            self.log = None
            return
        if synced:
            durable = read_all(self.journals, self.purged_to, in_progress=True)
            assert written.items() <= durable.items()
            assert self.kept().items() <= durable.items()
            self.acknowledged = durable

    @precondition(lambda self: self.log is not None)
    @rule()
    def roll(self) -> None:
        assert self.log is not None
        try:
            self.log.roll()
        except JournalError:
            assert self.broken
            self.log = None

    @rule(disk=st.integers(0, 2), steps=st.sets(st.sampled_from(STEPS), min_size=1))
    def break_disk(self, disk: int, steps: set[str]) -> None:
        self.disks.fail(self.roots[disk], *steps)
        self.broken.add(disk)

    @rule()
    def repair(self) -> None:
        self.disks.repair()

    @precondition(lambda self: self.log is not None)
    @rule()
    def copy_missing(self) -> None:
        self.journals.copy_missing()

    @precondition(lambda self: self.log is not None)
    @rule(back=st.integers(0, 8))
    def purge(self, back: int) -> None:
        assert self.log is not None
        txid = max(self.purged_to, self.log.segment_first_txid - back)
        self.journals.purge(txid)
        self.purged_to = max(self.purged_to, min(txid, self.log.segment_first_txid))

    @rule()
    def crash(self) -> None:
        """End the process, and start another; transactions in memory are lost."""
        self.journals.close()
        self.recover()

    @precondition(lambda self: self.log is not None)
    @rule()
    def shut_down(self) -> None:
        assert self.log is not None
        try:
            self.log.close()
        except JournalError:
            assert self.broken
        self.journals.close()
        self.recover()

    @invariant()
    def acknowledged_transactions_are_read(self) -> None:
        if self.log is not None:
            found = read_all(self.journals, self.purged_to, in_progress=True)
            assert self.kept().items() <= found.items()

    @precondition(lambda self: self.log is not None)
    @rule()
    def members_are_equal_after_a_recovery(self) -> None:
        self.crash()
        held = [records(root) for root in self.roots]
        # Segments that one directory kept when the other directories were purged are not copied back.
        least = max(min(held_in) for held_in in held)
        copies = [{name: ops for name, ops in each.items() if name >= least} for each in held]
        assert copies[0] == copies[1] == copies[2]


TestSet = SetMachine.TestCase
TestSet.settings = examples(40, stateful_step_count=30)
