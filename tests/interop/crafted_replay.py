"""Replays a crafted list on a real NameNode and with our merge, and decides whether the differences are permitted."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.healing import HealingMode
from engine.merge import merge
from engine.replay.replayer import PLAIN
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration
from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from journal.ops import (
    AddOp,
    ConcatDeleteOp,
    DeleteSnapshotOp,
    EditOp,
    RenameOldOp,
    RenameOp,
    SetGenstampV1Op,
    SetGenstampV2Op,
    SetStoragePolicyOp,
    SymlinkOp,
    TimesOp,
    TruncateOp,
    UpdateMasterKeyOp,
)
from journal.segment_file import SegmentTransactions, list_segments
from journal.segment_output import write_ops
from site_config.merge_settings import replay_rules
from tests.engine.image_builder import ImageBuilder, numbered
from tests.interop.crafted_values import setup_of
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.hadoop_home import HadoopRelease
from tests.recorded_cases import imgcmp

_VERSION = """namespaceID=7
clusterID=CID-crafted
cTime=0
storageType=NAME_NODE
blockpoolID=BP-7-127.0.0.1-1
layoutVersion="""
_CLOCK_FROM = 1_600_000_000_000
"""Upper bound of the times of operations; later times come from a clock, or are deliberate values of a list."""
_MOST_IN_A_JVM = 1500


class Verdict(Enum):
    """The verdict on the results of both sides; every verdict except `DIFFERENT` is a success."""

    SAME = "the same image"
    REFUSED = "both refuse"
    UNLOADABLE = "no NameNode loads the image that Hadoop writes"
    HEALED = "our merge heals what stops a NameNode, or what a NameNode writes wrongly"
    UNUSED = "our merge refuses what no NameNode logs"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Outcome:
    """The result of one side: an image, or the txid of the refused operation and the error.

    The txid is None if the error occurred after the last operation.
    """

    image: Path | None = None
    txid: int | None = None
    error: str = ""

    def __str__(self) -> str:
        return "an image" if self.image else f"refuses txid {self.txid}: {self.error}"


@dataclass(frozen=True)
class Comparison:
    """The verdict on a list: `details` lists differences or refusals; both sides refuse the operation `refused_at`."""

    verdict: Verdict
    details: str = ""
    refused_at: int | None = None


class CraftedReplay:
    """A replayer of lists on an image that Hadoop made of `SETUP`.

    Args:
        folder: folder for all files; the files of a list are removed after its replay.
        release: release of the NameNode; the image and the lists have its layout.

    Attributes:
        release: the given release.
        keys: configuration of both sides for the next comparisons.
    """

    def __init__(self, folder: Path, release: HadoopRelease) -> None:
        self._folder = folder
        self.release = release
        self.keys: Mapping[str, str] = {}
        self._jvms = 0
        self._lists = 0
        self._hadoop = self._started()
        setup = setup_of(self.release.layout)
        empty = ImageBuilder(self.release.layout).save(folder / "empty")
        made = self._hadoop_side(self._storage(folder / "setup", empty, setup))
        assert made.image is not None, made
        self.base = folder / "base" / image_name(_txid_of(empty) + len(setup))
        self.base.parent.mkdir()
        shutil.move(made.image, self.base)
        shutil.move(md5_path(made.image), md5_path(self.base))

    def _started(self) -> Hadoop:
        self._jvms += 1
        folder = self._folder / f"jvm-{self._jvms}"
        folder.mkdir()
        return Hadoop(folder, self.release).__enter__()

    def close(self) -> None:
        """End the JVM."""
        self._hadoop.__exit__(None, None, None)

    def compare(self, ops: Sequence[EditOp]) -> Comparison:
        """Assign txids to the operations of a list, replay them on both sides and compare."""
        self._lists += 1
        if self._lists % _MOST_IN_A_JVM == 0:
            self.close()
            self._hadoop = self._started()
        place = self._folder / "list"
        try:
            storage = self._storage(place, self.base, ops)
            return self._compared(storage, ops)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _storage(self, folder: Path, base: Path, ops: Sequence[EditOp]) -> Path:
        """Make a storage directory with an image and the list as its only segment."""
        current = folder / "name" / "current"
        current.mkdir(parents=True)
        for path in (base, md5_path(base)):
            shutil.copyfile(path, current / path.name)
        (current / "VERSION").write_text(f"{_VERSION}{self.release.layout}\n")
        (current / "seen_txid").write_text(f"{_txid_of(base) + 1}\n")
        write_ops(current, numbered(ops, _txid_of(base)), self.release.layout)
        return folder

    def _compared(self, storage: Path, ops: Sequence[EditOp]) -> Comparison:
        theirs = self._hadoop_side(storage)
        plain, compiled = (self._our_side(storage, plain=plain) for plain in (True, False))
        if (plain.txid, plain.error) != (compiled.txid, compiled.error):
            return Comparison(Verdict.DIFFERENT, f"plain replay {plain}; kernels: {compiled}")
        if theirs.image is None or plain.image is None or compiled.image is None:
            return self._refusals(storage, theirs, plain, ops)
        if not self._loads(storage, plain):
            return Comparison(Verdict.DIFFERENT, "no NameNode loads our image")
        unlike = [
            f"{way}: {line}"
            for way, ours in (("plain", plain), ("kernels", compiled))
            for line in imgcmp.compare(*_images(theirs, ours), clock=_Clock(ops))
        ]
        if unlike and not self._loads(storage, theirs):
            return Comparison(Verdict.UNLOADABLE, "; ".join(unlike))
        if unlike and (_name_copies(unlike, ops) or self._writes_as_hadoop(storage, theirs, ops)):
            return Comparison(Verdict.HEALED, "; ".join(unlike))
        return Comparison(Verdict.DIFFERENT, "\n".join(unlike)) if unlike else Comparison(Verdict.SAME)

    def _refusals(self, storage: Path, theirs: Outcome, ours: Outcome, ops: Sequence[EditOp]) -> Comparison:
        details = f"Hadoop: {theirs}; ours: {ours}"
        if theirs.image is None and ours.image is None and (theirs.txid == ours.txid):
            return Comparison(Verdict.REFUSED, details, theirs.txid)
        if theirs.image is not None and not self._loads(storage, theirs):
            return Comparison(Verdict.UNLOADABLE, details)
        if theirs.image is None and (
            self._is_healed(storage, theirs, ours)
            or self._is_copied(storage, theirs, ours, ops)
            or _joins_renamed(theirs, ours, ops)
            or _miscounts_snapshots(theirs, ours, ops)
            or _nests_snapshots(theirs, ops)
            or _keeps_striped(theirs, ours)
            or _lacks_policy(theirs, ours)
        ):
            return Comparison(Verdict.HEALED, details, theirs.txid)
        if ours.txid is not None and (theirs.txid is None or theirs.txid > ours.txid):
            (op,) = [op for op in ops if op.txid == ours.txid]
            if any(rule(op, ours.error) for rule in _UNUSED):
                return Comparison(Verdict.UNUSED, details, ours.txid)
        return Comparison(Verdict.DIFFERENT, details)

    def _is_healed(self, storage: Path, theirs: Outcome, ours: Outcome) -> bool:
        """Return whether Hadoop stops at inconsistent snapshot diffs, which our merge heals (docs/snapshots.md).

        `--as-hadoop` must stop at the same operation, or at any operation if Hadoop cannot write the image. If our
        merge made an image, a NameNode must load it.
        """
        stopped = self._our_side(storage, plain=True, healing=HealingMode.AS_HADOOP)
        stops_there = theirs.txid in (None, stopped.txid) and "are inconsistent with its children" in stopped.error
        return stops_there and (ours.image is None or self._loads(storage, ours))

    def _is_copied(self, storage: Path, theirs: Outcome, ours: Outcome, ops: Sequence[EditOp]) -> bool:
        """Return whether Hadoop's image lacks the block that a truncate names for a copy.

        Our merge copies the block as the operation specifies. Hadoop decides again during the replay, when a snapshot
        or an upgrade may no longer require a copy. If the copy has the id of the old block, the deletion of the
        snapshot with the old block also removes the copy from Hadoop's map.
        """
        truncated = [op.src for op in ops if isinstance(op, TruncateOp) and op.txid < (theirs.txid or 0)]
        if "Mismatched block IDs" in theirs.error:
            misses = any(f"file {path}," in theirs.error for path in truncated)
        else:
            misses = bool(truncated) and '"from.bc" is null' in theirs.error
        return misses and (
            self._loads(storage, ours) if ours.image is not None else (ours.txid or 0) > (theirs.txid or 0)
        )

    def _writes_as_hadoop(self, storage: Path, theirs: Outcome, ops: Sequence[EditOp]) -> bool:
        """Return whether our merge with `--as-hadoop` makes Hadoop's image; our plain merge then heals a fault in that
        image.
        """
        ours = self._our_side(storage, plain=True, healing=HealingMode.AS_HADOOP)
        return ours.image is not None and not imgcmp.compare(*_images(theirs, ours), clock=_Clock(ops))

    def _hadoop_side(self, storage: Path) -> Outcome:
        name, out = storage / "name", storage / "hadoop"
        try:
            txid = self._hadoop.replay(name, out, self.keys)
        except HadoopRefusedError as error:
            found = re.search(r": error java\.lang\.Exception: (\d+) <- (.*)", str(error))
            if found is None:
                return Outcome(error=str(error)[:600])
            refused = int(found[1]) + 1
            last = max(segment.last or 0 for segment in list_segments(name / "current"))
            return Outcome(txid=refused if refused <= last else None, error=found[2][:600])
        image = out / "current" / image_name(txid)
        # the digest file already has its final name
        image.with_name(f"fsimage.ckpt_{txid:019d}").rename(image)
        return Outcome(image=image)

    def _our_side(self, storage: Path, *, plain: bool, healing: HealingMode = HealingMode.HEAL) -> Outcome:
        current, out = storage / "name" / "current", storage / f"{'plain' if plain else 'compiled'}-{healing.value}"
        out.mkdir()
        base = current / self.base.name
        first = _txid_of(base) + 1
        rules = replay_rules(Configuration.from_mapping(self.keys, {}))
        settings = MergeSettings(rules=replace(rules, healing=healing))
        try:
            with patch.dict(os.environ, {PLAIN: "1" if plain else "0"}):
                made = merge(base, SegmentTransactions(list_segments(current), first), [out], settings)
        except HdfsError as error:
            return Outcome(txid=getattr(error, "txid", None) or None, error=f"{type(error).__name__}: {error}")
        return Outcome(image=made.saved.paths[0])

    def _loads(self, storage: Path, made: Outcome) -> bool:
        """Return whether a NameNode loads the image."""
        assert made.image is not None
        try:
            shutil.rmtree(
                self._hadoop.load_and_save(made.image, storage / "name" / "current" / "VERSION").parent.parent
            )
        except HadoopRefusedError:
            return False
        return True


def _txid_of(image: Path) -> int:
    return int(image.name.rpartition("_")[2])


def _images(*sides: Outcome) -> list[Any]:
    return [imgcmp.Image(str(side.image)) for side in sides]


def _name_copies(unlike: Sequence[str], ops: Sequence[EditOp]) -> bool:
    """Return whether the images differ only in blocks that a truncate names for a copy, and Hadoop truncates in place.

    A NameNode logs the block of a copy if a snapshot or an upgrade that was not finalized required the copy. Hadoop's
    replay decides again. By then, the snapshot may have been deleted or the upgrade finalized. The replay then
    truncates in place, and keeps a block that the DataNodes do not have.
    """
    blocks = [op.truncate_block.block_id for op in ops if isinstance(op, TruncateOp) and op.truncate_block is not None]
    sides = [line.partition(" got ") for line in unlike]
    return all(any(str(block) in ours and str(block) not in theirs for block in blocks) for theirs, _, ours in sides)


def _strange_inode_id(op: EditOp, error: str) -> bool:
    """Recognise a new inode whose id is negative, reserved, or already in use.

    A NameNode counts ids upwards from 16386. Hadoop's loader accepts any id. In its map, the new inode replaces the
    inode with the same id, and neither inode has a record in the written image.
    """
    return hasattr(op, "inode_id") and ("is reserved" in error or "is in use" in error)


def _missing_directory(op: EditOp, error: str) -> bool:
    """Recognise a file or link in a directory that does not exist.

    A NameNode logs the creation of the directories first. Hadoop's loader adds the new inode to the nearest existing
    ancestor, where neither leases nor clients find it.
    """
    return isinstance(op, AddOp | SymlinkOp) and "parent directory of" in error


def _bare_key(op: EditOp, error: str) -> bool:
    """Recognise a master key without material, whose tokens no NameNode loads from the image that Hadoop writes."""
    return isinstance(op, UpdateMasterKeyOp) and "no key material" in error


def _joins_renamed(theirs: Outcome, ours: Outcome, ops: Sequence[EditOp]) -> bool:
    """Return whether Hadoop 2.7.3 stops at a CONCAT of a file that had another name in a deleted snapshot; Hadoop 2.10
    continues there.
    """
    if theirs.txid is None or "IllegalStateException" not in theirs.error:
        return False
    continues = ours.image is not None or (ours.txid or 0) > theirs.txid
    return continues and any(isinstance(op, ConcatDeleteOp) and op.txid == theirs.txid for op in ops)


def _nests_snapshots(theirs: Outcome, ops: Sequence[EditOp]) -> bool:
    """Return whether Hadoop 3 stops at a rename of one snapshottable directory below another.

    No NameNode logs such a rename since releases check for it, and an image with nested directories loads.
    """
    renamed = any(isinstance(op, RenameOp | RenameOldOp) and op.txid == theirs.txid for op in ops)
    return renamed and "does not support nested snapshottable directory" in theirs.error


def _keeps_striped(theirs: Outcome, ours: Outcome) -> bool:
    """Return whether Hadoop 3 stops where an erasure-coded file is removed that was renamed or truncated in a snapshot.

    The rename records the file's blocks in the snapshot, and INodeFile.collectBlocksBeyondSnapshot refuses striped
    blocks; see tests/interop/test_striped_removal.py.
    """
    continues = ours.image is not None or (ours.txid or 0) > (theirs.txid or 0)
    return continues and "INodeFile.collectBlocksBeyondSnapshot" in theirs.error


def _lacks_policy(theirs: Outcome, ours: Outcome) -> bool:
    """Return whether Hadoop 3 stops at the new length of a file with a storage policy that no release has."""
    continues = ours.image is not None or (ours.txid or 0) > (theirs.txid or 0)
    return continues and 'because "storagePolicy" is null' in theirs.error


def _miscounts_snapshots(theirs: Outcome, ours: Outcome, ops: Sequence[EditOp]) -> bool:
    """Return whether Hadoop 3.4 or newer cannot write an image after the deletion of a missing snapshot.

    Without ordered deletion, Hadoop skips the deletion but counts one snapshot less (HDFS-15590).
    """
    deletes = any(isinstance(op, DeleteSnapshotOp) for op in ops)
    return deletes and theirs.txid is None and "serializeSnapshotSection" in theirs.error and ours.image is not None


def _missing_path(op: EditOp, error: str) -> bool:
    """Recognise a TIMES without times on a missing path, which Hadoop 3.3 ignores and Hadoop 3.5 refuses."""
    return isinstance(op, TimesOp) and op.mtime < 0 and op.atime < 0 and "does not exist" in error


def _unknown_policy(op: EditOp, error: str) -> bool:
    """Recognise a policy that Hadoop 2.7.3 lacks: Hadoop 2.7.3 stops when it counts the space of a file below the
    directory.
    """
    return isinstance(op, SetStoragePolicyOp) and "storage policy" in error


def _negative_stamp(op: EditOp, error: str) -> bool:
    """Recognise a negative generation stamp; a NameNode counts generation stamps upwards from 1000."""
    return isinstance(op, SetGenstampV1Op | SetGenstampV2Op) and op.genstamp < 0 and "does not fit" in error


def _lost_directory(op: EditOp, error: str) -> bool:
    """Recognise a directory that a NameNode loses by moving it below itself, which our merge refuses."""
    return isinstance(op, RenameOp | RenameOldOp) and "which a NameNode then loses" in error


def _twice(op: EditOp, error: str) -> bool:
    """Recognise a concatenation that names a file twice, which a NameNode does not log."""
    return isinstance(op, ConcatDeleteOp) and "given twice" in error


_UNUSED: tuple[Callable[[EditOp, str], bool], ...] = (
    _strange_inode_id,
    _missing_directory,
    _bare_key,
    _missing_path,
    _unknown_policy,
    _negative_stamp,
    _lost_directory,
    _twice,
)
"""Predicates for the operations that our merge may refuse although Hadoop makes an image."""


class _Clock:
    """A test for times that Hadoop takes from its clock during replay; see imgcmp."""

    def __init__(self, ops: Sequence[EditOp]) -> None:
        self._exact = {
            value for op in ops for name in ("mtime", "atime", "timestamp") if (value := getattr(op, name, None))
        }

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and _CLOCK_FROM < value < 1 << 62 and value not in self._exact
