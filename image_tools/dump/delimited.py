"""An image as delimited rows, one for each inode of the current tree (`hdfs oiv -p Delimited`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from image_format.array_allocator import ArrayAllocator
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.inode_paths import inode_paths, path_of
from image_tools.dump.kernels.program import Paths
from image_tools.dump.record_text import inode_texts
from image_tools.dump.records import ImageRecords
from image_tools.dump.template import (
    CHECKED_FEATURES,
    CHECKED_QUOTAS,
    Escape,
    PrintStep,
    RecordTemplate,
    WordFunction,
    always_inside,
    inside,
    literal,
    put_count,
    put_date,
    put_number,
    put_path,
    put_total,
    put_word,
    when,
)
from image_tools.dump.values import SerialNames, csv_text, java_text, local_minutes, mode_symbols, viewer_policies

COLUMNS = (
    "Path",
    "Replication",
    "ModificationTime",
    "AccessTime",
    "PreferredBlockSize",
    "BlocksCount",
    "FileSize",
    "NSQUOTA",
    "DSQUOTA",
    "Permission",
    "UserName",
    "GroupName",
)


class PolicyColumns(NamedTuple):
    """Optional columns for policies, after the other columns (-sp and -ec of Hadoop 3.3 and 3.4)."""

    storage: bool = False
    coding: bool = False

    def chosen(self, storage: str, coding: str) -> list[str]:
        """Return the values of the chosen columns as strings."""
        return [text for text, wanted in ((storage, self.storage), (coding, self.coding)) if wanted]


NO_POLICIES = PolicyColumns()


def header_row(delimiter: str, policies: PolicyColumns = NO_POLICIES) -> str:
    """Return the header row, which Hadoop 3 prints, but Hadoop 2.7 does not."""
    return delimiter.join([*COLUMNS, *policies.chosen("StoragePolicyId", "ErasureCodingPolicy")]) + "\n"


def dump_delimited(
    records: ImageRecords,
    delimiter: str = "\t",
    allocator: ArrayAllocator | None = None,
    *,
    release_3: bool = False,
    policies: PolicyColumns = NO_POLICIES,
) -> Iterator[bytes]:
    """Yield one UTF-8 row for each inode in the format of Hadoop 2.7.3, in the order of the INODE section.

    Times are printed to the minute in the process's time zone, sizes are in bytes, and quotas are 0 for files and
    symlinks. Nothing is escaped. An inode that the tree contains by a reference has its current path; inodes that exist
    only in snapshots have no row.

    Args:
        release_3: whether to use the format of Hadoop 3.3, without its header. Permissions begin with d or -, and end
            with + for ACL entries. Paths and names with commas, quotes or line ends are quoted.
        policies: additional columns. With these columns, Python prints the rows instead of kernels, which takes about
            50 us per inode.
        allocator: allocator of the arrays with each inode's directory and with the paths of all directories.

    Raises:
        RecordError: a record is damaged.
        ImageStorageError: not enough disk space.
    """
    names = SerialNames(records.image.string_table())

    escape: Escape = csv_text if release_3 else lambda text: text

    def owner(packed: int) -> str:
        user, group, _ = names.owner(packed)
        return delimiter.join("null" if name is None else escape(java_text(name)) for name in (user, group))

    words: dict[str, WordFunction] = {"mode": lambda packed: mode_symbols(names.owner(packed).mode), "owner": owner}
    template = RecordTemplate(pb.INode, _row(delimiter, release_3=release_3), escape=escape, words=words)
    paths = inode_paths(records.image, ArrayAllocator() if allocator is None else allocator)
    if any(policies):
        return _with_policies(records, template, paths, delimiter, policies)
    return inode_texts(records, template, paths, lambda slot, inode: path_of(paths, slot, inode.name))


def _with_policies(
    records: ImageRecords, template: RecordTemplate, paths: Paths, delimiter: str, policies: PolicyColumns
) -> Iterator[bytes]:
    names = SerialNames(records.image.string_table())
    for slot, inode in enumerate(records.inodes()):
        row = paths.parents[slot]
        if slot == paths.root or (row >= 0 and paths.in_tree[row]):
            text = template.render(inode, path_of(paths, slot, inode.name)).removesuffix("\n")
            columns = [text, *policies.chosen(*viewer_policies(inode, names))]
            yield (delimiter.join(columns) + "\n").encode("utf-8", "replace")


def _row(delimiter: str, *, release_3: bool) -> tuple[PrintStep, ...]:
    def columns(*steps: PrintStep) -> tuple[PrintStep, ...]:
        return tuple(step for each in steps for step in (literal(delimiter), each))

    def none(count: int) -> tuple[PrintStep, ...]:
        return columns(*[literal("0")] * count)

    def owner(kind: str, *acl: PrintStep) -> tuple[PrintStep, ...]:
        mode = put_word("mode", "permission")
        marked = (literal(delimiter + kind), mode, *acl) if release_3 else columns(mode)
        return *marked, *columns(put_word("owner", "permission")), literal("\n")

    has_acl = inside("acl", *when(literal("+"), present=["entries"]))
    times = columns(put_date("modificationTime"), put_date("accessTime"))
    file = (
        *columns(put_number("replication")),
        *times,
        *columns(put_number("preferredBlockSize"), put_count("blocks"), put_total("blocks", "numBytes")),
        *none(2),
        *owner("-", has_acl),
        inside("fileUC"),
        *CHECKED_FEATURES,
    )
    directory = (
        *none(1),
        *columns(put_date("modificationTime"), literal(local_minutes(0))),
        *none(3),
        *columns(put_number("nsQuota"), put_number("dsQuota")),
        *owner("d", has_acl),
        *CHECKED_FEATURES,
        CHECKED_QUOTAS,
    )
    symlink = *none(1), *times, *none(5), *owner("-")
    return (
        put_path("name"),
        inside("file", *file),
        *when(inside("directory", *directory), absent=["file"]),
        *when(always_inside("symlink", *symlink), absent=["file", "directory"]),
    )
