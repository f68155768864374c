"""Bookies of this process on loopback, and a ZooKeeper in memory that fails on request."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_common.zookeeper.znodes import ANY_VERSION, Change, Create, Delete, Set
from journal import open_journal as open_journal_module
from journal.bookie.bookie import Bookie
from journal.bookie.registration import format_ledgers
from journal.bookie.server import BookieServer
from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.bookkeeper.entry import DigestType, EntryCodec, LedgerEntry, master_key
from journal.bookkeeper.errors import MetadataStoreError, MissingZnodeError, ZnodeExistsError, ZnodeVersionError
from journal.bookkeeper.ledger_metadata import EnsembleSegment, format_metadata, parse_metadata
from journal.bookkeeper.ledger_paths import LedgerManager
from journal.bookkeeper.ledger_store import registration_of
from journal.bookkeeper.messages import AddRequest
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, journal_on
from journal.bookkeeper.settings import BookKeeperAddress, BookKeeperSettings
from tests.journal import bookkeeper_recordings as recorded

PATH = "/hdfsjournal"
# a busy machine may be slow to respond; stopped bookies refuse connections immediately
PATIENT = BookKeeperSettings(read_timeout=60.0, add_timeout=60.0)


class KilledError(BaseException):
    """The simulated end of the process; no code handles this error."""


@dataclass
class MemoryNode:
    data: bytes | None
    version: int = 0


class MemoryZNodes:
    """`ZNodes` in memory. `before` runs before each change, and `after` runs afterwards; both may raise errors.

    If `after` returns true, the change is executed again, as after a lost response. The `session`s of an ensemble share
    its znodes.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, MemoryNode] = {"/": MemoryNode(b"")}
        self.lock = threading.RLock()
        self.numbers = itertools.count()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], bool] = lambda: False
        self.closed = False

    def session(self) -> MemoryZNodes:
        other = MemoryZNodes()
        other.nodes, other.lock, other.numbers = self.nodes, self.lock, self.numbers
        return other

    def get(self, path: str) -> tuple[bytes | None, int]:
        with self.lock:
            node = self._node(path)
            return node.data, node.version

    def set(self, path: str, data: bytes | None, version: int) -> int:
        self._change([Set(path, data, version)])
        return self._node(path).version

    def create(self, path: str, data: bytes | None, *, parents: bool = False, ephemeral: bool = False) -> None:
        with self.lock:
            parent = path.rpartition("/")[0] or "/"
            if parents and parent not in self.nodes:
                self.create(parent, b"", parents=True)
            self._change([Create(path, data)])

    def create_sequential(self, prefix: str) -> str:
        path = f"{prefix}{next(self.numbers):010d}"
        # A creation that is repeated after a lost response receives another number.
        with suppress(ZnodeExistsError):
            self.create(path, b"", parents=True)
        return path

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._change([Delete(path, version)])

    def children(self, path: str) -> list[str]:
        with self.lock:
            self._node(path)
            prefix = f"{path.rstrip('/')}/"
            found = (name.removeprefix(prefix) for name in self.nodes if name.startswith(prefix) and name != "/")
            return [name for name in found if "/" not in name]

    def exists(self, path: str) -> bool:
        with self.lock:
            return path in self.nodes

    def commit(self, changes: list[Change]) -> None:
        self._change(changes)

    def close(self) -> None:
        self.closed = True

    def _node(self, path: str) -> MemoryNode:
        if self.closed:
            raise MetadataStoreError("the session is closed", file=path)
        if path not in self.nodes:
            raise MissingZnodeError("there is no such znode", file=path)
        return self.nodes[path]

    def _change(self, changes: list[Change]) -> None:
        self.before()
        with self.lock:
            kept = {path: MemoryNode(node.data, node.version) for path, node in self.nodes.items()}
            try:
                for change in changes:
                    self._apply(change)
            except MetadataStoreError:
                self.nodes.clear()
                self.nodes.update(kept)
                raise
        if self.after():
            self._change(changes)

    def _apply(self, change: Change) -> None:
        match change:
            case Create():
                if change.path in self.nodes:
                    raise ZnodeExistsError("it exists", file=change.path)
                self._node(change.path.rpartition("/")[0] or "/")
                self.nodes[change.path] = MemoryNode(change.data)
            case Delete():
                self._check(change.path, change.version)
                assert not self.children(change.path)
                del self.nodes[change.path]
            case Set():
                self._check(change.path, change.version)
                node = self.nodes[change.path]
                node.data, node.version = change.data, node.version + 1

    def _check(self, path: str, version: int) -> None:
        if version not in (ANY_VERSION, self._node(path).version):
            raise ZnodeVersionError("it has another version", file=path)


class LocalBookie:
    """A bookie with a port. When it is stopped, its directory remains, and `start` uses the same port again."""

    def __init__(self, znodes: MemoryZNodes, directory: Path) -> None:
        self._znodes = znodes
        self._directory = directory
        self._port = 0
        self.up = False
        self.start()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self.bookie = Bookie(self._directory)
        self._server = BookieServer(self.bookie)
        self._port = self._server.listen("127.0.0.1", self._port)[1]
        self._server.start()
        self._znodes.create(f"/ledgers/available/{self.name}", registration_of("127.0.0.1", self._port))
        self.up = True

    def stop(self) -> None:
        if self.up:
            self.up = False
            self._znodes.delete(f"/ledgers/available/{self.name}")
            self._server.stop()
            self.bookie.close()


class Cluster:
    """Several bookies, and journals on these bookies."""

    def __init__(self, root: Path, bookies: int = 3, manager: LedgerManager = LedgerManager.FLAT) -> None:
        self.znodes = MemoryZNodes()
        format_ledgers(self.znodes, "/ledgers", manager)
        self.bookies = [LocalBookie(self.znodes, root / f"bookie{number}") for number in range(bookies)]
        self._journals: list[BookKeeperJournal] = []

    def journal(
        self, settings: BookKeeperSettings | None = None, *, namespace: StorageInfo | None = None, path: str = PATH
    ) -> BookKeeperJournal:
        options = BookKeeperOptions(settings or PATIENT, namespace)
        made = journal_on(self.znodes.session(), BookKeeperAddress(("memory",), path), options)
        self._journals.append(made)
        return made

    @property
    def uri(self) -> str:
        return f"bookkeeper://memory:2181{PATH}"

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make every BookKeeper URI refer to this cluster, whatever ZooKeeper it names."""

        def opened(uri: str, options: BookKeeperOptions) -> BookKeeperJournal:
            return journal_on(self.znodes.session(), BookKeeperAddress.parse(uri), options)

        monkeypatch.setattr(open_journal_module, "open_bookkeeper_journal", opened)

    def load_recorded(self, step: str) -> None:
        """Load the journal of real NameNodes at a step, with the recorded entries of its ledgers."""
        names = [bookie.name for bookie in self.bookies]
        for path, (data, version) in recorded.znodes(recorded.ROOT / "bkjm-znodes" / f"{step}.json").items():
            if path.startswith(PATH):
                self.znodes.nodes[path] = MemoryNode(data, version)
            elif path.startswith("/ledgers/L0"):
                metadata = parse_metadata(data or b"")
                moved = tuple(EnsembleSegment(each.first_entry, tuple(names[:3])) for each in metadata.segments)
                self.znodes.nodes[path] = MemoryNode(format_metadata(replace(metadata, segments=moved)), version)
                self._fill(int(path[-10:]))

    def _fill(self, ledger_id: int) -> None:
        entries = json.loads((recorded.ROOT / "bkjm-ledgers" / f"ledger-{ledger_id}.json").read_text())["entries"]
        codec, length = EntryCodec(DigestType.MAC, b""), 0
        for number, payload in enumerate(map(bytes.fromhex, entries)):
            length += len(payload)
            body = codec.encode(LedgerEntry(ledger_id, number, number - 1, length, payload))
            for index in (number % 3, (number + 1) % 3):
                done = threading.Event()
                request = AddRequest(ledger_id, number, master_key(b""), body)
                self.bookies[index].bookie.handle(request, lambda _, done=done: done.set())
                assert done.wait(600)

    def znode(self, path: str) -> bytes | None:
        return self.znodes.nodes[path].data

    def names(self) -> list[str]:
        """Return the names of the segments."""
        return sorted(self.znodes.children(f"{PATH}/ledgers"))

    def ledgers(self) -> list[str]:
        return sorted(name for name in self.znodes.children("/ledgers") if name.startswith("L0"))

    def notes(self) -> list[str]:
        return [name for name in self.znodes.children(PATH) if name.startswith("unnamed")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for journal in self._journals:
            journal.close()
        for bookie in self.bookies:
            bookie.stop()
