"""File operations of the product, a class each: what it works on, the work, and the checks after it."""

from __future__ import annotations

import itertools
import shutil
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from checkpointer.daemon.service import CheckpointService
from checkpointer.storage.formatting import leftover_names
from checkpointer.storage.inspector import list_images
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer import upload_image
from hadoop_common.errors import EXIT_BAD_EDITS, EXIT_BAD_IMAGE, EXIT_STORAGE, EXIT_TRANSFER
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.names import image_name, parse_image
from image_format.md5_file import md5_of_file, md5_path, read_md5_file
from image_format.reader import ImageFile
from journal.edit_log_writer import EditLogWriter
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from journal.ops import DeleteOp
from journal.segment import HEADER_SIZE
from journal.segment_file import list_segments, read_ops
from journal_node.server import JournalNodeServer
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerResult, TriggerState
from tests.checkpointer.backup_support import Daemon as BackupDaemon
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.fake_namenode import FakeNamenode
from tests.checkpointer.namenode_double import double
from tests.checkpointer.secondary_support import Secondary, secondary_config
from tests.checkpointer.standby_support import Daemon as StandbyDaemon
from tests.checkpointer.standby_support import config_for, write_edits
from tests.checkpointer.storage_support import recorded_directory
from tests.checkpointer.streaming_namenode import StreamingNamenode
from tests.cli_runner import fingerprint, run_cli
from tests.faults.child import Outcome
from tests.journal.wal_support import INFO as JOURNAL_INFO
from tests.journal.wal_support import LAYOUT, read_all
from tests.journal_node.journal_node_servers import Place, config_of, properties
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer
from tests.namenode_stub.stub_support import formatted, stub_config_for, wait_until
from tests.recorded_cases import RECORDED
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, make_store, serve

_MORE_ATTEMPTS = 3
# A dropped directory is restored, also the last one.
RESTORING = {"dfs__namenode__num__checkpoints__retained": "1", "dfs__namenode__name__dir__restore": "true"}
_READING = frozenset({EXIT_BAD_IMAGE, EXIT_BAD_EDITS})


class Scene(ABC):
    """One operation below `root`, where calls are traced; `folder` is for files of other processes.

    Attributes:
        codes: exit codes that an error of the system may lead to, beside 0 for one that does not matter.
    """

    codes: ClassVar[frozenset[int]] = frozenset({EXIT_STORAGE})
    run: ClassVar[Callable[..., Outcome]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Start the servers that the operation talks to."""
        yield

    def arguments(self) -> tuple[object, ...]:
        return (str(self.root),)

    @abstractmethod
    def remains(self, outcome: Outcome) -> None:
        """Check the files after the operation, whether it failed or not."""

    @abstractmethod
    def go_on(self) -> None:
        """Repeat the operation without a fault, and check the result."""


def of_command(*arguments: str | Path) -> Outcome:
    told = run_cli(*arguments)
    return Outcome(told.code, told.err)


def of_result(result: TriggerResult) -> Outcome:
    """Return what a daemon reports of an attempt, with the targets that failed."""
    if result.state in (TriggerState.DONE, TriggerState.SKIPPED):
        errors = "; ".join(result.details.get("uploadErrors", {}).values())
        return Outcome(EXIT_TRANSFER if errors else 0, f"{errors}\n  next: it is offered again" if errors else "")
    return Outcome(result.details.get("exitCode", -1), f"{result.message}\n  next: {result.details.get('hint')}")


def of_alarms(alarms: list[str]) -> Outcome:
    """Alarms carry no hint: the runbook in docs/operations.md is their next step."""
    return Outcome(EXIT_STORAGE if alarms else 0, "; ".join([*alarms, ""]) + "\n  next: see the runbook")


def survived(attempt: Callable[[], Outcome], service: CheckpointService) -> Outcome:
    """Return what a daemon reported of the fault; a daemon without a report continues by itself."""
    try:
        outcome = last = attempt()
        for _ in range(_MORE_ATTEMPTS):
            service.status()
            service.ready()
            if not last.code:
                break
            last = attempt()
    except Exception as fault:
        return Outcome(-1, f"the daemon does not survive {fault}", traceback.format_exception(fault))
    if last.code:
        outcome.facts["lasting"] = last.text
    return outcome


def guarded(body: Callable[[], Outcome]) -> Outcome:
    """Word an error as the main programs do."""
    try:
        return body()
    except Exception as fault:
        error = as_hdfs_error(fault)
        if error is None:
            raise
        return Outcome(error.exit_code, f"{error.message}\n  next: {error.hint}")


def whole_images(current: Path) -> dict[int, Path]:
    """Return the images of a folder after comparing each with its digest file."""
    found = {}
    for image in list_images(current) if current.is_dir() else []:
        if image.has_md5:
            ImageFile.open(image.path).close()
            found[image.txid] = image.path
    return found


def kept(before: dict[str, str], folder: Path) -> None:
    """Assert that the earlier files exist unchanged."""
    after = fingerprint(folder)
    assert {name: after.get(name) for name in before} == before


# ---- commands ----------------------------------------------------------------------------------------------


class Merge(Scene):
    codes = frozenset({EXIT_STORAGE}) | _READING

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        recorded_directory(self.root, "renames")
        self.before = fingerprint(self.root)

    @staticmethod
    def run(root: str) -> Outcome:
        return of_command("merge", root)

    def expected(self) -> bytes:
        path = self.folder / "expected"
        if not path.exists():
            recorded_directory(path, "renames")
            assert run_cli("merge", path).code == 0
        return max(whole_images(path / "current").items())[1].read_bytes()

    def remains(self, outcome: Outcome) -> None:
        kept(self.before, self.root)
        found = whole_images(self.root / "current")
        if outcome.code == 0:
            assert len(found) == 2
        for path in list(found.values())[1:]:
            assert path.read_bytes() == self.expected()

    def go_on(self) -> None:
        assert run_cli("merge", self.root).code == 0
        kept(self.before, self.root)
        assert [path.read_bytes() for path in whole_images(self.root / "current").values()][1:] == [self.expected()]
        assert [path.name for path in (self.root / "current").iterdir() if path.suffix == ".tmp"] == []


class _OneImage(Scene):
    """Makes `out/fsimage_N` of `in/fsimage_N`."""

    codes = frozenset({EXIT_STORAGE, EXIT_BAD_IMAGE})
    options: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.root / "in").mkdir()
        (self.root / "out").mkdir()
        shutil.copy(NEW_IMAGE, self.source)

    @property
    def source(self) -> Path:
        return self.root / "in" / NEW_IMAGE.name

    @property
    def target(self) -> Path:
        return self.root / "out" / NEW_IMAGE.name

    @abstractmethod
    def check(self) -> None:
        """Assert that the new image is right."""

    def remains(self, outcome: Outcome) -> None:
        assert self.source.read_bytes() == NEW_IMAGE.read_bytes()
        if outcome.code == 0 or (self.target.exists() and md5_path(self.target).exists()):
            self.check()

    def go_on(self) -> None:
        told = type(self).run(str(self.root))
        assert told.code == 0, told
        self.remains(told)
        assert [path.name for path in self.target.parent.iterdir() if path.suffix == ".tmp"] == []


class Convert(_OneImage):
    @staticmethod
    def run(root: str) -> Outcome:
        out, source = (Path(root) / each / NEW_IMAGE.name for each in ("out", "in"))
        return of_command("image", "convert", "--layout", "-67", "--codec", "gzip", "--force", source, out)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copy(md5_path(NEW_IMAGE), md5_path(self.source))

    def check(self) -> None:
        with ImageFile.open(self.target) as image:
            assert (image.txid, image.layout_version, image.codec.endswith("GzipCodec")) == (NEW_TXID, -67, True)


class Repair(_OneImage):
    """A repair of an image whose digest file is lost."""

    @staticmethod
    def run(root: str) -> Outcome:
        out, source = (Path(root) / each / NEW_IMAGE.name for each in ("out", "in"))
        return of_command("image", "verify", source, "--repair", out, "--force")

    def check(self) -> None:
        with ImageFile.open(self.target) as image:
            assert image.txid == NEW_TXID
        assert run_cli("image", "verify", self.target).code == 0


class Recover(Scene):
    codes = frozenset({EXIT_STORAGE, EXIT_BAD_EDITS})
    names = ("edits_inprogress_0000000000000000059", "edits_0000000000000000059-0000000000000000072")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        whole = next((RECORDED / "hadoop-2.7.3" / "segments" / "before").glob("edits_*59-*")).read_bytes()
        self.content = whole[: len(whole) // 2]
        (self.root / self.names[0]).write_bytes(self.content)
        (self.root / "saved").mkdir()

    @staticmethod
    def run(root: str) -> Outcome:
        return of_command("edits", "recover", Path(root) / Recover.names[0], Path(root) / "saved", "--force")

    def remains(self, outcome: Outcome) -> None:
        assert (self.root / self.names[0]).read_bytes() == self.content
        for segment in list_segments(self.root / "saved"):
            assert len(list(read_ops(segment))) > 10
            assert self.content.startswith(segment.path.read_bytes())
        if outcome.code == 0:
            assert list_segments(self.root / "saved")

    def go_on(self) -> None:
        told = self.run(str(self.root))
        assert told.code == 0, told
        self.remains(told)


class FetchImage(Scene):
    codes = frozenset({EXIT_STORAGE, EXIT_BAD_IMAGE, EXIT_TRANSFER})

    @contextmanager
    def serving(self) -> Iterator[None]:
        with double(self.folder / "namenode") as self.namenode:
            yield

    def arguments(self) -> tuple[object, ...]:
        return self.namenode.url, self.namenode.rpc_address, str(self.root)

    @staticmethod
    def run(url: str, rpc: str, root: str) -> Outcome:
        return of_command("fetch-image", "--from", url, "--rpc", rpc, Path(root) / "shelf", "--deep")

    def remains(self, outcome: Outcome) -> None:
        shelf = self.root / "shelf"
        for path in shelf.iterdir() if shelf.is_dir() else []:
            if parse_image(path.name) is not None and path.suffix == "":
                ImageFile.open(path).close()
                outcome.facts["image"] = path
        assert outcome.code or "image" in outcome.facts

    def go_on(self) -> None:
        told = self.run(*self.arguments())
        assert told.code == 0, told
        self.remains(told)
        assert len(list((self.root / "shelf").iterdir())) == 3


# ---- edits -------------------------------------------------------------------------------------------------


def write_log(folders: list[Path], acknowledged: list[int], *, label: str) -> None:
    """A writer's life: recovery, some batches, a roll, and the end; txids that are durable go to `acknowledged`."""
    journals = JournalSet([JournalMember(FileJournal(folder / "current")) for folder in folders])
    with ExitStack() as stack:
        stack.callback(journals.close)
        journals.recover(JOURNAL_INFO)
        log = EditLogWriter(journals, LAYOUT, journals.count(1) + 1)
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
    """Append, roll, purge."""

    codes = frozenset({EXIT_STORAGE, EXIT_BAD_EDITS})

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
        told = self.run(str(self.root))
        assert told.code == 0, told
        self.remains(told)


class JournalNodeCalls(Scene):
    """A JournalNode with its servers, and a writer that checks its answers."""

    codes = frozenset({EXIT_STORAGE, EXIT_TRANSFER})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.epochs = itertools.count(3, 2)
        told = self.run(str(self.root), 1)
        assert told.code == 0, told
        self.acknowledged: set[int] = set(told.facts["acknowledged"])

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


# ---- transfers and storage ---------------------------------------------------------------------------------


class Upload(Scene):
    codes = frozenset({EXIT_STORAGE, EXIT_TRANSFER})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copy(NEW_IMAGE, self.root)
        self.store = make_store(folder / "store")

    @contextmanager
    def serving(self) -> Iterator[None]:
        with serve(self.store) as running:
            self.url = running.url
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.root / NEW_IMAGE.name), self.url

    @staticmethod
    def run(image: str, url: str) -> Outcome:
        def send() -> Outcome:
            path = Path(image)
            upload_image(url, path, md5_of_file(path).hex(), NEW_TXID, INFO)
            return Outcome(0, "")

        return guarded(send)

    def remains(self, outcome: Outcome) -> None:
        for folder in self.store.directories:
            taken = folder / NEW_IMAGE.name
            assert taken.exists() or outcome.code
            if taken.exists():
                assert taken.read_bytes() == NEW_IMAGE.read_bytes()

    def go_on(self) -> None:
        def taken() -> bool:
            # The server answers 409 until it notices that the previous upload broke off.
            told = self.run(*self.arguments())
            assert told.code == 0, told
            return all((folder / NEW_IMAGE.name).exists() for folder in self.store.directories)

        wait_until("the image to be taken", taken)
        self.remains(Outcome(0, ""))


class Retention(Scene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        recorded_directory(self.root, "renames")
        assert run_cli("merge", self.root).code == 0

    @staticmethod
    def run(root: str) -> Outcome:
        current = [Path(root) / "current"]
        warnings = enforce_retention(current, current, keep=1, extra_edits=0, max_segments=100)
        return Outcome(EXIT_STORAGE if warnings else 0, "\n  next: tried again\n".join([*warnings, ""]))

    def remains(self, outcome: Outcome) -> None:
        assert 183 in whole_images(self.root / "current")

    def go_on(self) -> None:
        told = self.run(str(self.root))
        assert told.code == 0, told
        newest = self.root / "current" / image_name(183)
        names = {path.name for path in (self.root / "current").iterdir()}
        # the next start removes an image without a digest file
        assert names - set(leftover_names(names)) == {newest.name, md5_path(newest).name, "VERSION", "seen_txid"}


# ---- daemons -----------------------------------------------------------------------------------------------


class _DaemonScene(Scene):
    """The fault may end the start of the daemon; the daemon survives later ones."""

    codes = frozenset({EXIT_STORAGE, EXIT_TRANSFER}) | _READING


class SecondaryCheckpoint(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.namenode = FakeNamenode(folder / "namenode", "hadoop-2.7.3/renames")

    @contextmanager
    def serving(self) -> Iterator[None]:
        with self.namenode:
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.root), self.namenode.rpc_port, self.namenode.http_port

    @staticmethod
    def run(root: str, rpc_port: int, http_port: int) -> Outcome:
        config = secondary_config(Path(root), rpc_port, http_port, **RESTORING)

        def work() -> Outcome:
            with Secondary(config) as secondary:
                return survived(lambda: of_result(secondary.checkpoint()), secondary.service)

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        whole_images(self.root / "secondary" / "current")
        for txid in self.namenode.image_txids():
            path = self.namenode.folder / image_name(txid)
            assert md5_of_file(path) == read_md5_file(path)

    def go_on(self) -> None:
        told = self.run(*self.arguments())
        assert told.code == 0, told
        newest = max(whole_images(self.root / "secondary" / "current").values())
        assert (self.namenode.folder / newest.name).read_bytes() == newest.read_bytes()


class StandbyCheckpoint(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        formatted(folder / "active", checkpoint_transactions=1, rpc_address=("127.0.0.1", 0))

    @contextmanager
    def serving(self) -> Iterator[None]:
        config = stub_config_for(self.folder / "active", rpc_address=("127.0.0.1", 0), checkpoint_transactions=1)
        with NameNodeStub(config) as self.stub:
            write_edits(self.stub, "a", 3)
            write_edits(self.stub, "b", 3)
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.folder), self.stub.server.url, self.stub.rpc_address

    @staticmethod
    def run(folder: str, url: str, rpc: tuple[str, int]) -> Outcome:
        config = config_for(
            Path(folder),
            url,
            namenode_rpc_addresses=(rpc,),
            image_directories=(Path(folder) / "root" / "nn",),
            images_retained=1,
            restore_directories=True,
        )

        def work() -> Outcome:
            with StandbyDaemon(config) as daemon:
                return survived(lambda: follow(daemon), daemon.service)

        def follow(daemon: StandbyDaemon) -> Outcome:
            daemon.role.tail()
            alarms = of_alarms(daemon.role.alarms())
            made = of_result(daemon.service.request(force=True, wait=True))
            return alarms if alarms.code else made

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        whole_images(self.root / "nn" / "current")
        whole_images(self.folder / "active" / "name" / "current")

    def go_on(self) -> None:
        told = self.run(*self.arguments())
        assert told.code == 0, told
        newest = max(whole_images(self.root / "nn" / "current").items())[1]
        assert newest == self.root / "nn" / "current" / image_name(self.stub.namespace.log.segment_first_txid - 1)
        theirs = self.folder / "active" / "name" / "current" / newest.name
        assert theirs.read_bytes() == newest.read_bytes()


class BackupStream(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.namenode = StreamingNamenode(folder / "nn", "hadoop-2.7.3/renames")
        self.namenode.batches = lambda count: itertools.chain([count // 2], [count - count // 2])
        self.namenode.after_roll = 6

    @contextmanager
    def serving(self) -> Iterator[None]:
        with self.namenode:
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.root / "backup"), self.namenode.rpc_port, self.namenode.http_port

    @staticmethod
    def run(folder: str, rpc_port: int, http_port: int) -> Outcome:
        def work() -> Outcome:
            with BackupDaemon(
                replace(backup_config(Path(folder), rpc_port, http_port), restore_directories=True)
            ) as daemon:
                return survived(lambda: follow(daemon), daemon.service)

        def follow(daemon: BackupDaemon) -> Outcome:
            daemon.follow()
            alarms = of_alarms(daemon.role.alarms())
            made = of_result(daemon.service.request(force=True, wait=True))
            return alarms if alarms.code else made

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        current = self.root / "backup" / "current"
        whole_images(current)
        if current.is_dir():
            found = {
                op.txid
                for segment in list_segments(current)
                if segment.path.stat().st_size > HEADER_SIZE
                for op in read_ops(segment)
            }
            oldest = min((image.txid for image in list_images(current)), default=0)
            for stream in self.namenode.streams.values():
                assert {txid for txid in stream.acknowledged if txid > oldest} <= found

    def go_on(self) -> None:
        folder, rpc_port, http_port = self.arguments()
        with BackupDaemon(backup_config(Path(str(folder)), int(str(rpc_port)), int(str(http_port)))) as daemon:
            daemon.follow(3)
            assert daemon.role.alarms() == []
            path = daemon.checkpoint()
            assert (self.namenode.folder / path.name).read_bytes() == path.read_bytes()


SCENES: dict[str, type[Scene]] = {
    "merge": Merge,
    "convert": Convert,
    "repair": Repair,
    "recover": Recover,
    "fetch-image": FetchImage,
    "edit-log": EditLog,
    "journal-node": JournalNodeCalls,
    "upload": Upload,
    "retention": Retention,
    "secondary": SecondaryCheckpoint,
    "standby": StandbyCheckpoint,
    "backup": BackupStream,
}
