"""Elements that the XML dumps of Hadoop 2.7 and 3.x share (PBImageXmlWriter)."""

from __future__ import annotations

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.template import PrintStep, each, inside, literal, put_data, put_number, put_word, when
from image_tools.dump.values import signed32, signed64
from image_tools.dump.xml_text import number, text


def number_steps(tag: str, field: str) -> tuple[PrintStep, ...]:
    """Return steps for an element with a number."""
    return literal(f"<{tag}>"), put_number(field), literal(f"</{tag}>")


def text_steps(tag: str, field: str) -> tuple[PrintStep, ...]:
    """Return steps for an element with text."""
    return literal(f"<{tag}>"), put_data(field), literal(f"</{tag}>")


def word_steps(tag: str, kind: str, field: str = "") -> tuple[PrintStep, ...]:
    """Return steps for an element with the word for a number."""
    return literal(f"<{tag}>"), put_word(kind, field), literal(f"</{tag}>")


BLOCKS = when(
    literal("<blocks>"),
    each(
        "blocks",
        literal("<block>"),
        *number_steps("id", "blockId"),
        *number_steps("genstamp", "genStamp"),
        *number_steps("numBytes", "numBytes"),
        literal("</block>\n"),
    ),
    literal("</blocks>\n"),
    present=["blocks"],
)
"""The blocks of a file or of a file diff."""

UNDER_CONSTRUCTION = inside(
    "fileUC",
    literal("<file-under-construction>"),
    *text_steps("clientName", "clientName"),
    *text_steps("clientMachine", "clientMachine"),
    literal("</file-under-construction>\n"),
)
"""The client that writes an open file."""

QUOTAS = when(*number_steps("nsquota", "nsQuota"), *number_steps("dsquota", "dsQuota"), present=["nsQuota", "dsQuota"])
"""Both quotas of a directory, only if both are present."""

REFERENCE = (
    literal("<ref>"),
    *number_steps("referredId", "referredId"),
    *text_steps("name", "name"),
    *number_steps("dstSnapshotId", "dstSnapshotId"),
    *number_steps("lastSnapshotId", "lastSnapshotId"),
    literal("</ref>\n"),
)
"""A record of INODE_REFERENCE; absent numbers print as 0."""

OPEN_FILE = (literal("<inode>"), *number_steps("id", "inodeId"), *text_steps("path", "fullPath"), literal("</inode>\n"))
"""A record of FILES_UNDERCONSTRUCTION."""


def inode_steps(
    file: tuple[PrintStep, ...], directory: tuple[PrintStep, ...], symlink: tuple[PrintStep, ...]
) -> tuple[PrintStep, ...]:
    """Return steps for an inode from the steps of each kind."""
    return (
        *number_steps("id", "id"),
        *word_steps("type", "", "type"),
        *text_steps("name", "name"),
        inside("file", *file),
        *when(inside("directory", *directory), absent=["file"]),
        *when(inside("symlink", *symlink), absent=["file", "directory"]),
    )


def entry_steps(child: str, reference: str) -> tuple[PrintStep, ...]:
    """Return steps for a directory with its children, in elements of these names."""
    return (
        literal("<directory>"),
        *number_steps("parent", "parent"),
        each("children", *number_steps(child, "")),
        each("refChildren", *number_steps(reference, "")),
        literal("</directory>\n"),
    )


def snapshottable_element(header: pb.SnapshotSection) -> str:
    """Return the snapshottable directories, "" if there are none."""
    if not header.snapshottableDir:
        return ""
    directories = "".join([number("dir", signed64(inode_id)) for inode_id in header.snapshottableDir])
    return f"<snapshottableDir>{directories}</snapshottableDir>\n"


def created_element(name: bytes) -> str:
    """Return an entry of a created list."""
    return f"<created>{text('name', name)}</created>\n"


def pool_element(pool: pb.CachePoolInfoProto) -> str:
    """Return a cache pool."""
    return (
        f"<pool>{text('poolName', pool.poolName)}{text('ownerName', pool.ownerName)}"
        f"{text('groupName', pool.groupName)}{number('mode', pool.mode)}{number('limit', pool.limit)}"
        f"{number('maxRelativeExpiry', pool.maxRelativeExpiry)}</pool>\n"
    )


def directive_element(directive: pb.CacheDirectiveInfoProto, relative: str) -> str:
    """Return a cache directive; `relative` is the element for the kind of expiration."""
    return (
        f"<directive>{number('id', directive.id)}{text('path', directive.path)}"
        f"{number('replication', signed32(directive.replication))}{text('pool', directive.pool)}"
        f"<expiration>{number('millis', directive.expiration.millis)}{relative}</expiration>\n</directive>\n"
    )
