"""Reads of a namespace, with the results of a NameNode: paths, permissions and status.

WebHDFS and ClientProtocol encode the responses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import signed64
from hadoop_common.storage_policies import DEFAULT_POLICY, UNSPECIFIED_POLICY, StoragePolicy, storage_policy
from hadoop_rpc.client_values import AclEntryView, ClientAcl, ClientInode, ClientInodeType
from image_format.erasure_policies import ErasurePolicy
from image_format.permission import unpack_acl_entry
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import Owner, java_text, reported_replication
from image_tools.namespace_browser import (
    BATCH_SECONDS,
    Enter,
    LocatedInode,
    NamespaceBrowser,
    Place,
    SnapshotFolder,
    SubtreeTotals,
    places_along,
)
from image_tools.permission_checker import Access, PermissionChecker, ReadRefusedError

LIST_LIMIT: Final = 1000
"""Maximum number of entries of a directory that are read at a time (dfs.ls.limit)."""
FILE_NOT_FOUND: Final = "java.io.FileNotFoundException"
IO_EXCEPTION: Final = "java.io.IOException"
NOT_THERE: Final = "File does not exist: {}"
NO_INODE: Final = "File/Directory does not exist: {}"
CANNOT_FIND: Final = "cannot find {}"
_NOT_SNAPSHOTTABLE: Final = "org.apache.hadoop.hdfs.protocol.SnapshotException"
_MAX_LONG: Final = (1 << 63) - 1
_MODE: Final = 0o1777
_SUPERGROUP: Final = "supergroup"
_ZONE: Final = "raw.hdfs.crypto.encryption.zone"
_ENCRYPTED: Final = "raw.hdfs.crypto.file.encryption.info"
_NO_ID: Final = -1
_TYPES: Final = {
    pb.INode.FILE: ClientInodeType.FILE,
    pb.INode.DIRECTORY: ClientInodeType.DIRECTORY,
    pb.INode.SYMLINK: ClientInodeType.SYMLINK,
}


def _virtual(name: bytes, mode: int, *, group: str = "") -> ClientInode:
    """Return the status of a directory without an inode."""
    return ClientInode(ClientInodeType.DIRECTORY, _NO_ID, name, owner="", group=group, mode=mode)


RESERVED: Final = _virtual(b"", 0o1770)
"""The `/.reserved` directory."""
IN_RESERVED: Final = tuple(_virtual(name, 0o770, group=_SUPERGROUP) for name in (b".inodes", b"raw"))
SNAPSHOT_FOLDER: Final = _virtual(b"", 0o777)
"""The `.snapshot` directory of a snapshottable directory."""
SNAPSHOT_FOLDER_ACL: Final = ClientAcl("", "", None)


def components(path: bytes) -> list[bytes]:
    return [name for name in path.split(b"/") if name]


def is_reserved(path: bytes) -> bool:
    """Return whether a path is `/.reserved` itself."""
    return components(path) == [b".reserved"]


def not_found(message: str, path: bytes) -> ReadRefusedError:
    """Return a FileNotFoundException; `message` contains a placeholder for the path."""
    return ReadRefusedError(FILE_NOT_FOUND, message.format(java_text(path) or "/"))


def parse_long(text: str) -> int | None:
    """Parse a non-negative number as Java's Long.parseLong does; return None for any other text."""
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdigit() or len(digits) > len(str(_MAX_LONG)):
        return None
    number = int(digits or "0")
    return number if number <= _MAX_LONG else None


class XAttrView(NamedTuple):
    """An extended attribute; `namespace` is USER, for example."""

    namespace: str
    name: str
    value: bytes | None

    @property
    def full_name(self) -> str:
        return java_text(f"{self.namespace.lower()}.{self.name}")


class InodePage(NamedTuple):
    """Some entries of a directory, and the number of entries after them."""

    inodes: list[ClientInode]
    remaining: int


class TypeQuota(NamedTuple):
    """Quota of a storage type and the bytes that count towards it."""

    limit: int
    consumed: int


class Quotas(NamedTuple):
    """Quotas of a directory, or -1 for a missing quota; `types` contains quotas by the name of the storage type."""

    names: int
    space: int
    types: Mapping[str, TypeQuota]


class ContentSummary(NamedTuple):
    """Sums of a subtree, with the quotas and the erasure coding policy of its top; `Replicated` means no policy."""

    totals: SubtreeTotals
    in_snapshots: SubtreeTotals
    quotas: Quotas
    coding: str


class SnapshotRoot(NamedTuple):
    id: int
    inode: ClientInode


class SnapshottablePlace(NamedTuple):
    """A snapshottable directory, the number of its snapshots, and the path of its parent."""

    inode: ClientInode
    snapshots: int
    parent: bytes


class NamespaceReads:
    """Reads by one caller. Every method raises ReadRefusedError where a NameNode responds with an exception.

    Args:
        permissions: permissions of the caller; None if any user may read the whole namespace.
        page_size: maximum number of entries in one page of a directory.

    Attributes:
        crossed_link: whether the path of the last `find` leads through a symbolic link.
    """

    def __init__(
        self, browser: NamespaceBrowser, permissions: PermissionChecker | None, page_size: int = LIST_LIMIT
    ) -> None:
        self._browser = browser
        self._permissions = permissions
        self._page_size = page_size
        # components of the path of the request, for refusals
        self._path: list[bytes] = []
        self.crossed_link = False

    # ---- paths ---------------------------------------------------------------------------------------------

    def find(self, path: bytes) -> Place:
        """Resolve a path (FSDirectory.resolvePath, resolveDotInodesPath), and check the caller's permissions."""
        browser = self._browser
        match components(path):
            case [b".reserved", b"raw", *rest]:
                places: list[Place] = places_along(browser, browser.root(), rest)
            case [b".reserved", b".inodes", number, *rest]:
                inode_id = parse_long(number.decode("latin-1"))
                if inode_id is None:
                    raise not_found("Invalid inode path: {}", path)
                above = list(browser.chain(inode_id))
                if not above:
                    raise not_found("File for given inode path does not exist: {}", path)
                if rest == [b".."]:
                    rest, above = [], above[:-1] or above
                places = [*above[:-1], *places_along(browser, above[-1], rest)]
                rest = [*(each.inode.name for each in above[1:]), *rest]
            case rest:
                places = places_along(browser, browser.root(), rest)
        self._path = rest
        self.crossed_link = any(
            isinstance(each, LocatedInode) and each.inode.HasField("symlink") for each in places[:-1]
        )
        if self._permissions is not None:
            self._permissions.check_traverse(places, rest, browser.names, hadoop3=browser.hadoop3)
        return places[-1]

    def check(self, place: LocatedInode, access: Access) -> None:
        """Check an access to `place`, the result of the last `find`."""
        if self._permissions is not None:
            self._permissions.check(place.inode, self._path, access, self._browser.names)

    def _enter(self) -> Enter | None:
        """Return the permission check of each directory below a path; None if permissions are not checked."""
        if self._permissions is None or self._permissions.unlimited:
            return None
        permissions = self._permissions

        def enter(directory: LocatedInode) -> None:
            names = self._browser.names
            if not permissions.may(directory.inode, Access.READ_EXECUTE, names):
                chain = self._browser.chain(signed64(directory.inode.id), deleted=True)
                path = [each.inode.name for each in chain[1:]] if self._browser.hadoop3 else self._path
                permissions.check(directory.inode, path, Access.READ_EXECUTE, names)

        return enter

    # ---- status --------------------------------------------------------------------------------------------

    def inode(self, place: LocatedInode, name: bytes = b"", children: int | None = None) -> ClientInode:
        """Return the status of an inode; `children` replaces the number of its children."""
        inode = place.inode
        file, directory, link = inode.file, inode.directory, inode.symlink
        owner = self._owner(inode)
        attributes = {attribute.full_name for attribute in self._attributes(inode)}
        return ClientInode(
            type=_TYPES[inode.type],
            id=signed64(inode.id),
            name=name,
            owner=_name(owner.user),
            group=_name(owner.group),
            mode=owner.mode & _MODE,
            mtime=signed64(file.modificationTime or directory.modificationTime or link.modificationTime),
            atime=signed64(file.accessTime or link.accessTime),
            length=sum(block.numBytes for block in file.blocks),
            replication=reported_replication(file),
            block_size=signed64(file.preferredBlockSize),
            children=self._browser.child_count(place) if children is None else children,
            policy=UNSPECIFIED_POLICY if inode.HasField("symlink") else place.policy,
            coding=self.coding(place),
            target=link.target if inode.HasField("symlink") else None,
            has_acl=bool(file.acl.entries or directory.acl.entries),
            encrypted=_ZONE in attributes or _ENCRYPTED in attributes,
            snapshottable=signed64(inode.id) == ROOT_INODE_ID or self._browser.is_snapshottable(place),
            hadoop3=self._browser.hadoop3,
        )

    def coding(self, place: LocatedInode) -> ErasurePolicy | None:
        """Return the erasure coding policy of an inode, without its state; the `replication` policy counts as none."""
        found = (each for each in self._browser.erasure_policies.values() if each.name == place.coding)
        return next((each._replace(state=pb.ENABLED) for each in found), None)

    def _owner(self, inode: pb.INode) -> Owner:
        return self._browser.names.owner(
            inode.file.permission or inode.directory.permission or inode.symlink.permission
        )

    # ---- directories ---------------------------------------------------------------------------------------

    def page(self, place: LocatedInode, behind: bytes) -> InodePage:
        """Return the entries of a directory with names after `behind`, or the inode itself if it is not a directory."""
        if not place.inode.HasField("directory"):
            return InodePage([self.inode(place)], 0)
        self.check(place, Access.READ_EXECUTE)
        entries, remaining = self._browser.page(place, behind, self._page_size)
        return InodePage([self.inode(child, child.inode.name) for child in entries], remaining)

    def snapshots(self, folder: SnapshotFolder, above: bytes) -> list[SnapshotRoot]:
        """Return the snapshots in `.snapshot`; `above` is the path of its directory."""
        if folder.directory is None:
            raise not_found("Directory does not exist: {}", above)
        if folder.snapshots is None:
            what = f"Directory is not a snapshottable directory: {java_text(above) or '/'}"
            raise ReadRefusedError(_NOT_SNAPSHOTTABLE, what)
        # a NameNode counts the present children
        count = self._browser.child_count(folder.directory)
        return [SnapshotRoot(each.snapshot or 0, self.inode(each, each.inode.name, count)) for each in folder.snapshots]

    def snapshots_of(self, place: LocatedInode, path: bytes) -> list[SnapshotRoot]:
        self.check(place, Access.READ)
        return self.snapshots(self._browser.snapshot_folder(place), path)

    def snapshottable(self) -> list[SnapshottablePlace]:
        """Return the snapshottable directories that the caller owns, or all for a superuser, ordered by path."""
        caller, found = self._permissions, []
        pause_at = time.monotonic() + BATCH_SECONDS
        for directory_id in self._browser.snapshottable():
            # short responses have no pauses, because only a few responses with pauses may run at the same time
            if time.monotonic() >= pause_at:
                self._browser.pause()
                pause_at = time.monotonic() + BATCH_SECONDS
            directory = self._browser.inode(directory_id)
            if directory is None:
                continue
            # this check comes first, because finding the path of a directory is expensive
            if caller is not None and not caller.superuser and _name(self._owner(directory).user) != caller.user:
                continue
            chain = self._browser.chain(directory_id)
            if not chain:
                continue
            inode = self.inode(chain[-1], chain[-1].inode.name)
            count = len(self._browser.snapshot_folder(chain[-1]).snapshots or ())
            parent = b"/" + b"/".join(each.inode.name for each in chain[1:-1]) if len(chain) > 1 else b""
            found.append(SnapshottablePlace(inode, count, parent))
        return sorted(found, key=lambda each: (each.parent, each.inode.name))

    # ---- sums ----------------------------------------------------------------------------------------------

    def summary(self, place: LocatedInode) -> ContentSummary:
        """Return the sums of a subtree."""
        content, past, types = self._browser.content(place, self._enter())
        coding = _REPLICATED if place.inode.HasField("file") and not place.coding else place.coding
        return ContentSummary(content, past, _quotas(place.inode.directory, types), coding)

    # ---- attributes ----------------------------------------------------------------------------------------

    def storage_policy(self, place: LocatedInode) -> StoragePolicy:
        """Return the effective storage policy."""
        self.check(place, Access.READ)
        found = storage_policy(place.policy or DEFAULT_POLICY)
        if found is None:
            raise ReadRefusedError(IO_EXCEPTION, f"Cannot find a block policy with the ID {place.policy}")
        return found

    def acl(self, place: LocatedInode) -> ClientAcl:
        """Return the extended entries of an ACL."""
        inode, names = place.inode, self._browser.names
        owner = self._owner(inode)
        entries = []
        for packed in (*inode.file.acl.entries, *inode.directory.acl.entries):
            entry = unpack_acl_entry(packed)
            entries.append(AclEntryView(entry.scope, entry.type, names.acl_name(entry), entry.permission))
        return ClientAcl(_name(owner.user), _name(owner.group), owner.mode & _MODE, entries)

    def _attributes(self, inode: pb.INode) -> list[XAttrView]:
        found = []
        for attribute in (*inode.file.xAttrs.xAttrs, *inode.directory.xAttrs.xAttrs):
            namespace, name = self._browser.names.xattr(attribute.name)
            value = attribute.value if attribute.HasField("value") else None
            found.append(XAttrView(namespace, name or "", value))
        return found

    def attribute_names(self, place: LocatedInode) -> list[XAttrView]:
        """Return the attributes that the caller may see (XAttrPermissionFilter)."""
        found = self._attributes(place.inode)
        if self._permissions is None:
            return found
        seen = ("USER", "TRUSTED") if self._permissions.superuser else ("USER",)
        return [attribute for attribute in found if attribute.namespace in seen]

    def attributes(self, place: LocatedInode, wanted: list[str]) -> list[XAttrView]:
        """Return the attributes with these full names, or all attributes if `wanted` is empty."""
        self.check(place, Access.READ)
        found = [each for each in self.attribute_names(place) if not wanted or each.full_name in wanted]
        if len(found) < len(set(wanted)):
            raise ReadRefusedError(IO_EXCEPTION, "At least one of the attributes provided was not found.")
        return found


_REPLICATED: Final = "Replicated"


def _quotas(directory: pb.INodeDirectory, consumed: Mapping[str, int]) -> Quotas:
    quota, space_quota = (
        signed64(getattr(directory, field)) if directory.HasField(field) else -1 for field in ("nsQuota", "dsQuota")
    )
    limits = {pb.StorageTypeProto.Name(each.storageType): signed64(each.quota) for each in directory.typeQuotas.quotas}
    types = {name: TypeQuota(limit, consumed.get(name, 0)) for name, limit in limits.items()}
    return Quotas(quota, space_quota, types)


def _name(name: str | None) -> str:
    return "" if name is None else java_text(name)
