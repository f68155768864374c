"""Mode and group of a new inode (FsCreateModes, FSDirectory.addDirectory)."""

from __future__ import annotations

from typing import NamedTuple

from engine.namespace import Namespace
from engine.replay.features import has_default_acl
from namenode_stub.file_status import permission_status
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.paths import find, parent_of

_OWNER_MAY_ENTER = 0o300


def group_for(namespace: Namespace, caller: ClientCall, path: str) -> str:
    """Return the group of a new inode: the caller's group, otherwise the group of the parent directory."""
    if caller.group is not None:
        return caller.group
    return permission_status(namespace, find(namespace, parent_of(path))).group


class CreateModes(NamedTuple):
    """Modes of a new inode, with and without the client's umask (FsCreateModes); only Hadoop 3 clients send both."""

    masked: int
    unmasked: int | None = None

    @property
    def of_parents(self) -> CreateModes:
        """The modes of missing parents; the owner may always enter these directories."""
        unmasked = None if self.unmasked is None else self.unmasked | _OWNER_MAY_ENTER
        return CreateModes(self.masked | _OWNER_MAY_ENTER, unmasked)

    def at(self, namespace: Namespace, path: str) -> int:
        """Return the mode of the inode; Hadoop 3 ignores the umask below a default ACL (HDFS-6962)."""
        if self.unmasked is None or not namespace.hadoop3:
            return self.masked
        return self.unmasked if has_default_acl(namespace, find(namespace, parent_of(path))) else self.masked
