"""Delimited rows, compared with the real viewer's rows and with rows derived from its XML."""

from __future__ import annotations

import gzip
import itertools
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.dump.delimited import COLUMNS, PolicyColumns, dump_delimited, header_row
from image_tools.dump.records import ImageRecords
from image_tools.dump.tree import ImageTree
from image_tools.dump.values import local_minutes
from tests.image_format.image_support import RECORDED, build_image, bytes_in_files, delimited, minimal_sections, store
from tests.image_tools.dump_support import Viewed, joined, open_image, recorded_views

DATA = Path(__file__).parent / "data"
FILE, DIRECTORY, SYMLINK = pb.INode.FILE, pb.INode.DIRECTORY, pb.INode.SYMLINK


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def switch(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield switch
    monkeypatch.undo()
    time.tzset()


def rows_of(path: Path, delimiter: str = "\t") -> list[str]:
    with open_image(path) as image:
        return joined(dump_delimited(ImageRecords(image), delimiter)).splitlines(keepends=True)


@pytest.mark.recorded
@pytest.mark.parametrize("stored", sorted(DATA.glob("oiv_delimited_*.tsv.gz")), ids=lambda path: path.name)
def test_rows_equal_those_of_hadoop_2(stored: Path, zone: Callable[[str], None]) -> None:
    """The expected rows are the output of `hdfs oiv -p Delimited` of Hadoop 2.7.3, in UTC."""
    zone("UTC")
    case = stored.name.removeprefix("oiv_delimited_").removesuffix(".tsv.gz")
    image = Viewed(RECORDED / "hadoop-2.7.3" / case / "oiv_after.xml.gz").image
    assert "".join(rows_of(image)) == gzip.decompress(stored.read_bytes()).decode("utf-8")


POLICIES = {
    "webhdfs": (RECORDED / "webhdfs-3.4.2", PolicyColumns(storage=True, coding=True)),
    "erasure-coding": (RECORDED / "hadoop-3.4.1/erasure-coding/after", PolicyColumns(storage=True, coding=True)),
    "quotas-storage-policy": (RECORDED / "hadoop-3.4.1/quotas-storage-policy/after", PolicyColumns(storage=True)),
}


@pytest.mark.recorded
@pytest.mark.parametrize("name", POLICIES)
def test_rows_with_policies_equal_those_of_hadoop_3(name: str, zone: Callable[[str], None]) -> None:
    zone("UTC")
    folder, policies = POLICIES[name]
    (path,) = (each for each in folder.glob("fsimage_*") if each.suffix != ".md5")
    with open_image(path) as image:
        rows = b"".join(dump_delimited(ImageRecords(image), release_3=True, policies=policies))
    assert header_row("\t", policies).encode() + rows == (DATA / f"oiv-3.4.2-{name}.tsv").read_bytes()


@pytest.mark.recorded
@pytest.mark.parametrize("view", recorded_views(large=False), ids=lambda view: view.id)
def test_rows_agree_with_the_viewers_xml(view: Viewed) -> None:
    expected = "".join(derived_rows(view.expected()))
    # a name may contain a line end
    assert sorted(rows_of(view.image)) == sorted(expected.splitlines(keepends=True))


def unmangled(text: str | None) -> str:
    return re.sub(r"\\([0-9a-f]{4});", lambda found: chr(int(found[1], 16)), text or "")


def number(element: ElementTree.Element, *tags: str) -> int:
    return next((int(found) for tag in tags if (found := element.findtext(tag)) is not None), 0)


def symbols(mode: str) -> str:
    if not mode.isdigit():
        return mode
    bits = int(mode, 8)
    text = "".join(letter if bits >> 8 - i & 1 else "-" for i, letter in enumerate("rwxrwxrwx"))
    return text if bits < 0o1000 else text[:8] + "tT"[text[8] == "-"]


def clock(millis: int) -> str:
    return datetime.fromtimestamp(millis // 1000).strftime("%Y-%m-%d %H:%M")


def derived_rows(xml: str) -> list[str]:
    document = ElementTree.fromstring(xml)
    references = [number(found, "referredId") for found in document.iterfind("INodeReferenceSection/ref")]
    parents: dict[int, int] = {}
    for entry in document.iterfind("INodeDirectorySection/directory"):
        for child in entry:
            if child.tag in ("inode", "child"):
                parents[int(child.text or 0)] = number(entry, "parent")
            elif child.tag in ("inodereference-index", "refChild"):
                parents[references[int(child.text or 0)]] = number(entry, "parent")
    inodes = {number(found, "id"): found for found in document.iterfind("INodeSection/inode")}

    def path(inode_id: int) -> list[str] | None:
        if inode_id == 16385:
            return []
        above = path(parents[inode_id]) if inode_id in parents else None
        return None if above is None else [*above, unmangled(inodes[inode_id].findtext("name"))]

    return [row(names, found) for inode_id, found in inodes.items() if (names := path(inode_id)) is not None]


def row(names: list[str], inode: ElementTree.Element) -> str:
    directory = inode.findtext("type") == "DIRECTORY"
    sizes = [number(block, "numBytes") for block in inode.iterfind("blocks/block")]
    user, group, mode = unmangled(inode.findtext("permission")).rsplit(":", 2)
    columns = [
        "/" + "/".join(names),
        # an erasure coded file has no replication; the XML has 1
        0 if inode.findtext("erasureCodingPolicyId") else number(inode, "replication"),
        clock(number(inode, "mtime")),
        clock(0 if directory else number(inode, "atime")),
        number(inode, "perferredBlockSize", "preferredBlockSize"),
        len(sizes),
        sum(sizes),
        number(inode, "nsquota"),
        number(inode, "dsquota"),
        symbols(mode),
        user,
        group,
    ]
    return "\t".join(map(str, columns)) + "\n"


# ---- images made here ---------------------------------------------------------------------------------------


def tree_image(
    folder: Path, inodes: list[pb.INode], entries: list[pb.DirEntry], references: list[pb.INodeReference]
) -> Path:
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(lastInodeId=20000, numInodes=len(inodes)), *inodes])
    sections["INODE_DIR"] = delimited(entries)
    sections["INODE_REFERENCE"] = delimited(references)
    return store(folder, build_image(list(sections.items())))


def node(inode_id: int, kind: pb.INode.Type, name: bytes) -> pb.INode:
    inode = pb.INode(type=kind, id=inode_id, name=name)
    if kind == DIRECTORY:
        inode.directory.nsQuota = inode.directory.dsQuota = (1 << 64) - 1
    return inode


ROOT = node(16385, DIRECTORY, b"")


def test_references_symlinks_and_inodes_only_in_snapshots(tmp_path: Path) -> None:
    moved, link = node(3, FILE, b"moved"), node(4, SYMLINK, b"link")
    link.symlink.target, link.symlink.modificationTime = b"/moved", 60_000
    inodes = [
        *(node(5, FILE, b"kept"), node(6, FILE, b"below"), moved, link, node(2, DIRECTORY, b"d")),
        *(node(7, DIRECTORY, b"gone"), ROOT),
    ]
    entries = [
        pb.DirEntry(parent=7, children=[6]),
        pb.DirEntry(parent=2, children=[4], refChildren=[1]),
        pb.DirEntry(parent=16385, children=[2, 999]),
    ]
    references = [pb.INodeReference(referredId=3, name=b"was", lastSnapshotId=1), pb.INodeReference(referredId=3)]
    path = tree_image(tmp_path, inodes, entries, references)
    assert [line.split("\t")[0] for line in rows_of(path)] == ["/d/moved", "/d/link", "/d", "/"]
    with open_image(path) as image:
        tree = ImageTree(ImageRecords(image))
        assert tree.strays.tolist() == [[16385, 999]]
        assert tree.path(6) is tree.path(5) is tree.path(999) is None
        assert tree.path(16385) == b"/"


def test_columns_of_a_row(tmp_path: Path, zone: Callable[[str], None]) -> None:
    zone("America/New_York")
    file = node(2, FILE, b"\xff,")
    file.file.replication, file.file.preferredBlockSize = 3, 1 << 27
    file.file.modificationTime, file.file.accessTime = 1_700_000_000_000, 1_720_000_000_000
    file.file.permission = 1 << 40 | 2 << 16 | 0o1640
    for size in (10, 5):
        file.file.blocks.add(blockId=1, genStamp=1, numBytes=size)
    path = tree_image(tmp_path, [ROOT, file], [pb.DirEntry(parent=16385, children=[2])], [])
    expected = "/\ufffd,|3|2023-11-14 17:13|2024-07-03 05:46|134217728|2|15|0|0|rw-r----T|hdfs|supergroup\n"
    assert rows_of(path, "|")[1] == expected
    assert rows_of(path, "|")[0] == "/|0|1969-12-31 19:00|1969-12-31 19:00|0|0|0|-1|-1|---------|null|null\n"


def test_rows_in_the_form_of_hadoop_3(tmp_path: Path, zone: Callable[[str], None]) -> None:
    zone("UTC")
    file, plain, folder = node(2, FILE, b'a,"b"'), node(3, FILE, b"c\nd"), node(4, DIRECTORY, b"e")
    file.file.permission = folder.directory.permission = 1 << 40 | 2 << 16 | 0o755
    file.file.acl.entries.append(0)
    folder.directory.acl.entries.append(0)
    plain.file.acl.SetInParent()
    path = tree_image(tmp_path, [ROOT, file, plain, folder], [pb.DirEntry(parent=16385, children=[2, 3, 4])], [])
    with open_image(path) as image:
        rows = joined(dump_delimited(ImageRecords(image), ";", release_3=True)).splitlines()
    assert [row.split(";")[0] for row in rows] == ["/", '"/a,""b"""', '"/c%x0Ad"', "/e"]
    assert [row.split(";")[9:] for row in rows] == [
        ["d---------", "null", "null"],
        ["-rwxr-xr-x+", "hdfs", "supergroup"],
        ["----------", "null", "null"],
        ["drwxr-xr-x+", "hdfs", "supergroup"],
    ]


@pytest.mark.recorded
def test_paths_can_be_stored_in_files(tmp_path: Path) -> None:
    image = Viewed(RECORDED / "hadoop-2.7.3" / "medium-20k" / "oiv_after.xml.gz").image
    with open_image(image) as opened:
        allocator = ArrayAllocator(0, tmp_path, smallest=1)
        rows = dump_delimited(ImageRecords(opened), allocator=allocator)
        assert bytes_in_files(allocator) > 10_000
        assert allocator.in_memory == 0
        assert joined(rows).splitlines(keepends=True) == rows_of(image, "\t")


def test_header_row() -> None:
    assert header_row(",") == ",".join(COLUMNS) + "\n"
    assert len(COLUMNS) == 12


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_timestamp_is_formatted_as_a_date(millis: int) -> None:
    assert re.fullmatch(r"\d{4,}-\d\d-\d\d \d\d:\d\d", local_minutes(millis))


def test_paths_of_deep_directories(tmp_path: Path) -> None:
    depth = 3000
    inodes = [ROOT, *(node(20000 + i, DIRECTORY, b"d") for i in range(depth))]
    ids = [inode.id for inode in inodes]
    entries = [pb.DirEntry(parent=above, children=[below]) for above, below in itertools.pairwise(ids)]
    rows = rows_of(tree_image(tmp_path, inodes, entries, []))
    assert rows[-1].split("\t")[0] == "/d" * depth


@pytest.mark.parametrize(
    ("inodes", "entries", "complaint"),
    [
        ([ROOT, node(2, DIRECTORY, b"a")], [pb.DirEntry(parent=2, children=[2])], "directory 2 contains itself"),
        ([ROOT, node(2, FILE, b"a")], [pb.DirEntry(parent=16385, refChildren=[4])], "no record 4"),
        ([ROOT, node(2, FILE, b"a"), node(2, FILE, b"b")], [], "inode 2 has two records"),
    ],
)
def test_damaged_trees_are_an_error(
    tmp_path: Path, inodes: list[pb.INode], entries: list[pb.DirEntry], complaint: str
) -> None:
    path = tree_image(tmp_path, inodes, entries, [])
    with pytest.raises(RecordError, match=complaint):
        rows_of(path)


@pytest.mark.parametrize(
    ("section", "body", "complaint"),
    [
        ("INODE", encode_delimited(pb.INodeSection(numInodes=1)) + b"\x04\x08\x01\x10", "damaged inode record"),
        ("INODE", encode_delimited(pb.INodeSection(numInodes=2)) + encode_delimited(ROOT), "found 1"),
        ("INODE_DIR", b"\x05\x08", "damaged directory entry"),
        ("INODE_DIR", b"\x04\x08\x01\x12\x01", "damaged"),
    ],
)
def test_damaged_sections_are_an_error(tmp_path: Path, section: str, body: bytes, complaint: str) -> None:
    sections = dict(minimal_sections()) | {section: body}
    path = store(tmp_path, build_image(list(sections.items())))
    with pytest.raises(RecordError, match=complaint):
        rows_of(path)
