"""Limits on new names: the length of a name, and the namespace quotas of the directories above it."""

from __future__ import annotations

from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.default_quota import MAX_QUOTA
from engine.namespace.op_paths import encode_name
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY
from namenode_stub.refusals import OperationRefusedError, QuotaRefusalError

MAX_COMPONENT_LENGTH = 255  # dfs.namenode.fs-limits.max-component-length
_MAX_MODE = 0o1777
_MAX_PATH_LENGTH, _MAX_PATH_DEPTH = 8000, 1000  # HdfsConstants


class NameTooLongError(OperationRefusedError):
    """A request with a path that has a component of too many bytes."""

    java_class = "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException"


def check_name(path: str) -> None:
    """Check the length of the last component of a path; raise NameTooLongError if it is too long."""
    parent, _, name = path.rpartition("/")
    size = len(encode_name(name))
    if size > MAX_COMPONENT_LENGTH:
        raise NameTooLongError(
            f"The maximum path component name limit of {name[:80]} in directory {parent or '/'} is exceeded: "
            f"limit={MAX_COMPONENT_LENGTH} length={size}"
        )


def check_path(path: str) -> None:
    """Check the length and the depth of a new path; raise OperationRefusedError if a limit is exceeded."""
    if len(path) > _MAX_PATH_LENGTH or path.count("/") > _MAX_PATH_DEPTH:
        raise OperationRefusedError(
            f"Pathname too long.  Limit {_MAX_PATH_LENGTH} characters, {_MAX_PATH_DEPTH} levels."
        )


def check_modes(mode: int) -> None:
    """Check that `mode` contains only rwx bits and the sticky bit; raise OperationRefusedError otherwise."""
    if not 0 <= mode <= _MAX_MODE:
        raise OperationRefusedError(f"mode {mode:o} is not between 0 and {_MAX_MODE:o}")


def count_below(namespace: Namespace, row: int) -> int:
    """Count the live inodes at and below `row`."""
    count, rows = 0, [row]
    while rows:
        row = rows.pop()
        count += 1
        if namespace.table.kind[row] == DIRECTORY:
            rows.extend(child for _, child in namespace.tree.children(row))
    return count


def check_quotas(namespace: Namespace, directory: int, more: int, *, below: int = NO_ROW) -> None:
    """Check that `more` names fit below a directory.

    Unlike Hadoop, this check does not count names that exist only in snapshots.

    Args:
        below: directory at which the check stops, because the counts of its ancestors do not change; for example, the
            common parent of a rename.

    Raises:
        QuotaRefusalError: a directory above would exceed its quota.
    """
    row = directory
    while row not in (below, NO_ROW):
        quota = int(namespace.table.ns_quota[row])
        if 0 <= quota < MAX_QUOTA and more > 0:
            count = count_below(namespace, row) + more
            if count > quota:
                raise QuotaRefusalError(
                    f"The NameSpace quota (directories and files) of directory {namespace.tree.path(row)} is "
                    f"exceeded: quota={quota} file count={count}"
                )
        row = NO_ROW if row == ROOT_ROW else int(namespace.table.parent[row])
