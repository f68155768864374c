"""Files by size, compared with a plain count of the same records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.distribution import _readable, dump_distribution
from image_tools.dump.records import ImageRecords
from tests.depth import examples
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import open_image

SIZES = st.integers(0, 40)


def image_of(folder: Path, files: list[list[int]], count: int | None = None) -> Path:
    inodes = [pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory())]
    for number, sizes in enumerate(files):
        inode = pb.INode(type=pb.INode.FILE, id=20000 + number, file=pb.INodeFile(replication=2))
        for size in sizes:
            inode.file.blocks.add(blockId=1, genStamp=1, numBytes=size)
        inodes.append(inode)
    header = pb.INodeSection(numInodes=len(inodes) if count is None else count)
    sections = dict(minimal_sections()) | {"INODE": delimited([header, *inodes])}
    return store(folder, build_image(list(sections.items())))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sizes")


@given(st.lists(st.lists(SIZES, max_size=3), max_size=9), st.integers(1, 50), st.integers(1, 20))
@examples(60)
def test_counts_and_totals_of_files_by_size(folder: Path, files: list[list[int]], largest: int, step: int) -> None:
    with open_image(image_of(folder, files)) as image:
        text = "".join(dump_distribution(ImageRecords(image), largest, step))
    last = largest // step
    sizes = [sum(blocks) for blocks in files]
    buckets = Counter(last if size > largest else min(last, -(-size // step)) for size in sizes)
    assert text.splitlines() == [
        "Processed 0 inodes.",
        "Size\tNumFiles",
        *(f"{bucket * step}\t{buckets[bucket]}" for bucket in sorted(buckets)),
        f"totalFiles = {len(files)}",
        "totalDirectories = 1",
        f"totalBlocks = {sum(map(len, files))}",
        f"totalSpace = {2 * sum(sizes)}",
        f"maxFileSize = {max(sizes, default=0)}",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KB"),
        (1536, "1.50 KB"),
        (1152, "1.13 KB"),
        (3 << 20, "3 MB"),
        ((1 << 20) - 1, "1.00 MB"),
        (1 << 62, "4 EB"),
    ],
)
def test_readable_sizes_are_formatted_like_hadoop(size: int, text: str) -> None:
    assert _readable(size) == text


def test_human_readable_size_ranges(folder: Path) -> None:
    with open_image(image_of(folder, [[], [2048], [5000]])) as image:
        text = "".join(dump_distribution(ImageRecords(image), 4096, 1024, readable=True))
    assert text.splitlines()[1:5] == ["Size Range\tNumFiles", "[0 B, 0 B]\t1", "(1 KB, 2 KB]\t1", "(3 KB, 4.88 KB]\t1"]


def test_damaged_inodes_and_wrong_counts_are_errors(folder: Path) -> None:
    path = image_of(folder, [[]])
    path.write_bytes(path.read_bytes().replace(b"\x08\x01\x10\xa0\x9c\x01", b"\x08\x01\x10\xa0\x9c\x81", 1))
    with open_image(path) as image, pytest.raises(RecordError, match="no inode record"):
        list(dump_distribution(ImageRecords(image)))
    with open_image(image_of(folder, [[]], count=5)) as image, pytest.raises(RecordError, match="header counts 5"):
        list(dump_distribution(ImageRecords(image)))
