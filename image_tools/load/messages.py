"""Records of an image from the elements of its XML; unread elements are errors (OfflineImageReconstructor)."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator
from xml.etree import ElementTree

from hadoop_common.java_numbers import signed64
from hadoop_common.quantities import counted
from image_format.errors import ImageFormatError
from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_permission, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable

_ESCAPED = re.compile(r"\\([0-9a-f]{4,6});")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})")


class ImageTextError(ImageFormatError):
    """Refusal of XML that is not a dump of an image, or contains an element that an image cannot represent."""

    default_hint = "Repeat the dump: `checkpointer image dump --release 3.x`, or `hdfs oiv -p XML` of Hadoop 3."


class ElementFields:
    """The inner elements of an element, by name; an element that was never read is an error.

    Attributes:
        tag: name of the element.
    """

    def __init__(self, element: ElementTree.Element) -> None:
        self.tag = element.tag
        self._left: dict[str, list[ElementTree.Element]] = {}
        for child in element:
            self._left.setdefault(child.tag, []).append(child)

    def has(self, tag: str) -> bool:
        return tag in self._left

    def each(self, tag: str) -> Iterator[ElementFields]:
        return map(ElementFields, self._left.pop(tag, []))

    def inner(self, tag: str) -> ElementFields | None:
        """Return the only element with this name; None if absent."""
        found = self._left.pop(tag, [])
        if len(found) > 1:
            raise ImageTextError(f"<{self.tag}> has {counted(len(found), 'element')} <{tag}>")
        return ElementFields(found[0]) if found else None

    def texts(self, tag: str) -> list[str]:
        """Return the unescaped strings in the elements with this name."""
        return [_unescaped(each.text or "") for each in self._left.pop(tag, [])]

    def text(self, tag: str, default: str | None = None) -> str:
        found = self.texts(tag)
        if not found and default is not None:
            return default
        if len(found) != 1:
            raise ImageTextError(f"<{self.tag}> has {counted(len(found), 'element')} <{tag}>, expected one")
        return found[0]

    def name(self, tag: str) -> bytes:
        """Return the string in an element as the bytes of a name."""
        return self.text(tag).encode("utf-8", "surrogatepass")

    def numbers(self, tag: str, bits: int = 64) -> list[int]:
        """Return numbers in the form of an unsigned field of `bits` bits."""
        return [self._number(tag, text, bits) for text in self.texts(tag)]

    def number(self, tag: str, bits: int = 64) -> int:
        return self._number(tag, self.text(tag), bits)

    def signed(self, tag: str) -> int:
        """Return a number in the form of a signed field."""
        return signed64(self.number(tag))

    def date(self, tag: str) -> int:
        """Return a date in UTC as milliseconds since 1970."""
        text = self.text(tag)
        match = _DATE.fullmatch(text)
        if match is None:
            raise ImageTextError(f"<{tag}> of <{self.tag}> is {text!r}, which is not a date")
        year, month, day, hour, minute, second, millis = map(int, match.groups())
        return timegm((year, month, day, hour, minute, second)) * 1000 + millis

    def flag(self, tag: str) -> bool:
        """Return whether an empty element with this name exists."""
        return bool(self.texts(tag))

    def finish(self) -> None:
        """Refuse elements that were not read.

        Raises:
            ImageTextError: an element was not read.
        """
        if self._left:
            raise ImageTextError(f"<{self.tag}> has an unknown element <{next(iter(self._left))}>")

    def _number(self, tag: str, text: str, bits: int) -> int:
        try:
            value = int(text)
        except ValueError:
            value = 1 << 64
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise ImageTextError(f"<{tag}> of <{self.tag}> is {text[:40]!r}, which is not a number of {bits} bits")
        return value & ((1 << bits) - 1)


def _unescaped(text: str) -> str:
    """Reverse `escaped` of the dump."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


_NO_OWNER = "null:null:0000"
_ACL = re.compile(r"(default:)?(user|group|mask|other):(.*):([r-])([w-])([x-])", re.DOTALL)
_NULL = "null"
_KINDS = ("FILE", "DIRECTORY", "SYMLINK")


class MessageBuilder:
    """Builder of messages with names; it adds users, groups and attribute names to `strings`."""

    def __init__(self, strings: StringTable) -> None:
        self.strings = strings

    def inode(self, fields: ElementFields) -> pb.INode:
        """Return an inode of INodeSection, or the root of a snapshot.

        Raises:
            ImageTextError: an element is missing, unknown or invalid; also for all other methods.
        """
        kind = fields.text("type")
        if kind not in _KINDS:
            raise ImageTextError(f"<type> of <{fields.tag}> is {kind[:40]!r}, which is not a type of inode")
        inode = pb.INode(type=kind, id=fields.number("id"), name=fields.name("name"))
        if kind == "FILE":
            inode.file.CopyFrom(self.file(fields))
        elif kind == "DIRECTORY":
            inode.directory.CopyFrom(self.directory(fields))
        else:
            inode.symlink.permission = self._permission(fields.text("permission"))
            inode.symlink.target = fields.name("target")
            inode.symlink.modificationTime, inode.symlink.accessTime = fields.number("mtime"), fields.number("atime")
        fields.finish()
        return inode

    def file(self, fields: ElementFields) -> pb.INodeFile:
        file = pb.INodeFile(
            modificationTime=fields.number("mtime"),
            accessTime=fields.number("atime"),
            preferredBlockSize=fields.number("preferredBlockSize"),
            permission=self._permission(fields.text("permission")),
            blocks=blocks(fields),
        )
        replication = fields.number("replication", 32)
        if fields.has("storagePolicyId"):
            file.storagePolicyID = fields.number("storagePolicyId", 32)
        if fields.has("erasureCodingPolicyId"):
            file.erasureCodingPolicyID = fields.number("erasureCodingPolicyId", 32)
            file.MergeFrom(pb.INodeFile(blockType=fields.text("blockType")))
        else:
            file.replication = replication
        writer = fields.inner("file-under-construction")
        if writer is not None:
            file.fileUC.clientName, file.fileUC.clientMachine = writer.text("clientName"), writer.text("clientMachine")
            writer.finish()
        self._features(fields, file)
        return file

    def directory(self, fields: ElementFields) -> pb.INodeDirectory:
        directory = pb.INodeDirectory(
            modificationTime=fields.number("mtime"), permission=self._permission(fields.text("permission"))
        )
        if fields.has("nsquota"):
            directory.nsQuota, directory.dsQuota = fields.number("nsquota"), fields.number("dsquota")
        for quota in fields.each("typeQuota"):
            directory.typeQuotas.quotas.add(
                storageType=pb.StorageTypeProto.Value(quota.text("type")), quota=quota.number("quota")
            )
            quota.finish()
        self._features(fields, directory)
        return directory

    def file_diff(self, fields: ElementFields) -> pb.FileDiff:
        """Return a diff of a file; ignore a copy without an owner."""
        diff = pb.FileDiff(
            snapshotId=fields.number("snapshotId", 32), fileSize=fields.number("size"), name=_name_of(fields)
        )
        copy = fields.inner("snapshotCopy")
        if copy is not None:
            file = self.file(copy)
            copy.finish()
            if file.permission:
                diff.snapshotCopy.CopyFrom(file)
        diff.blocks.extend(blocks(fields))
        fields.finish()
        return diff

    def directory_diff(self, fields: ElementFields) -> tuple[pb.DirectoryDiff, list[pb.CreatedListEntry]]:
        """Return a diff of a directory, and its created list."""
        created = []
        for entry in fields.each("created"):
            created.append(pb.CreatedListEntry(name=entry.name("name")))
            entry.finish()
        diff = pb.DirectoryDiff(
            snapshotId=fields.number("snapshotId", 32),
            childrenSize=fields.number("childrenSize", 32),
            isSnapshotRoot=fields.flag("isSnapshotRoot"),
            name=_name_of(fields),
            createdListSize=fields.number("createdListSize", 32),
            deletedINode=fields.numbers("deletedInode"),
            deletedINodeRef=fields.numbers("deletedInoderef", 32),
        )
        if diff.createdListSize != len(created):
            raise ImageTextError(f"<dirDiff> declares {diff.createdListSize} created but has {len(created)}")
        copy = fields.inner("snapshotCopy")
        if copy is not None:
            diff.snapshotCopy.CopyFrom(self.directory(copy))
            copy.finish()
        fields.finish()
        return diff, created

    def _permission(self, text: str) -> int:
        if text == _NO_OWNER:
            return 0
        parts = text.rsplit(":", 2)
        if len(parts) != 3 or not re.fullmatch("[0-7]{3,6}", parts[2]):
            raise ImageTextError(f"the permission {text[:80]!r} does not have the form user:group:0755")
        user, group, mode = parts
        return pack_permission(self._serial(user, StringKind.USER), self._serial(group, StringKind.GROUP), int(mode, 8))

    def _serial(self, text: str, kind: StringKind) -> int:
        return 0 if text == _NULL else self.strings.serial(text, kind)

    def _features(self, fields: ElementFields, inode: pb.INodeFile | pb.INodeDirectory) -> None:
        attributes = fields.inner("xattrs")
        if attributes is not None:
            for attribute in attributes.each("xattr"):
                namespace = XAttrNamespace[attribute.text("ns")]
                name = self.strings.serial(attribute.text("name"), StringKind.XATTR)
                value = bytes.fromhex(attribute.text("valHex")) if attribute.has("valHex") else attribute.name("val")
                inode.xAttrs.xAttrs.add(name=pack_xattr_name(namespace, name), value=value)
                attribute.finish()
            attributes.finish()
        entries = fields.inner("acls")
        if entries is not None:
            inode.acl.entries.extend(map(self._acl_entry, entries.texts("acl")))
            entries.finish()

    def _acl_entry(self, text: str) -> int:
        match = _ACL.fullmatch(text)
        if match is None:
            raise ImageTextError(f"the ACL entry {text[:80]!r} does not have the form user:erin:r-x")
        default, kind, name, *flags = match.groups()
        strings = StringKind.GROUP if kind == "group" else StringKind.USER
        return pack_acl_entry(
            AclScope.DEFAULT if default else AclScope.ACCESS,
            AclType[kind.upper()],
            self.strings.serial(name, strings) if name else 0,
            sum(bit for bit, flag in zip((4, 2, 1), flags, strict=True) if flag != "-"),
        )


def _name_of(diff: ElementFields) -> bytes | None:
    """Return the name in a diff, or None for an empty name."""
    return diff.name("name") or None


def blocks(fields: ElementFields) -> list[pb.BlockProto]:
    found = []
    held = fields.inner("blocks")
    if held is not None:
        for block in held.each("block"):
            found.append(
                pb.BlockProto(
                    blockId=block.number("id"), genStamp=block.number("genstamp"), numBytes=block.number("numBytes")
                )
            )
            block.finish()
        held.finish()
    return found


def reference(fields: ElementFields) -> pb.INodeReference:
    """Return a reference: a name in a deleted list, or a present place if the element contains no name.

    Hadoop prints both snapshots for each reference, and Hadoop's tool treats all references as references in deleted
    lists.
    """
    found = pb.INodeReference(referredId=fields.number("referredId"))
    name = fields.name("name")
    current, last = fields.number("dstSnapshotId", 32), fields.number("lastSnapshotId", 32)
    if name:
        found.name, found.lastSnapshotId = name, last
    else:
        found.dstSnapshotId = current
    fields.finish()
    return found


def policy(fields: ElementFields) -> pb.ErasureCodingPolicyProto:
    """Return an erasure coding policy; a built-in policy has only an id and a state in an image."""
    found = pb.ErasureCodingPolicyProto(id=fields.number("policyId", 32), state=fields.text("policyState"))
    name, cell_size, schema = fields.text("policyName"), fields.number("cellSize", 32), fields.inner("ecSchema")
    if schema is None:
        raise ImageTextError("<erasureCodingPolicy> has no <ecSchema>")
    made = pb.ECSchemaProto(
        codecName=schema.text("codecName"),
        dataUnits=schema.number("dataUnits", 32),
        parityUnits=schema.number("parityUnits", 32),
    )
    options = schema.inner("extraOptions")
    if options is not None:
        for option in options.each("option"):
            made.options.add(key=option.text("key"), value=option.text("value"))
            option.finish()
        options.finish()
    schema.finish()
    fields.finish()
    if found.id >= _FIRST_OWN_POLICY:
        found.name, found.cellSize = name, cell_size
        found.schema.CopyFrom(made)
    return found


_FIRST_OWN_POLICY = 64


def delegation_key(fields: ElementFields) -> pb.DelegationKey:
    found = pb.DelegationKey(id=fields.number("id", 32), key=bytes.fromhex(fields.text("key")))
    if fields.has("expiry"):
        found.expiryDate = fields.date("expiry")
    fields.finish()
    return found


def token(fields: ElementFields) -> pb.PersistToken:
    found = pb.PersistToken()
    for tag in ("version", "sequenceNumber", "masterKeyId"):
        if fields.has(tag):
            setattr(found, tag, fields.number(tag, 32))
    for tag in ("owner", "renewer", "realUser"):
        if fields.has(tag):
            setattr(found, tag, fields.text(tag))
    for tag in ("issueDate", "maxDate", "expiryDate"):
        if fields.has(tag):
            setattr(found, tag, fields.date(tag))
    fields.finish()
    return found


def pool(fields: ElementFields) -> pb.CachePoolInfoProto:
    found = pb.CachePoolInfoProto(
        poolName=fields.text("poolName"),
        ownerName=fields.text("ownerName"),
        groupName=fields.text("groupName"),
        mode=fields.signed("mode"),
        limit=fields.signed("limit"),
        maxRelativeExpiry=fields.signed("maxRelativeExpiry"),
    )
    fields.finish()
    return found


def directive(fields: ElementFields) -> pb.CacheDirectiveInfoProto:
    found = pb.CacheDirectiveInfoProto(
        id=fields.signed("id"),
        path=fields.text("path"),
        replication=fields.number("replication", 32),
        pool=fields.text("pool"),
    )
    expiration = fields.inner("expiration")
    if expiration is not None:
        found.expiration.millis, found.expiration.isRelative = (
            expiration.signed("millis"),
            expiration.flag("relative"),
        )
        expiration.finish()
    fields.finish()
    return found
