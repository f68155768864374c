"""The single pass over the snapshots of an image agrees with the full verification, and with NameNodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from image_format.errors import ImageFormatError, InconsistentSnapshotsError, RecordError
from image_format.index import ImageIndex
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.snapshot_check import check_snapshots
from image_tools.verify.snapshot_repair import repair_snapshots
from tests.image_format.image_support import build_image, delimited, minimal_sections
from tests.image_tools.recorded_images import IMAGES, OF_HADOOP, case_of

pytestmark = pytest.mark.recorded

# the snapshots of these images have no faults
OTHER = {"sub-section"}


def test_images_that_no_namenode_loads_are_refused() -> None:
    for path in IMAGES:
        wrong = OF_HADOOP.get(case_of(path), set()) - OTHER
        with ImageFile.open(path, verify_md5=False) as image:
            try:
                check_snapshots(ImageIndex(image))
                found = False
            except InconsistentSnapshotsError:
                found = True
            assert found == bool(wrong), case_of(path)


DIRECTORY, FILE, LINK = pb.DiffEntry.DIRECTORYDIFF, pb.INode.FILE, pb.INode.SYMLINK


def inode(number: int, name: bytes, kind: int = FILE) -> pb.INode:
    made = pb.INode(type=kind, id=number, name=name)  # type: ignore[arg-type]
    if kind == LINK:
        made.symlink.target = b"/t"
    else:
        made.file.replication = 1
    return made


def diff(created: tuple[bytes, ...] = (), deleted: tuple[int, ...] = (), references: tuple[int, ...] = ()) -> bytes:
    """Return a diff of the root with its created names."""
    message = pb.DirectoryDiff(
        snapshotId=0, createdListSize=len(created), deletedINode=deleted, deletedINodeRef=references
    )
    return delimited([message, *(pb.CreatedListEntry(name=name) for name in created)])


@pytest.mark.parametrize(
    ("diffs", "references", "fits"),
    [
        ([diff(created=(b"child",))], [], True),
        ([diff(created=(b"nobody",))], [], False),
        ([diff(deleted=(11, 12)), diff(created=(b"gone", b"link"))], [], True),
        # only a later diff shows which directory contained the inode
        ([diff(created=(b"gone",)), diff(deleted=(11,))], [], False),
        ([diff(deleted=(99,))], [], False),
        ([diff(deleted=(12, 11))], [], False),
        ([diff(created=(b"link", b"gone")), diff(deleted=(11, 12))], [], False),
        ([diff(deleted=(11,)), diff(deleted=(11,))], [], False),
        # copies of a link share its record
        ([diff(deleted=(12,)), diff(deleted=(12,))], [], True),
        ([diff(references=(0,)), diff(created=(b"once",))], [(11, b"once", 0)], True),
        ([diff(references=(0,)), diff(created=(b"gone",))], [(11, b"once", 0)], False),
        ([diff(references=(0,))], [(99, b"once", 0)], False),
        ([diff(references=(1,))], [(11, b"once", 0)], False),
        ([diff(references=(0, 1))], [(11, b"a", 0), (11, b"b", 0)], False),
        ([diff(references=(0, 1))], [(11, b"a", 0), (11, b"b", 1)], True),
    ],
)
def test_snapshot_list_entries_must_refer_to_existing_inodes(
    tmp_path: Path, diffs: list[bytes], references: list[tuple[int, bytes, int]], *, fits: bool
) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"")
    inodes = [root, inode(10, b"child"), inode(11, b"gone"), inode(12, b"link", LINK)]
    records = [pb.INodeReference(referredId=i, name=name, lastSnapshotId=last) for i, name, last in references]
    entry = pb.DiffEntry(type=DIRECTORY, inodeId=16385, numOfDiff=len(diffs))
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(lastInodeId=16385, numInodes=len(inodes)), *inodes])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=[10])])
    sections["SNAPSHOT_DIFF"] = delimited([entry]) + b"".join(diffs)
    sections["INODE_REFERENCE"] = delimited(records)
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(build_image(list(sections.items())))
    with ImageFile.open(path, verify_md5=False) as image:
        if fits:
            check_snapshots(ImageIndex(image))
            return
        with pytest.raises(InconsistentSnapshotsError, match=r"SNAPSHOT_DIFF|INODE_REFERENCE"):
            check_snapshots(ImageIndex(image))


@pytest.mark.parametrize(
    ("counter", "snapshot", "fault"), [(9, 4, None), (9, 8, InconsistentSnapshotsError), (8, 8, RecordError)]
)
def test_a_root_diff_needs_its_snapshot(
    tmp_path: Path, counter: int, snapshot: int, fault: type[ImageFormatError] | None
) -> None:
    sections = dict(minimal_sections())
    header = pb.SnapshotSection(snapshotCounter=counter, snapshottableDir=[16385], numSnapshots=1)
    made = pb.Snapshot(snapshotId=4, root=pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"s"))
    entry = pb.DiffEntry(type=DIRECTORY, inodeId=16385, numOfDiff=1)
    sections["SNAPSHOT"] = delimited([header, made])
    sections["SNAPSHOT_DIFF"] = delimited([entry, pb.DirectoryDiff(snapshotId=snapshot, isSnapshotRoot=True)])
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(build_image(list(sections.items())))
    with ImageFile.open(path, verify_md5=False) as image:
        if fault is None:
            check_snapshots(ImageIndex(image))
            return
        # only the first diff may be left over from a snapshot that a NameNode deleted
        with pytest.raises(fault, match="has the root diff of snapshot 8, which does not exist"):
            check_snapshots(ImageIndex(image))


@pytest.mark.parametrize(("referred", "heals"), [(16386, True), (16387, False), (0, False)])
def test_a_reference_to_an_inode_that_never_existed_is_damage(tmp_path: Path, referred: int, heals: bool) -> None:
    sections = dict(minimal_sections())
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory())
    sections["INODE"] = delimited([pb.INodeSection(lastInodeId=16386, numInodes=1), root])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385)])
    sections["INODE_REFERENCE"] = delimited([pb.INodeReference(referredId=referred, name=b"n", lastSnapshotId=0)])
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(build_image(list(sections.items())))
    with ImageFile.open(path, verify_md5=False) as image:
        if not heals:
            with pytest.raises(InconsistentSnapshotsError, match="cannot be healed: error reference-inode"):
                repair_snapshots(image)
            return
        repaired, changes = repair_snapshots(image)
        with repaired:
            assert [change.code for change in changes] == ["reference-inode"]


def test_a_repair_of_snapshots_changes_no_other_section(tmp_path: Path) -> None:
    path = next(path for path in IMAGES if case_of(path) == "hadoop-3.4.1/odd/namenode-own-image-fails-1/before")
    with ImageFile.open(path) as image:
        repaired, changes = repair_snapshots(image)
        with repaired:
            check_snapshots(ImageIndex(repaired))
            assert {change.code for change in changes} <= OF_HADOOP[case_of(path)]
            for name in ("INODE", "NS_INFO", "STRING_TABLE"):
                assert repaired.section_bytes(name) == image.section_bytes(name)
            assert repaired.section_bytes("SNAPSHOT_DIFF") != image.section_bytes("SNAPSHOT_DIFF")
