"""The index over SNAPSHOT_DIFF and INODE_REFERENCE, compared with an index that reads every message into
dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin, RecordError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.kernels import history
from image_format.messages import MessageReader
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.snapshot_index import SnapshotIndex
from tests.image_format import snapshot_cases
from tests.image_format.image_support import RECORDED, delimited, has_its_references, image_id

UINT64 = (1 << 64) - 1
WITH_SNAPSHOTS = sorted(
    path
    for pattern in ("*snapshot*", "random-mixed-[123]", "random-capture-*")
    for path in RECORDED.glob(f"*/{pattern}/*/fsimage_*")
    if path.suffix != ".md5" and has_its_references(path)
)


def inodes(ids: Sequence[int], slots: Sequence[int] | np.ndarray = ()) -> IndexArrays:
    nothing = np.zeros(0, np.int64)
    columns = Packed.of(np.array(ids, np.int64)), np.array(slots, np.uint32), Packed.of(nothing)
    return IndexArrays(*columns, nothing, nothing, nothing)


@dataclass
class Parts:
    """The sections of an image as messages."""

    ids: list[int]
    entries: list[pb.DirEntry] = field(default_factory=list)
    references: list[pb.INodeReference] = field(default_factory=list)
    diffs: list[tuple[int, list[pb.DirectoryDiff | pb.FileDiff]]] = field(default_factory=list)
    created: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    """Created names by owner and snapshot, if a test needs particular names."""

    def diff_records(self) -> list[bytes]:
        """Return each entry with the messages after it."""
        records = []
        for owner, diffs in self.diffs:
            is_file = any(isinstance(diff, pb.FileDiff) for diff in diffs)
            kind = pb.DiffEntry.FILEDIFF if is_file else pb.DiffEntry.DIRECTORYDIFF
            messages: list[object] = [pb.DiffEntry(type=kind, inodeId=owner, numOfDiff=len(diffs))]
            for diff in diffs:
                messages.append(diff)
                created = diff.createdListSize if isinstance(diff, pb.DirectoryDiff) else 0
                names = self.created.get((owner, diff.snapshotId), [b"n%d" % number for number in range(created)])
                messages += [pb.CreatedListEntry(name=name) for name in names]
            records.append(delimited(messages))
        return records

    def index(self, *, backwards: bool) -> SnapshotIndex:
        """Return the index; with `backwards`, the records of INODE are in the opposite order."""
        slots = np.arange(len(self.ids))[::-1] if backwards else []
        sections = (b"".join(self.diff_records()), delimited(self.references), delimited(self.entries))
        arrays = (np.frombuffer(section, np.uint8) for section in sections)
        return SnapshotIndex(
            *arrays, np.zeros(0, np.uint8), inodes(self.ids, slots), lambda name: BufferOrigin("image", name)
        )

    # ---- the results, one at a time ------------------------------------------------------------------------

    def directory_diffs(self) -> Iterator[tuple[int, pb.DirectoryDiff]]:
        for owner, diffs in self.diffs:
            yield from ((owner, diff) for diff in diffs if isinstance(diff, pb.DirectoryDiff))

    def parents(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for entry in self.entries:
            referred = [self.references[number].referredId for number in entry.refChildren]
            found.update(dict.fromkeys([*entry.children, *referred], entry.parent))
        return found

    def holders(self) -> list[int]:
        held = [0] * len(self.references)
        for entry in self.entries:
            for number in entry.refChildren:
                held[number] = entry.parent
        for owner, diff in self.directory_diffs():
            for number in diff.deletedINodeRef:
                held[number] = -owner
        return held

    def held_in_diffs(self) -> tuple[list[int], list[int]]:
        held, snapshots = [0] * len(self.references), [-1] * len(self.references)
        for owner, diff in self.directory_diffs():
            for number in diff.deletedINodeRef:
                held[number], snapshots[number] = -owner, diff.snapshotId
        return held, snapshots

    def chain(self, inode_id: int) -> list[int]:
        parents, chain = self.parents(), [inode_id]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        return chain[::-1]

    def deleters(self, wanted: list[int]) -> list[int]:
        found = dict.fromkeys(wanted, 0)
        for owner, diff in self.directory_diffs():
            found.update({inode_id: owner for inode_id in diff.deletedINode if inode_id in found})
        return [found[inode_id] for inode_id in wanted]

    def owners_at(self, snapshot_id: int) -> list[int]:
        return sorted(
            owner
            for owner, diffs in self.diffs
            for each in [diff.snapshotId for diff in diffs] or [-1]
            if each == snapshot_id
        )

    def quota_copy_owners(self) -> list[int]:
        def limited(diff: pb.DirectoryDiff) -> bool:
            copied = diff.snapshotCopy
            has_quota = diff.HasField("snapshotCopy") and (copied.nsQuota, copied.dsQuota) != (UINT64, UINT64)
            return has_quota and not diff.isSnapshotRoot and not copied.HasField("typeQuotas")

        return sorted({owner for owner, diff in self.directory_diffs() if limited(diff)})


def compare(parts: Parts, index: SnapshotIndex, *, backwards: bool = False) -> None:
    records = parts.diff_records()
    ids = np.array(parts.ids, np.int64)

    def marked(marks: np.ndarray) -> set[int]:
        return set(ids[marks[::-1] if backwards else marks].tolist())

    assert index.owners.tolist() == sorted(owner for owner, _ in parts.diffs)
    end = 0
    for (owner, _), record in zip(parts.diffs, records, strict=True):
        assert index.diff_span(owner) == (end, end + len(record))
        end += len(record)
    assert index.diff_span(max(parts.ids) + 1) == (-1, -1)
    assert index.reference_count == len(parts.references)
    assert tuple(each.tolist() for each in index.held_in_diffs()) == parts.held_in_diffs()
    named = [each.lastSnapshotId if each.HasField("name") else -1 for each in parts.references]
    assert index.last_snapshots.tolist() == named
    assert [index.reference(number) for number in range(len(parts.references))] == parts.references
    for inode_id in parts.ids:
        numbers = [number for number, each in enumerate(parts.references) if each.referredId == inode_id]
        assert index.references_to(inode_id).tolist() == numbers
    for first in range(len(parts.references) + 1):
        assert bytes(index.reference_bytes(first, first + 2)) == delimited(parts.references[first : first + 2])
    assert index.holders().tolist() == parts.holders()
    assert [chain.tolist() for chain in index.chains(ids)] == [parts.chain(inode_id) for inode_id in parts.ids]
    assert index.deleters(ids).tolist() == parts.deleters(parts.ids)
    for snapshot_id in range(-1, 8):
        assert index.owners_at(snapshot_id).tolist() == parts.owners_at(snapshot_id)
    assert index.quota_copy_owners().tolist() == parts.quota_copy_owners()
    for inode_id in parts.ids[:5]:
        below = {other for other in parts.ids if inode_id in parts.chain(other)}
        assert marked(index.reached_from(inode_id)) == below
    some = parts.ids[::3]
    directories = {holder for holder in parts.holders() if holder > 0}
    on_the_way = {above for inode_id in {*some, *directories} for above in parts.chain(inode_id)}
    assert marked(index.on_the_way_to(np.array(some, np.int64))) == on_the_way


@st.composite
def images(draw: st.DrawFn) -> Parts:
    """Return directories and files in a tree, some with diffs, some by reference."""
    ids = sorted(draw(st.sets(st.integers(1, 1 << 40), min_size=2, max_size=25)))
    parts = Parts(ids)
    children: dict[int, list[int]] = {}
    by_reference: dict[int, list[int]] = {}
    deleted: dict[int, list[tuple[list[int], list[int]]]] = {}

    def reference(inode_id: int, **fields: object) -> int:
        parts.references.append(pb.INodeReference(referredId=inode_id, **fields))  # type: ignore[arg-type]
        return len(parts.references) - 1

    for position, inode_id in enumerate(ids[1:], 1):
        parent = ids[draw(st.integers(0, position - 1))]
        way = draw(st.integers(0, 4))
        if way < 2:
            children.setdefault(parent, []).append(inode_id)
        elif way == 2:
            by_reference.setdefault(parent, []).append(reference(inode_id, dstSnapshotId=2147483646))
        elif way == 3:
            deleted.setdefault(parent, []).append(([inode_id], []))
        else:
            named = reference(inode_id, name=b"old", lastSnapshotId=draw(st.integers(0, 300)))
            deleted.setdefault(parent, []).append(([], [named]))
    for parent in draw(st.permutations(sorted({*children, *by_reference}))):
        parts.entries.append(
            pb.DirEntry(parent=parent, children=children.get(parent), refChildren=by_reference.get(parent))
        )
    holders = sorted({*deleted, *draw(st.sets(st.sampled_from(ids), max_size=4))})
    for owner in draw(st.permutations(holders)):
        diffs: list[pb.DirectoryDiff | pb.FileDiff] = []
        for inodes, numbers in deleted.get(owner, []):
            diff = pb.DirectoryDiff(snapshotId=draw(st.integers(0, 300)), createdListSize=draw(st.integers(0, 3)))
            diff.deletedINode.extend(inodes)
            diff.deletedINodeRef.extend(numbers)
            _add_copy(draw, diff)
            diffs.append(diff)
        if not diffs and draw(st.booleans()):
            diffs = [pb.FileDiff(snapshotId=1, fileSize=draw(st.integers(0, UINT64)), name=b"f")]
        parts.diffs.append((owner, diffs))
    return parts


def _add_copy(draw: st.DrawFn, diff: pb.DirectoryDiff) -> None:
    diff.isSnapshotRoot = draw(st.booleans())
    if draw(st.booleans()):
        quotas = st.sampled_from([UINT64, 0, 7])
        diff.snapshotCopy.nsQuota, diff.snapshotCopy.dsQuota = draw(quotas), draw(quotas)
        if draw(st.booleans()):
            diff.snapshotCopy.typeQuotas.quotas.add(storageType=pb.SSD, quota=1)


@given(images(), st.booleans())
def test_the_index_agrees_with_the_protobuf_messages(parts: Parts, backwards: bool) -> None:
    compare(parts, parts.index(backwards=backwards), backwards=backwards)


@pytest.mark.recorded
@pytest.mark.parametrize("path", WITH_SNAPSHOTS, ids=image_id)
def test_the_index_of_recorded_images_agrees_with_their_messages(path: Path) -> None:
    with ImageFile.open(path) as image:
        compare(read_parts(image), ImageIndex(image).snapshot_index)


def read_parts(image: ImageFile) -> Parts:
    def reader(name: str) -> MessageReader:
        return MessageReader(image.section(name), BufferOrigin(str(image.path), name))

    inodes = reader("INODE")
    inodes.read(pb.INodeSection)
    ids = []
    while not inodes.done:
        ids.append(inodes.read(pb.INode).id)
    assert ids == sorted(ids)
    parts = Parts(ids)
    for name, kind, found in (
        ("INODE_DIR", pb.DirEntry, parts.entries),
        ("INODE_REFERENCE", pb.INodeReference, parts.references),
    ):
        records = reader(name)
        while not records.done:
            found.append(records.read(kind))  # type: ignore[attr-defined]
    records = reader("SNAPSHOT_DIFF")
    while not records.done:
        entry = records.read(pb.DiffEntry)
        diffs: list[pb.DirectoryDiff | pb.FileDiff] = []
        for _ in range(entry.numOfDiff):
            if entry.type == pb.DiffEntry.FILEDIFF:
                diffs.append(records.read(pb.FileDiff))
            else:
                diff = records.read(pb.DirectoryDiff)
                created = [records.read(pb.CreatedListEntry).name for _ in range(diff.createdListSize)]
                parts.created[entry.inodeId, diff.snapshotId] = created
                diffs.append(diff)
        parts.diffs.append((entry.inodeId, diffs))
    return parts


# ---- missing and damaged sections --------------------------------------------------------------------------


IDS = np.array([1, 2, 3], np.int64)


def index_of(
    diffs: bytes | None = None, references: bytes | None = None, entries: bytes | None = None
) -> SnapshotIndex:
    arrays = (None if section is None else np.frombuffer(section, np.uint8) for section in (diffs, references, entries))
    return SnapshotIndex(*arrays, np.zeros(0, np.uint8), inodes(IDS.tolist()), lambda name: BufferOrigin("image", name))


def test_an_image_without_snapshot_sections_has_no_history() -> None:
    index = index_of()
    assert (index.owners.size, index.reference_count, index.holders().size) == (0, 0, 0)
    assert index.diff_span(1) == (-1, -1)
    assert [chain.tolist() for chain in index.chains(IDS)] == [[1], [2], [3]]
    assert index.chains(IDS[:0]) == []
    assert index.deleters(IDS).tolist() == [0, 0, 0]
    assert bytes(index.reference_bytes(0, 5)) == b""
    assert index.quota_copy_owners().size == 0


def test_a_missing_inode_has_no_chain() -> None:
    assert index_of().chains(np.array([77], np.int64))[0].tolist() == []


def test_a_cycle_of_directories_does_not_loop_forever() -> None:
    entries = delimited([pb.DirEntry(parent=2, children=[3]), pb.DirEntry(parent=3, children=[2])])
    index = index_of(entries=entries)
    assert index.reached_from(1).tolist() == [True, False, False]
    assert len(index.chains(np.array([2], np.int64))[0]) <= IDS.size + 1
    assert index.on_the_way_to(np.array([2], np.int64)).tolist() == [False, True, True]


DIRECTORY = pb.DiffEntry.DIRECTORYDIFF


@pytest.mark.parametrize(
    ("sections", "section", "what"),
    [
        ({"diffs": b"\x80"}, "SNAPSHOT_DIFF", "damaged snapshot diff"),
        ({"diffs": delimited([pb.DiffEntry(type=DIRECTORY, inodeId=1, numOfDiff=1)])}, "SNAPSHOT_DIFF", "damaged"),
        (
            {
                "diffs": delimited(
                    [pb.DiffEntry(type=DIRECTORY, inodeId=1, numOfDiff=1), pb.DirectoryDiff(createdListSize=9)]
                )
            },
            "SNAPSHOT_DIFF",
            "damaged",
        ),
        ({"diffs": delimited([pb.DiffEntry(type=DIRECTORY, inodeId=1)] * 2)}, "SNAPSHOT_DIFF", "two entries"),
        ({"diffs": delimited([pb.DiffEntry(type=DIRECTORY, inodeId=9)])}, "SNAPSHOT_DIFF", "inode 9"),
        ({"references": b"\x05\x08"}, "INODE_REFERENCE", "damaged inode reference"),
        ({"references": delimited([pb.INodeReference(referredId=9)])}, "INODE_REFERENCE", "inode 9"),
    ],
)
def test_damage_is_found_when_the_index_is_built(sections: dict[str, bytes], section: str, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        index_of(**sections)
    assert caught.value.section == section


@pytest.mark.parametrize("number", [-1, 1, 1 << 40])
def test_a_reference_that_does_not_exist_is_damage(number: int) -> None:
    index = index_of(references=delimited([pb.INodeReference(referredId=1)]))
    with pytest.raises(RecordError, match=f"no reference {number}"):
        index.reference(number)


@pytest.mark.parametrize(
    ("sections", "question", "section"),
    [
        ({"entries": delimited([pb.DirEntry(parent=1, refChildren=[5])])}, "holders", "INODE_DIR"),
        ({"entries": delimited([pb.DirEntry(parent=1, refChildren=[5])])}, "reached_from", "INODE_DIR"),
        ({"entries": delimited([pb.DirEntry(parent=1, children=[5])])}, "reached_from", "INODE_DIR"),
        (
            {
                "diffs": delimited(
                    [pb.DiffEntry(type=DIRECTORY, inodeId=1, numOfDiff=1), pb.DirectoryDiff(deletedINodeRef=[3])]
                )
            },
            "holders",
            "SNAPSHOT_DIFF",
        ),
    ],
)
def test_out_of_range_numbers_and_ids_are_damage(sections: dict[str, bytes], question: str, section: str) -> None:
    index = index_of(**sections)
    with pytest.raises(RecordError) as caught:
        getattr(index, question)(*([1] if question == "reached_from" else []))
    assert caught.value.section == section


# ---- diffs that may be left unread -------------------------------------------------------------------------


def _older_diffs(*older: snapshot_cases.DirectoryDiffMessage) -> tuple[int, int]:
    """Return (start of the diffs after the newest, result of the index)."""
    newest = len(snapshot_cases.entry(5, *snapshot_cases.NEWEST))
    found = history.older_diffs(*snapshot_cases.older_diffs(snapshot_cases.entry(5, *snapshot_cases.NEWEST, *older)))
    return newest, int(found)


@pytest.mark.parametrize("older", snapshot_cases.PLAIN_OLDER.values(), ids=snapshot_cases.PLAIN_OLDER)
def test_plain_older_diffs_begin_after_the_newest_diff(older: Sequence[snapshot_cases.DirectoryDiffMessage]) -> None:
    expected, found = _older_diffs(*older)
    assert found == expected


@pytest.mark.parametrize("older", snapshot_cases.OTHER_OLDER.values(), ids=snapshot_cases.OTHER_OLDER)
def test_diffs_that_are_not_plain_are_reported(older: Sequence[snapshot_cases.DirectoryDiffMessage]) -> None:
    assert _older_diffs(*older)[1] == -1
