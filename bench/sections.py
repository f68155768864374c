"""Writes the sections of a generated image, and the files next to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.kernels.records import CLOCK
from bench.snapshots import SnapshotSections
from hadoop_common.names import SEEN_TXID, VERSION, image_name
from hadoop_common.storage_info import StorageInfo, format_version
from image_format.layout import NEWEST_LAYOUT, LayoutVersion, supports
from image_format.md5_file import write_md5_file
from image_format.output import DigestingFileSet
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from image_tools.convert.small_sections import erasure_coding_section

TXID = 1000

Chunks = Iterable[memoryview | bytes]


@dataclass(frozen=True)
class Sections:
    """Content of an image.

    Attributes:
        inodes, directories, open_files: bytes of INODE, INODE_DIR and FILES_UNDERCONSTRUCTION, read in this order.
        last_block, last_genstamp: the largest block id and generation stamp.
    """

    inodes: Chunks
    directories: Chunks
    open_files: Chunks
    snapshots: SnapshotSections
    strings: StringTable
    last_block: int
    last_genstamp: int


def write_sections(current: Path, sections: Sections, *, txid: int = TXID, layout: int = NEWEST_LAYOUT) -> Path:
    """Write VERSION, seen_txid, `fsimage_txid` and its digest into the folder `current`; return the image's path."""
    info = pb.NameSystemSection(
        namespaceId=1,
        genstampV1=1000,
        genstampV2=sections.last_genstamp,
        genstampV1Limit=0,
        lastAllocatedBlockId=sections.last_block,
        transactionId=txid,
    )
    secrets = pb.SecretManagerSection(currentId=0, tokenSequenceNumber=0, numKeys=0, numTokens=0)
    caches = pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)
    contents: dict[str, Chunks] = {"NS_INFO": [encode_delimited(info)]}
    if supports(LayoutVersion.ERASURE_CODING, layout):
        contents["ERASURE_CODING"] = [erasure_coding_section()]
    contents |= {
        "INODE": sections.inodes,
        "INODE_DIR": sections.directories,
        "FILES_UNDERCONSTRUCTION": sections.open_files,
        "SNAPSHOT": sections.snapshots.snapshots,
        "SNAPSHOT_DIFF": sections.snapshots.diffs,
        "INODE_REFERENCE": (),
        "SECRET_MANAGER": [encode_delimited(secrets)],
        "CACHE_MANAGER": [encode_delimited(caches)],
        "STRING_TABLE": [sections.strings.encode()],
    }
    path = current / image_name(txid)
    output = DigestingFileSet([path])
    writer = ImageWriter(output, layout)
    for name, chunks in contents.items():
        with writer.section(name) as out:
            for chunk in chunks:
                out.write(chunk)
    writer.finish()
    written = output.close()
    storage = StorageInfo(layout, 1, 0, "CID-bench", "BP-1-127.0.0.1-1")
    (current / VERSION).write_bytes(format_version(storage, datetime.fromtimestamp(CLOCK / 1000, UTC)))
    (current / SEEN_TXID).write_text(f"{txid}\n")
    write_md5_file(path, written.md5)
    return path
