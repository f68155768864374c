"""Recorded and small constructed images for the tests of image_format."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from image_format.array_allocator import ArrayAllocator
from image_format.codecs import CODECS
from image_format.md5_file import format_md5, md5_path
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
CODEC_NAMES = tuple(CODECS)


# Hadoop left a reference to a missing inode in these images; neither a NameNode nor our index loads them.
REFERENCE_LOST = ("dangling-child-after-replay/after", "random-mixed-551376/after", "random-snapshot-410001/after")


def bytes_in_files(allocator: ArrayAllocator) -> int:
    """Return the number of bytes on disk that the allocator's arrays occupy."""
    return sum(len(block) for block in allocator._blocks if block.descriptor >= 0)


def has_its_references(path: Path) -> bool:
    """Return whether the folder of a recorded image is not in `REFERENCE_LOST`."""
    return not str(path.parent).endswith(REFERENCE_LOST)


@functools.cache
def recorded_images() -> list[Path]:
    """Return every valid image of both releases with a known codec."""
    found = [
        path
        for pattern in ("*/*/before/fsimage_*", "*/*/after/fsimage_*", "*/odd/*/before/fsimage_*")
        for path in sorted(RECORDED.glob(pattern))
        if path.suffix != ".md5"
    ]
    return list(filter(has_its_references, found))


def image_id(path: Path) -> str:
    return "-".join(path.relative_to(RECORDED).parts[:-1])


def minimal_sections(txid: int = 7) -> list[tuple[str, bytes]]:
    """Return the required sections of an image that contains the root and nothing else."""
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"")
    root.directory.permission = 0x0000010000020000 | 0o755
    header = pb.INodeSection(lastInodeId=16385, numInodes=1)
    entries = [pb.StringTableEntry(id=1, str=b"hdfs"), pb.StringTableEntry(id=2, str=b"supergroup")]
    return [
        ("NS_INFO", encode_delimited(pb.NameSystemSection(namespaceId=1, transactionId=txid))),
        ("INODE", delimited([header, root])),
        ("INODE_DIR", b""),
        ("STRING_TABLE", delimited([pb.StringTableSection(numEntry=2), *entries])),
    ]


def delimited(messages: Iterable[object]) -> bytes:
    return b"".join(encode_delimited(message) for message in messages)  # type: ignore[arg-type]


def build_image(sections: Sequence[tuple[str, bytes]], codec: str = "", layout_version: int = -63) -> bytes:
    out = bytearray()
    writer = ImageWriter(out.extend, layout_version, codec)
    for name, body in sections:
        with writer.section(name) as section:
            section.write(body)
    writer.finish()
    return bytes(out)


def store(folder: Path, data: bytes, name: str = "fsimage_0000000000000000007") -> Path:
    """Write an image and its digest file."""
    path = folder / name
    path.write_bytes(data)
    md5_path(path).write_bytes(format_md5(hashlib.md5(data).digest(), name))
    return path
