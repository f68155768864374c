"""Values of ClientProtocol: information about an inode for clients (hdfs.proto, acl.proto, erasurecoding.proto)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hadoop_rpc.proto import client_namenode_pb2 as pb

if TYPE_CHECKING:
    from image_format.erasure_policies import ErasurePolicy


class ClientInodeType(Enum):
    DIRECTORY = pb.HdfsFileStatusProto.IS_DIR
    FILE = pb.HdfsFileStatusProto.IS_FILE
    SYMLINK = pb.HdfsFileStatusProto.IS_SYMLINK


@dataclass(frozen=True, slots=True)
class ClientInode:
    """The status of an inode for clients (HdfsFileStatus); times in ms since the epoch, sizes in bytes.

    Attributes:
        name: local name, empty if the path itself was requested.
        mode: permissions with the sticky bit.
        children: number of names in a directory.
        policy: id of the effective storage policy, 0 if none is set.
        coding: effective erasure coding policy, None if there is none.
        target: target of a symbolic link.
        hadoop3: whether the namespace belongs to Hadoop 3. In a message of Hadoop 2, bits of the mode mark ACLs and
            encryption.
    """

    type: ClientInodeType
    id: int
    name: bytes
    owner: str
    group: str
    mode: int
    mtime: int = 0
    atime: int = 0
    length: int = 0
    replication: int = 0
    block_size: int = 0
    children: int = 0
    policy: int = 0
    coding: ErasurePolicy | None = None
    target: bytes | None = None
    has_acl: bool = False
    encrypted: bool = False
    snapshottable: bool = False
    hadoop3: bool = True


@dataclass(frozen=True, slots=True)
class AclEntryView:
    """One entry of an ACL: numbers as in AclEntryProto; `name` is "" for the owner, owning group, mask or others."""

    scope: int
    type: int
    name: str
    permission: int


@dataclass(frozen=True, slots=True)
class ClientAcl:
    """The ACL of an inode (AclStatus), with its extended entries; `mode` is None for `.snapshot`."""

    owner: str
    group: str
    mode: int | None
    entries: Sequence[AclEntryView] = ()
