"""The whole namespace onto which edits are replayed: tree, leases, counters and the managers of small sections."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy.typing as npt

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.healing import HealingLog, HealingMode
from engine.namespace.caches import CacheManager
from engine.namespace.diff_recorder import DiffRecorder
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff
from engine.namespace.erasure_coding import ErasureCodingPolicies
from engine.namespace.leases import Leases, OpenFileFinder
from engine.namespace.noted import KernelNotes, apply_notes
from engine.namespace.op_paths import encodable, resolve_reserved, split_path
from engine.namespace.reclaim import Reclaimer
from engine.namespace.secrets import SecretManager
from engine.namespace.snapshot_healer import SnapshotHealer
from engine.namespace.snapshots import SnapshotManager
from engine.namespace.tree import Tree
from engine.settings import ReplayRules
from hadoop_common.java_numbers import unsigned64
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.layout import LayoutVersion, supports
from image_format.messages import MessageReader
from image_format.permission import MODE_BITS, pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from journal.ops import PermissionStatus

_NO_STRIPED_BLOCK = -(1 << 63)
_OLDER_IMAGE = (
    "If a NameNode of a newer release wrote the edits after an upgrade, merge with `--layout` and the "
    "layoutVersion of VERSION. If the header of their segment has the image's layout, see docs/runbook.md, "
    '"Operations of Hadoop 3 in a log of Hadoop 2".'
)


class Namespace:
    """State of the file system at one txid: the base image, and the delta of the later edits.

    Args:
        base: the image, which is not changed.
        strings: the string table of the image, to which new names in edits are appended.
        rules: settings of the cluster that affect replay.
        allocator: allocator of its large arrays; None if unlimited.
        finder: returns a fast finder of many open files of the base image, or None if none is available.

    Attributes:
        hadoop3: whether Hadoop 3's replay rules apply (layout version -64 and newer).
        compiled: state of compiled replay for this namespace.
        ignored: number of operations that were replayed without effect; see `ignore`.
        upgrade_started: whether replayed edits started a rolling upgrade that they did not finalize.
        upgrade_seen: whether replayed edits started or finalized a rolling upgrade.

    Raises:
        RecordError: a record of a small section is damaged, or a snapshottable directory does not exist.
    """

    def __init__(
        self,
        base: ImageIndex,
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
        self.recorder = DiffRecorder(self.tree, self.snapshots)
        self.leases = Leases(self.tree, self.recorder)
        self.tree.watch(self.snapshots.snapshottable_ids)
        for directory_id in self.snapshots.snapshottable_ids:
            if base.slot(directory_id) < 0 or base.kind(directory_id) != pb.INode.DIRECTORY:
                what = f"inode {directory_id} is snapshottable, but not a directory"
                raise base.place("SNAPSHOT").error(RecordError, what, 0)
        self.secrets = SecretManager(base)
        self.caches = CacheManager(base, hadoop3=self.hadoop3)
        self.erasure_coding = ErasureCodingPolicies(base)
        self.info = MessageReader(base.section("NS_INFO"), base.place("NS_INFO")).read(pb.NameSystemSection)
        self.last_inode_id = base.header.lastInodeId
        self.compiled: object | None = None
        self.ignored = 0
        self.upgrade_started = self.upgrade_seen = False
        self._permissions: dict[PermissionStatus, int] = {}
        self.leases.read(base, None if finder is None else finder(self))
        self.tree.watch(self.leases.unresolved())
        if self.recorder.lookup.may_have_files:
            self.leases.read_files()

    @property
    def last_txid(self) -> int:
        return self.info.transactionId

    @last_txid.setter
    def last_txid(self, txid: int) -> None:
        self.info.transactionId = txid

    def ignore(self) -> None:
        """Count an operation that has no effect, as on a NameNode.

        The object of the operation is missing, is already in the requested state, or cannot change. docs/opcodes.md
        lists the cases.
        """
        self.ignored += 1

    def require(self, feature: LayoutVersion, what: str) -> None:
        """Raise UnsupportedNamespaceError if only images of newer layouts can store `what`."""
        layout = self.base.layout_version
        if not supports(feature, layout):
            problem = f"{what} requires layout version {feature.value} or newer; the image has layout version {layout}"
            raise UnsupportedNamespaceError(problem, hint=_OLDER_IMAGE)

    # ---- required look-up ----------------------------------------------------------------------------------

    def existing(self, path: str) -> int:
        """Return the row of the inode at `path`.

        Raises:
            NamespaceError: the inode does not exist; see also `existing_or_none`.
        """
        row = self.existing_or_none(path)
        if row == NO_ROW:
            raise NamespaceError(f"{path} does not exist")
        return row

    def existing_or_none(self, path: str) -> int:
        """Return the row of the inode at `path`, or `NO_ROW` if it does not exist.

        Raises:
            NamespaceError: the inode is a symbolic link, which only renames, DELETE, MKDIR and SYMLINK accept; see also
                `Tree.resolve`.
        """
        row = self.tree.paths.find(path)
        if row != NO_ROW and self.table.kind[row] == SYMLINK:
            raise NamespaceError(f"{path} is a symbolic link")
        return row

    def directory(self, path: str) -> int:
        """Return the row of the directory at `path`; raise NamespaceError if it is not a directory."""
        return self._checked_directory(path, self.existing(path))

    def _checked_directory(self, path: str, row: int) -> int:
        if self.table.kind[row] != DIRECTORY:
            raise NamespaceError(f"{path} is not a directory")
        return row

    def snapshot_root(self, path: str) -> int:
        """Return the directory that an operation on snapshots names (FSDirectory.unprotectedResolvePath).

        In later Hadoop 3 releases, the operation's path may begin with `/.reserved`.
        """
        if not supports(LayoutVersion.EXPANDED_STRING_TABLE, self.base.layout_version):
            return self.directory(path)
        names = resolve_reserved(split_path(path, hadoop3=True), self.tree.names)
        row = self.tree.paths.follow(names).row
        if row == NO_ROW:
            raise NamespaceError(f"{path} does not exist")
        return self._checked_directory(path, row)

    def file(self, path: str) -> int:
        """Return the row of the file at `path`; raise NamespaceError if it is not a file."""
        row = self.existing(path)
        if self.table.kind[row] != FILE:
            raise NamespaceError(f"{path} is not a file")
        return row

    # ---- names ---------------------------------------------------------------------------------------------

    def permission(self, status: PermissionStatus) -> int:
        """Return the user, group and mode, packed as the image stores them."""
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
        """Apply SET_GENSTAMP_V2, which Hadoop 3.4 defers until a block uses it or the NameNode becomes active."""
        if not self.hadoop3:
            self.info.genstampV2 = genstamp

    def see_generation_stamp(self, genstamp: int) -> None:
        """Process the generation stamp of a block in an operation; only Hadoop 3.4 raises its counter to this stamp."""
        if self.hadoop3 and genstamp > self.info.genstampV2:
            self.info.genstampV2 = genstamp

    def allocate_block_id(self, block_id: int) -> None:
        """Raise the counter of block ids.

        Raises:
            NamespaceError: the id is below the counter.
            UnsupportedNamespaceError: the id belongs to a striped block, and the layout is older than -64.
        """
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
        self.info.lastAllocatedStripedBlockId = unsigned64(block_id)

    # ---- healing -------------------------------------------------------------------------------------------

    def heal_snapshots(self, *, suspicious: bool = False) -> None:
        """Heal inconsistent snapshots before an image is written, so that a NameNode loads it.

        Args:
            suspicious: also check snapshots that show no sign of an inconsistency.

        Raises:
            InconsistentNamespaceError: the snapshots are inconsistent, and the healing mode is `STRICT`.
        """
        if self.healing_log.mode is HealingMode.AS_HADOOP:
            return
        suspicious = suspicious or self.recorder.created.may_be_inconsistent or bool(self.healing_log)
        suspicious = suspicious or self.recorder.leads_to_removed or bool(self.recorder.lookup.lost_roots())
        if suspicious or (self.recorder.lookup.active and self.tree.links.lost()):
            SnapshotHealer(self.tree, self.recorder).run()

    @property
    def needs_verification(self) -> bool:
        """Whether an image of this namespace must be verified before it is used.

        Verification is required after healing. It is also required if a name in snapshots is still a child, or is in a
        diff that is newer than the name's last snapshot. If the name of a directory above has an even later last
        snapshot, a NameNode cannot load the image.
        """
        if self.healing_log.mode is HealingMode.AS_HADOOP:
            return False
        base = self.base.snapshot_index
        if self.healing_log or self.recorder.has_early_names or not base.reference_count:
            return bool(self.healing_log) or self.recorder.has_early_names
        _, snapshots = base.held_in_diffs()
        early = (base.holders() > 0) | (snapshots > base.last_snapshots)
        return bool(((base.last_snapshots >= 0) & early).any())

    # ---- removal -------------------------------------------------------------------------------------------

    def forget(self, row: int) -> None:
        """Discard the data of a removed inode: its lease, its snapshottable mark and its strays."""
        inode_id = int(self.table.id[row])
        self.leases.remove(row)
        self.snapshots.forget(inode_id)
        self.recorder.created.forget_strays(row)

    def open_below(self, row: int) -> list[int]:
        """Return the rows of leased files below an inode; empty for Hadoop 3, which does not keep leases by path."""
        return [] if self.hadoop3 or not self.recorder.lookup.active else list(self.leases.rows_below(row))

    def close(self, row: int) -> None:
        """Remove the lease of an open file."""
        self.leases.remove(row)

    def remove(self, row: int, latest: int, *, was_dst: bool) -> None:
        """Remove an unlinked inode and its descendants, except for data that snapshots need.

        Args:
            latest: newest snapshot that contained the inode's path.
            was_dst: whether the inode's directory referred to the inode by a DstReference.
        """
        reclaim = Reclaimer(self.tree, self.recorder, gone=self.forget, closed=self.close if self.hadoop3 else _leave)
        if self.recorder.lookup.node_in_latest(row, latest):
            reclaim.clean(row, CURRENT_STATE, latest)
        elif was_dst:
            reclaim.destroy_dst(row)
        else:
            reclaim.destroy_inode(row)

    def apply_notes(self, notes: KernelNotes, copies: npt.NDArray[Any], newest: dict[int, DirectoryDiff]) -> None:
        """Apply the notes of kernels to the snapshot diffs; see `noted`."""
        if notes:
            apply_notes(self.table, self.recorder, self._reclaim_noted, notes, copies, newest)

    @cached_property
    def _reclaim_noted(self) -> Reclaimer:
        return Reclaimer(self.tree, self.recorder, gone=self.forget, closed=_leave)

    def remove_snapshot(self, row: int, snapshot_id: int) -> None:
        """Remove the data that only this snapshot of a directory needs."""
        reclaim = Reclaimer(self.tree, self.recorder, gone=self.forget, closed=_leave, deleted_snapshot=snapshot_id)
        reclaim.remove_snapshot(row, self.recorder.lookup.prior_of_directory(row, snapshot_id))

    def snapshottable_below(self, row: int) -> list[int]:
        if self.table.kind[row] != DIRECTORY:
            return []
        ids = list(self.snapshots.snapshottable_ids)
        if not ids:
            return []
        return [found for found in self.tree.locate(ids) if self.tree.is_ancestor(row, found)]

    def check_no_snapshots(self, row: int) -> list[int]:
        """Return `snapshottable_below(row)`; raise NamespaceError if one of these directories has snapshots."""
        rows = self.snapshottable_below(row)
        for found in rows:
            if self.snapshots.has_snapshots(int(self.table.id[found])):
                raise NamespaceError(f"{self.tree.path(found)} has snapshots, so it cannot be removed or moved")
        return rows


def _leave(row: int) -> None:
    """Do nothing for an open file."""
