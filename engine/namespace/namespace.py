"""The whole namespace that edits are replayed onto: tree, leases, counters and the small managers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy.typing as npt

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.healing import HealingLog, HealingMode
from engine.namespace.caches import CacheManager
from engine.namespace.diffs import CURRENT_STATE
from engine.namespace.erasure_coding import ErasureCodingPolicies
from engine.namespace.history import History
from engine.namespace.leases import Leases, OpenFileFinder
from engine.namespace.noted import KernelNotes, apply_notes
from engine.namespace.paths import encodable, resolve_reserved, split_path
from engine.namespace.reclaim import Reclaimer
from engine.namespace.secrets import SecretManager
from engine.namespace.snapshot_healer import SnapshotHealer
from engine.namespace.snapshots import SnapshotManager
from engine.namespace.tree import Tree
from engine.settings import ReplayRules
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import BaseImage
from image_format.inode_table import DIRECTORY, FILE, NO_ROW, SYMLINK, InodeTable
from image_format.layout import LayoutVersion, supports
from image_format.messages import MessageReader
from image_format.permission import MODE_BITS, pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from journal.ops import PermissionStatus

_UINT64 = (1 << 64) - 1
_NO_STRIPED_BLOCK = -(1 << 63)
_OLDER_IMAGE = (
    "Where a NameNode of a newer release wrote the edits, after an upgrade, merge with `--layout` and the "
    "layoutVersion of VERSION. Where the header of their segment names the image's layout, see docs/operations.md, "
    '"Operations of Hadoop 3 in a log of Hadoop 2".'
)


class Namespace:
    """State of the file system at one txid: what the base image says, and the delta of the edits after it.

    Args:
        base: the image; stays untouched.
        strings: its string table; names that edits bring are appended.
        rules: the cluster's own settings, as far as replay goes by them.
        allocator: for its large arrays; None for one without a limit.
        finder: gives a quick way to find and read many open files of the base image, where there is one.

    Attributes:
        hadoop3: whether Hadoop 3's replay rules hold: layout version -64 and newer.
        last_txid: the newest transaction in it.
        heals: what did not fit together, and is healed.
        compiled: what compiled replay keeps of it.
        ignored: how many operations were replayed without an effect, see `ignore`.
        upgrade_started: whether replayed edits started a rolling upgrade that they did not finalize.
        upgrade_seen: whether replayed edits started or finalized one.

    Raises:
        RecordError: a record of a small section is damaged, or a snapshottable directory does not exist.
    """

    def __init__(
        self,
        base: BaseImage,
        strings: StringTable,
        rules: ReplayRules | None = None,
        allocator: ArrayAllocator | None = None,
        finder: Callable[[Namespace], OpenFileFinder | None] | None = None,
    ) -> None:
        self.base = base
        self.rules = rules or ReplayRules()
        self.strings = strings
        self.hadoop3 = supports(LayoutVersion.ERASURE_CODING, base.layout_version)
        self.snapshots = SnapshotManager(base)
        self.table = InodeTable(base.layout_version, base.place("INODE"), allocator)
        self.healing_log = HealingLog(self.rules.healing)
        self.tree = Tree(
            base, self.table, self.healing_log, hadoop3=self.hadoop3, is_snapshottable=self.snapshots.is_snapshottable
        )
        self.history = History(self.tree, self.snapshots)
        self.leases = Leases(self.tree, self.history)
        self.tree.watch(self.snapshots.snapshottable_ids)
        for directory_id in self.snapshots.snapshottable_ids:
            if base.slot(directory_id) < 0:
                what = f"directory {directory_id} is snapshottable, but not an inode"
                raise base.place("SNAPSHOT").error(RecordError, what, 0)
        self.secrets = SecretManager(base)
        self.caches = CacheManager(base, writes_expiry=self.hadoop3)
        self.erasure_coding = ErasureCodingPolicies(base)
        self.info = MessageReader(base.section("NS_INFO"), base.place("NS_INFO")).read(pb.NameSystemSection)
        self.last_inode_id = base.header.lastInodeId
        self.compiled: object | None = None
        self.ignored = 0
        self.upgrade_started = self.upgrade_seen = False
        self._permissions: dict[PermissionStatus, int] = {}
        self.leases.read(base, None if finder is None else finder(self))
        self.tree.watch(self.leases.unresolved())
        if self.history.may_have_files:
            self.leases.read_files()

    @property
    def last_txid(self) -> int:
        return self.info.transactionId

    @last_txid.setter
    def last_txid(self, txid: int) -> None:
        self.info.transactionId = txid

    def ignore(self) -> None:
        """Count an operation that changes nothing, as on a NameNode: what it names is missing, is so already, or cannot
        change. docs/opcodes.md lists when.
        """
        self.ignored += 1

    def require(self, feature: LayoutVersion, what: str) -> None:
        """Raise UnsupportedNamespaceError where only images of newer layouts have a place for `what`."""
        layout = self.base.layout_version
        if not supports(feature, layout):
            problem = f"{what} has no place in an image of layout version {layout}, only from {feature.value} on"
            raise UnsupportedNamespaceError(problem, hint=_OLDER_IMAGE)

    # ---- look-up that must succeed -------------------------------------------------------------------------

    def existing(self, path: str) -> int:
        """Row of the inode at `path`.

        Raises:
            NamespaceError: there is none; and as `existing_or_none`.
        """
        row = self.existing_or_none(path)
        if row == NO_ROW:
            raise NamespaceError(f"{path} does not exist")
        return row

    def existing_or_none(self, path: str) -> int:
        """Row of the inode at `path`, `NO_ROW` where there is none.

        Raises:
            NamespaceError: it is a symbolic link, which no more than renames, DELETE, MKDIR and SYMLINK take as it is;
                and as `Tree.resolve`.
        """
        row = self.tree.find(path)
        if row != NO_ROW and self.table.kind[row] == SYMLINK:
            raise NamespaceError(f"{path} is a symbolic link")
        return row

    def directory(self, path: str) -> int:
        """Row of the directory at `path`; raises NamespaceError where it is none."""
        return self._checked_directory(path, self.existing(path))

    def _checked_directory(self, path: str, row: int) -> int:
        if self.table.kind[row] != DIRECTORY:
            raise NamespaceError(f"{path} is not a directory")
        return row

    def snapshot_root(self, path: str) -> int:
        """`directory` of a snapshot's operation; later releases of Hadoop 3 know `/.reserved/...` there
        (FSDirectory.unprotectedResolvePath).
        """
        if not supports(LayoutVersion.EXPANDED_STRING_TABLE, self.base.layout_version):
            return self.directory(path)
        names = resolve_reserved(split_path(path, hadoop3=True), self.tree.names)
        row = self.tree.follow(names).row
        if row == NO_ROW:
            raise NamespaceError(f"{path} does not exist")
        return self._checked_directory(path, row)

    def file(self, path: str) -> int:
        """Row of the file at `path`; raises NamespaceError where it is none."""
        row = self.existing(path)
        if self.table.kind[row] != FILE:
            raise NamespaceError(f"{path} is not a file")
        return row

    # ---- names ---------------------------------------------------------------------------------------------

    def permission(self, status: PermissionStatus) -> int:
        """User, group and mode packed as the image stores them."""
        packed = self._permissions.get(status)
        if packed is None:
            user = self.strings.serial(encodable(status.user), StringKind.USER)
            group = self.strings.serial(encodable(status.group), StringKind.GROUP)
            packed = self._permissions[status] = pack_permission(user, group, status.mode & MODE_BITS)
        return packed

    # ---- counters ------------------------------------------------------------------------------------------

    def use_inode_id(self, inode_id: int) -> None:
        self.last_inode_id = max(self.last_inode_id, inode_id)

    def set_generation_stamp(self, genstamp: int) -> None:
        """SET_GENSTAMP_V2: Hadoop 3.4 keeps it aside until a block uses it or the NameNode becomes active."""
        if not self.hadoop3:
            self.info.genstampV2 = genstamp

    def see_generation_stamp(self, genstamp: int) -> None:
        """A block of an op has this stamp; only Hadoop 3.4 moves its counter for that."""
        if self.hadoop3 and genstamp > self.info.genstampV2:
            self.info.genstampV2 = genstamp

    def allocate_block_id(self, block_id: int) -> None:
        """Raises NamespaceError where a block id goes back, UnsupportedNamespaceError for a striped one before -64."""
        if block_id < 0:
            self.require(LayoutVersion.ERASURE_CODING, "a striped block")
        if block_id >= 0:
            if block_id < self.info.lastAllocatedBlockId:
                raise NamespaceError(f"block id {block_id} is below {self.info.lastAllocatedBlockId}")
            self.info.lastAllocatedBlockId = block_id
            return
        last = _NO_STRIPED_BLOCK
        if self.info.HasField("lastAllocatedStripedBlockId"):
            last = self.info.lastAllocatedStripedBlockId - (1 << 64)
        if block_id < last:
            raise NamespaceError(f"block id {block_id} is below {last}")
        self.info.lastAllocatedStripedBlockId = block_id & _UINT64

    # ---- healing -------------------------------------------------------------------------------------------

    def heal_snapshots(self, *, suspicious: bool = False) -> None:
        """Before it is written: heal what in snapshots does not fit together, so that a NameNode loads the image.

        Args:
            suspicious: look, even if nothing was met that may lead to it.

        Raises:
            InconsistentNamespaceError: nothing is to be healed, but something has to be.
        """
        if self.healing_log.mode is HealingMode.AS_HADOOP:
            return
        suspicious = suspicious or self.history.may_be_inconsistent or bool(self.healing_log)
        suspicious = suspicious or bool(self.history.lost_roots())
        if suspicious or (self.history.active and self.tree.links.lost()):
            SnapshotHealer(self.tree, self.history).run()

    @property
    def is_doubtful(self) -> bool:
        """Whether an image of it has to be verified before it counts.

        That is so where something was healed, and where a directory has a name of a snapshot after its end, as a
        child or in a newer diff: the names of the directories above may end later, and no NameNode loads that.
        """
        if self.healing_log.mode is HealingMode.AS_HADOOP:
            return False
        base = self.base.history
        if self.healing_log or self.history.has_early_names or not base.reference_count:
            return bool(self.healing_log) or self.history.has_early_names
        _, snapshots = base.held_in_diffs()
        early = (base.holders() > 0) | (snapshots > base.last_snapshots)
        return bool(((base.last_snapshots >= 0) & early).any())

    # ---- removal -------------------------------------------------------------------------------------------

    def forget(self, row: int) -> None:
        """An inode is gone for good: so are its lease and its snapshottable mark."""
        inode_id = int(self.table.id[row])
        self.leases.remove(row)
        self.snapshots.forget(inode_id)
        self.history.forget_strays(row)

    def open_below(self, row: int) -> list[int]:
        """Rows of the leased files whose leases go with a path, as Hadoop 2.7 knows them by their paths."""
        return [] if self.hadoop3 or not self.history.active else list(self.leases.rows_below(row))

    def close(self, row: int) -> None:
        """An open file loses its lease."""
        self.leases.remove(row)

    def remove(self, row: int, latest: int, *, was_dst: bool) -> None:
        """Drop an unlinked inode and all below it, less what snapshots need.

        Args:
            latest: newest snapshot that its path was in.
            was_dst: whether it stood in its directory by a reference.
        """
        reclaim = Reclaimer(self.tree, self.history, gone=self.forget, closed=self.close if self.hadoop3 else _leave)
        if self.history.node_in_latest(row, latest):
            reclaim.clean(row, CURRENT_STATE, latest)
        elif was_dst:
            reclaim.destroy_dst(row)
        else:
            reclaim.destroy_inode(row)

    def apply_notes(self, notes: KernelNotes, copies: npt.NDArray[Any]) -> None:
        """Apply to the snapshot diffs what kernels noted; see `noted`."""
        if notes:
            apply_notes(self.table, self.history, self._reclaim_noted, notes, copies)

    @cached_property
    def _reclaim_noted(self) -> Reclaimer:
        return Reclaimer(self.tree, self.history, gone=self.forget, closed=_leave)

    def remove_snapshot(self, row: int, snapshot_id: int) -> None:
        """Drop what only this snapshot of a directory needs."""
        reclaim = Reclaimer(self.tree, self.history, gone=self.forget, closed=_leave, deleted_snapshot=snapshot_id)
        reclaim.remove_snapshot(row, self.history.prior_of_directory(row, snapshot_id))

    def snapshottable_below(self, row: int) -> list[int]:
        """Rows of the snapshottable directories that are `row` or lie below it."""
        if self.table.kind[row] != DIRECTORY:
            return []
        ids = list(self.snapshots.snapshottable_ids)
        if not ids:
            return []
        return [found for found in self.tree.locate(ids) if self.tree.is_ancestor(row, found)]

    def check_no_snapshots(self, row: int) -> list[int]:
        """`snapshottable_below`; raises NamespaceError where one of them has snapshots."""
        rows = self.snapshottable_below(row)
        for found in rows:
            if self.snapshots.has_snapshots(int(self.table.id[found])):
                raise NamespaceError(f"{self.tree.path(found)} has snapshots, so it cannot be removed or moved")
        return rows


def _leave(row: int) -> None:
    """Nothing to do for an open file."""
