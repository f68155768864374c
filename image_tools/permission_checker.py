"""Permission checks on inodes, with a NameNode's rules (FSPermissionChecker)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from image_format.permission import AclScope, AclType, unpack_acl_entry
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import SerialNames, java_text, mode_symbols
from image_tools.namespace_browser import LocatedInode, Place

_MODE = 0o1777
ACCESS_CONTROL = "org.apache.hadoop.security.AccessControlException"


class ReadRefusedError(Exception):
    """A read that a NameNode answers with an exception.

    Attributes:
        java_class: full name of the exception.
    """

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class Access(IntEnum):
    """A requested access (FsAction)."""

    NONE = 0
    EXECUTE = 1
    WRITE = 2
    WRITE_EXECUTE = 3
    READ = 4
    READ_EXECUTE = 5
    READ_WRITE = 6
    ALL = 7


@dataclass(frozen=True, slots=True)
class PermissionChecker:
    """The permissions of one caller.

    Attributes:
        groups: the caller's groups.
        superuser: whether all accesses are allowed.
        enforced: whether permissions are checked (dfs.permissions.enabled).
    """

    user: str
    groups: frozenset[str]
    superuser: bool
    enforced: bool = True

    @property
    def unlimited(self) -> bool:
        """Whether no check can fail."""
        return self.superuser or not self.enforced

    def check_traverse(
        self, places: Sequence[Place], path: Sequence[bytes], names: SerialNames, *, hadoop3: bool = True
    ) -> None:
        """Check that the caller may enter every directory before the last place.

        Args:
            path: names of the components; `places` begins with the root, which has no name.
            hadoop3: whether a refusal names the directory; Hadoop 2 names the whole path with the directory's mode.

        Raises:
            ReadRefusedError: a directory is closed to the caller.
        """
        for number, place in enumerate(places[:-1]):
            if isinstance(place, LocatedInode) and place.inode.HasField("directory"):
                self.check(place.inode, path[:number] if hadoop3 else path, Access.EXECUTE, names)

    def check(self, inode: pb.INode, path: Sequence[bytes], access: Access, names: SerialNames) -> None:
        """Check an access to the inode at a path; raise ReadRefusedError if it is denied."""
        if self.unlimited or self.may(inode, access, names):
            return
        owner = names.owner(_permission(inode))
        kind = "d" if inode.HasField("directory") else "-"
        raise ReadRefusedError(
            ACCESS_CONTROL,
            f"Permission denied: user={self.user}, access={access.name}, "
            f'inode="{path_text(path)}":{owner.user or ""}:{owner.group or ""}:{kind}{mode_symbols(owner.mode)}',
        )

    def may(self, inode: pb.INode, access: Access, names: SerialNames) -> bool:
        """Return whether the mode and the ACL of an inode allow an access."""
        owner = names.owner(_permission(inode))
        mode = owner.mode & _MODE
        entries = [unpack_acl_entry(each) for each in (*inode.file.acl.entries, *inode.directory.acl.entries)]
        limited = [entry for entry in entries if entry.scope is AclScope.ACCESS]
        if self.user == owner.user:
            return _implies(mode >> 6, access)
        if not limited:
            return _implies(mode >> 3 if owner.group in self.groups else mode, access)
        mask, matched = mode >> 3 & 7, False
        for entry in limited:
            name = names.acl_name(entry)
            if entry.type is AclType.USER and name == self.user:
                return _implies(entry.permission & mask, access)
            if entry.type is AclType.GROUP and (name or owner.group) in self.groups:
                if _implies(entry.permission & mask, access):
                    return True
                matched = True
        return not matched and _implies(mode, access)


def _implies(permission: int, access: Access) -> bool:
    return permission & access == access


def _permission(inode: pb.INode) -> int:
    return inode.file.permission or inode.directory.permission or inode.symlink.permission


def path_text(path: Sequence[bytes]) -> str:
    """Join the components of a path to a string."""
    return java_text(b"/" + b"/".join(path))
