"""The storage of a journal on a JournalNode: VERSION, persistent numbers, and upgrades (JNStorage)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from struct import Struct

from hadoop_common.errors import HdfsError
from hadoop_common.names import VERSION
from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo, format_version, parse_version
from hadoop_rpc.errors import InconsistentStorageError, JavaIOError, RemoteError
from hadoop_rpc.qjournal_values import INVALID_TXID
from journal_node import names, upgrades
from journal_node.disk import JournalDisk
from journal_node.rules import Epochs
from journal_node.segment_files import SegmentFiles

_LONG = Struct(">q")


class JournalStorage:
    """Storage in the folder `disk`. One thread at a time may change it; any thread may list and read segments.

    Methods raise OSError, and RemoteError if the content of the folder does not allow the change.

    Attributes:
        info: content of VERSION; None if the folder is not formatted.
        segments: segments of the journal.
    """

    def __init__(self, disk: JournalDisk) -> None:
        self.disk = disk
        self.segments = SegmentFiles(disk)
        self.info: StorageInfo | None = None
        self._upgrading = False

    @property
    def location(self) -> str:
        return self.disk.location

    def open(self) -> None:
        """Lock the folder, finish an interrupted upgrade, and read VERSION; `info` is None if VERSION is missing."""
        self.disk.lock()
        upgrades.recover(self.disk)
        self.info = self._version(names.VERSION_FILE)

    def close(self) -> None:
        self.disk.unlock()

    def damage(self) -> str:
        """Return the reason why VERSION or a promise is unreadable; "" if all are readable or an upgrade is unfinished.

        An unfinished upgrade has no VERSION yet; `open` completes or undoes it.
        """
        if upgrades.is_unfinished(self.disk):
            return ""
        current = self.disk.names(names.CURRENT)
        if VERSION not in current and any(name.startswith("edits") for name in current):
            return f"{self.location}/{names.VERSION_FILE} is missing, but edits exist"
        try:
            self._version(names.VERSION_FILE)
            for name in (names.LAST_PROMISED_EPOCH, names.LAST_WRITER_EPOCH):
                self._number(f"{names.CURRENT}/{name}")
        except RemoteError as error:
            return error.text
        return ""

    def set_damaged_aside(self) -> tuple[str, int]:
        """Set a damaged journal's files aside, so that it can be formatted; return their new folder and the promise.

        The promise is 0 if its file is damaged.
        """
        try:
            promised = self._number(f"{names.CURRENT}/{names.LAST_PROMISED_EPOCH}")
        except JavaIOError:
            promised = 0
        target = f"{names.DAMAGED}/{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        with self.segments.naming:
            self.disk.make_directory(names.DAMAGED)
            self.disk.rename(names.CURRENT, target)
        self.info = None
        return f"{self.location}/{target}", promised

    def format(self, namespace: StorageInfo, *, force: bool, epochs: Epochs | None = None) -> None:
        """Format the folder. VERSION is written last, and the folder counts as formatted only with VERSION.

        Args:
            epochs: known earlier promises, for a node that formats itself.

        Raises:
            InconsistentStorageError: the folder is not empty, and `force` is not set.
        """
        disk = self.disk
        if not force and self._holds_data():
            raise InconsistentStorageError(f"{self.location} is already in use as a journal, and force is not set")
        self.info = None
        disk.make_directory("")
        disk.lock()
        if disk.exists(names.VERSION_FILE):
            disk.remove(names.VERSION_FILE)
        with self.segments.naming:
            disk.remove_tree(names.CURRENT)
            disk.make_directory(names.PAXOS)
        if epochs is not None:
            disk.write(names.SELF_FORMATTED, b"")
            self.save_promise(epochs.promised)
        self._write_version(namespace)

    def pre_upgrade(self) -> None:
        self._upgrading = True
        with self.segments.naming:
            upgrades.pre_upgrade(self.disk)

    def settle_upgrade(self) -> bool:
        """Undo an upgrade that was prepared, but not completed; return whether an upgrade was undone."""
        if not self._upgrading:
            return False
        with self.segments.naming:
            upgrades.recover(self.disk)
        self.info = self._version(names.VERSION_FILE)
        self._upgrading = False
        return True

    def upgrade(self, namespace: StorageInfo) -> None:
        """Complete an upgrade; each number becomes the larger of its values before and during the upgrade."""
        assert self.info is not None
        before, now = self.load_epochs(upgrades.PREVIOUS_TMP), self.load_epochs()
        files = {
            names.LAST_PROMISED_EPOCH: _decimal(max(before.promised, now.promised)),
            names.LAST_WRITER_EPOCH: _decimal(max(before.writer, now.writer)),
            names.COMMITTED_TXID: _LONG.pack(max(before.committed, now.committed)),
        }
        info = replace(self.info, layout_version=namespace.layout_version, c_time=namespace.c_time)
        upgrades.upgrade(self.disk, files, format_version(info, datetime.now(UTC)))
        self.info = info
        self._upgrading = False

    def finalize_upgrade(self) -> None:
        upgrades.finalize(self.disk)

    def can_roll_back(self, storage: StorageInfo, previous: StorageInfo, target_layout_version: int) -> bool:
        found = self._version(f"{upgrades.PREVIOUS}/{VERSION}")
        if found is None:
            assert self.info is not None
            upgrades.check_same(self.info, storage, self.location)
            return False
        return upgrades.can_roll_back(found, previous, target_layout_version, self.location)

    def roll_back(self) -> None:
        """Restore the state before the upgrade, but keep the promises; do nothing if there was no upgrade."""
        if not self.disk.exists(upgrades.PREVIOUS):
            return
        self.disk.write(f"{upgrades.PREVIOUS}/{names.LAST_PROMISED_EPOCH}", _decimal(self.load_epochs().promised))
        with self.segments.naming:
            upgrades.roll_back(self.disk)
        self.info = self._version(names.VERSION_FILE)

    def load_epochs(self, directory: str = names.CURRENT) -> Epochs:
        """Return the stored epochs and the committed txid, with default values for missing files."""
        return Epochs(
            promised=self._number(f"{directory}/{names.LAST_PROMISED_EPOCH}"),
            writer=self._number(f"{directory}/{names.LAST_WRITER_EPOCH}"),
            committed=self._committed(f"{directory}/{names.COMMITTED_TXID}"),
        )

    def save_promise(self, epoch: int) -> None:
        self.disk.write(f"{names.CURRENT}/{names.LAST_PROMISED_EPOCH}", _decimal(epoch))

    def save_writer(self, epoch: int) -> None:
        self.disk.write(f"{names.CURRENT}/{names.LAST_WRITER_EPOCH}", _decimal(epoch))

    def save_committed(self, txid: int) -> None:
        """Save the txid without a sync, because it is only a lower bound and may lag (BestEffortLongFile)."""
        self.disk.overwrite(f"{names.CURRENT}/{names.COMMITTED_TXID}", _LONG.pack(txid))

    @property
    def self_formatted(self) -> bool:
        """Whether this node formatted itself and no segment has begun on this node since then."""
        return self.disk.exists(names.SELF_FORMATTED)

    def forget_self_formatted(self) -> None:
        self.disk.remove(names.SELF_FORMATTED)

    def _holds_data(self) -> bool:
        # Neither leftovers of an interrupted format nor a self-formatted folder count as data.
        found = self.disk.names(names.CURRENT)
        begun = VERSION in found and not self.self_formatted
        return begun or any(name.startswith("edits") for name in found)

    def _write_version(self, namespace: StorageInfo) -> None:
        info = replace(namespace, blockpool_id="", storage_type=JOURNAL_NODE)
        self.disk.write(names.VERSION_FILE, format_version(info, datetime.now(UTC)))
        self.info = info

    def _version(self, name: str) -> StorageInfo | None:
        if not self.disk.exists(name):
            return None
        source = f"{self.location}/{name}"
        try:
            return parse_version(self.disk.read(name), source, of=(JOURNAL_NODE,))
        except HdfsError as error:
            raise InconsistentStorageError(error.message) from error

    def _number(self, name: str) -> int:
        if not self.disk.exists(name):
            return 0
        line = self.disk.read(name).split(b"\n")[0].rstrip(b"\r")
        if not line.isdigit():
            raise JavaIOError(f"{self.location}/{name} is not a number: {line[:40]!r}")
        return int(line)

    def _committed(self, name: str) -> int:
        data = self.disk.read(name) if self.disk.exists(name) else b""
        if len(data) not in (0, _LONG.size):
            problem = f"{self.location}/{name} has {len(data)} bytes instead of {_LONG.size}"
            raise JavaIOError(f"{problem}; next: Move the file away; the writer's next call sends the number again.")
        return int(_LONG.unpack(data)[0]) if data else INVALID_TXID


def _decimal(number: int) -> bytes:
    return b"%d\n" % number
