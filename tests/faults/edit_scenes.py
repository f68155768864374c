"""Scenes of writers of edits: an edit log, and calls of a JournalNode."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path

from hadoop_common.exit_codes import ExitCode
from journal.edit_log_writer import EditLogWriter
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from journal.ops import DeleteOp
from journal.segment_file import list_segments, read_ops
from journal_node.server import JournalNodeServer
from tests.faults.child import Outcome
from tests.faults.scene import Scene, guarded
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO as JOURNAL_INFO
from tests.journal.wal_support import LAYOUT, read_all
from tests.journal_node.journal_node_servers import Place, config_of, properties
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer


def write_log(folders: list[Path], acknowledged: list[int], *, label: str) -> None:
    """Recover a log, write some batches, roll the log and close it; append durable txids to `acknowledged`."""
    journals = JournalSet([JournalMember(FileJournal(folder / "current")) for folder in folders])
    with ExitStack() as stack:
        stack.callback(journals.close)
        journals.recover(JOURNAL_INFO)
        log = EditLogWriter(journals, LAYOUT, count_of(journals, 1) + 1)
        stack.callback(log.close)
        for number in range(6):
            txid = log.write(DeleteOp(path=f"/{label}/{number}", timestamp=number))
            log.sync(txid)
            acknowledged.append(txid)
            if number == 3:
                log.roll()
        stack.pop_all()
        log.close()
        journals.purge(3)
        journals.close()


class EditLog(Scene):
    """An edit log: append, roll and purge."""

    codes = frozenset({ExitCode.STORAGE, ExitCode.BAD_EDITS})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        journal = FileJournal(self.root / "current")
        journal.format(JOURNAL_INFO)
        write_log([self.root], [], label="first")
        self.before = read_all(journal, 3)

    @staticmethod
    def run(root: str) -> Outcome:
        acknowledged: list[int] = []

        def write() -> Outcome:
            write_log([Path(root)], acknowledged, label="second")
            return Outcome(0, "")

        outcome = guarded(write)
        outcome.facts["acknowledged"] = acknowledged
        return outcome

    def remains(self, outcome: Outcome) -> None:
        journal = FileJournal(self.root / "current")
        journal.recover(JOURNAL_INFO)
        found = read_all(journal, 3)
        journal.close()
        assert set(outcome.facts["acknowledged"]) <= found.keys()
        assert self.before.items() <= found.items()

    def go_on(self) -> None:
        reported = self.run(str(self.root))
        assert reported.code == 0, reported
        self.remains(reported)


class JournalNodeCalls(Scene):
    """A JournalNode with its servers, and a writer that checks its responses."""

    codes = frozenset({ExitCode.STORAGE, ExitCode.TRANSFER})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.epochs = itertools.count(3, 2)
        reported = self.run(str(self.root), 1)
        assert reported.code == 0, reported
        self.acknowledged: set[int] = set(reported.facts["acknowledged"])

    def arguments(self) -> tuple[object, ...]:
        return str(self.root), next(self.epochs)

    @staticmethod
    def run(root: str, epoch: int) -> Outcome:
        acknowledged: list[int] = []

        def write() -> Outcome:
            place = Place.new(Path(root))
            with JournalNodeServer(config_of(properties(place, [place]))):
                outcome = guarded(lambda: write_in(place, epoch))
                if outcome.code and (again := guarded(lambda: write_in(place, epoch + 1))).code:
                    # the node must survive, and the next writer must recover the segments
                    outcome.facts["lasting"] = again.text
                return outcome

        def write_in(place: Place, epoch: int) -> Outcome:
            with place.writer(epoch) as writer:
                _write_to_node(writer, place, acknowledged)
            return Outcome(0, "")

        outcome = guarded(write)
        outcome.facts["acknowledged"] = acknowledged
        return outcome

    def remains(self, outcome: Outcome) -> None:
        self.acknowledged |= set(outcome.facts["acknowledged"])
        self.go_on()

    def go_on(self) -> None:
        place = Place.new(self.root)
        with JournalNodeServer(config_of(properties(place, [place]))), place.writer(next(self.epochs)) as writer:
            _write_to_node(writer, place, [])
        found = {op.txid for each in list_segments(place.current) if each.last for op in read_ops(each)}
        assert self.acknowledged <= found
        assert found == set(range(1, max(found) + 1))


def _write_to_node(writer: Writer, place: Place, acknowledged: list[int]) -> None:
    writer.url = f"{place.url}/getJournal?jid={JOURNAL}"
    if not writer.node.is_formatted(JOURNAL):
        writer.node.format(JOURNAL, NAMESPACE, force=False)
    newest = writer.begin()
    first = 1
    if newest is not None:
        prepared = writer.prepare(newest)
        if prepared.segment is None:
            first = newest
        else:
            if prepared.segment.in_progress:
                writer.accept(newest, prepared.segment.last)
                writer.end(newest, prepared.segment.last)
            first = prepared.segment.last + 1
    for begin in (first, first + 6):
        writer.start(begin)
        for txid in (begin, begin + 3):
            writer.write(begin, txid, txid + 2)
            acknowledged += range(txid, txid + 3)
        writer.end(begin, begin + 5)
    writer.committed = first + 11
    writer.heartbeat()
