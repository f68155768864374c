"""The comparison of the contents of images, tested against the independent oracle, on re-encoded images, and after
single changes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_format.errors import RecordError
from image_format.permission import (
    AclType,
    pack_acl_entry,
    pack_permission,
    pack_xattr_name,
    unpack_acl_entry,
    unpack_permission,
    unpack_xattr_name,
)
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_tools.compare.comparison import ImageComparison
from image_tools.compare.difference import ChangeKind, Difference, ItemKind
from image_tools.dump.records import FileDiffRecords, ImageRecords
from tests.image_format.image_support import RECORDED, build_image, delimited, store
from tests.image_tools.dump_support import open_image
from tests.recorded_cases import image_in, imgcmp


def compared(a: Path, b: Path) -> list[Difference]:
    with open_image(a) as first, open_image(b) as second:
        comparison = ImageComparison(first, second)
        return [comparison.named(difference) for difference in comparison.differences()]


def recorded_cases() -> list[Path]:
    cases = sorted(path.parent for path in (*RECORDED.glob("*/*/case.json"), *RECORDED.glob("*/odd/*/case.json")))
    # images that the oracle itself refuses
    odd = ("medium-", "sub-sections-partial", "dangling-child")
    return [case for case in cases if (case / "before").is_dir() and not any(name in case.name for name in odd)]


@pytest.mark.recorded
@pytest.mark.parametrize("case", recorded_cases(), ids=lambda case: f"{case.parent.name}-{case.name}")
def test_differences_are_found_whenever_the_oracle_finds_them(case: Path) -> None:
    images = [image_in(case / side) for side in ("before", "after", "after_nn") if (case / side).is_dir()]
    assert compared(images[0], images[0]) == []
    for a, b in itertools.pairwise(images):
        expected = imgcmp.compare(imgcmp.Image(str(a)), imgcmp.Image(str(b)))
        assert bool(compared(a, b)) == bool(expected)
        assert bool(compared(b, a)) == bool(expected)


# ---- the same image written another way -----------------------------------------------------------------------


class Renumbered:
    """A recorded image, rewritten with other serials, other reference numbers and records in another order."""

    def __init__(self, path: Path) -> None:
        with open_image(path) as image:
            self.records = ImageRecords(image)
            self.layout_version = image.layout_version
            self.old = image.string_table()
            self.new = StringTable.empty(self.old.mask_bits)
            for number in range(50):
                self.new.serial(f"unused{number}", StringKind(1 + number % 3))
            self.references = list(self.records.references())
            self.order = list(range(len(self.references)))
            random.Random(7).shuffle(self.order)
            bodies = self._bodies()
            summary = [(name, bodies[name]) for name in self.records.sections]
        random.Random(8).shuffle(summary)
        self.image = build_image(summary, layout_version=self.layout_version)

    def _bodies(self) -> dict[str, bytes]:
        records = self.records
        bodies = {name: bytes(records.image.section_bytes(name)) for name in records.sections}
        inodes = list(records.inodes())
        for inode in inodes:
            self._renumber(inode)
        random.Random(9).shuffle(inodes)
        bodies["INODE"] = delimited([records.inode_header(), *inodes])
        bodies["INODE_REFERENCE"] = delimited([self.references[number] for number in self.order])
        entries = [pb.DirEntry.FromString(bytes(each.body)) for each in records.image.records("INODE_DIR")]
        for entry in entries:
            entry.refChildren[:] = [self.order.index(number) for number in entry.refChildren]
        bodies["INODE_DIR"] = delimited(reversed(entries))
        if "SNAPSHOT" in bodies:
            snapshots = list(records.snapshots())
            for snapshot in snapshots:
                self._renumber(snapshot.root)
            bodies["SNAPSHOT"] = delimited([records.snapshot_header(), *snapshots])
        if "SNAPSHOT_DIFF" in bodies:
            bodies["SNAPSHOT_DIFF"] = b"".join(reversed(list(map(self._diffs, records.snapshot_diffs()))))
        bodies["STRING_TABLE"] = self.new.encode()
        return bodies

    def _diffs(self, of_inode: Any) -> bytes:
        kind = pb.DiffEntry.FILEDIFF if isinstance(of_inode, FileDiffRecords) else pb.DiffEntry.DIRECTORYDIFF
        out = [pb.DiffEntry(type=kind, inodeId=of_inode.inode_id, numOfDiff=len(of_inode.diffs))]
        for item in of_inode.diffs:
            diff, created = (item, []) if isinstance(of_inode, FileDiffRecords) else item
            if diff.HasField("snapshotCopy"):
                self._renumber_body(diff.snapshotCopy)
            if created or not isinstance(of_inode, FileDiffRecords):
                diff.deletedINodeRef[:] = [self.order.index(number) for number in diff.deletedINodeRef]
            out += [diff, *(pb.CreatedListEntry(name=name) for name in created)]
        return delimited(out)

    def _renumber(self, inode: pb.INode) -> None:
        for field in ("file", "directory", "symlink"):
            if inode.HasField(field):
                self._renumber_body(getattr(inode, field))

    def _renumber_body(self, body: Any) -> None:
        user, group, mode = unpack_permission(body.permission)
        body.permission = pack_permission(
            self._serial(user, StringKind.USER), self._serial(group, StringKind.GROUP), mode
        )
        if isinstance(body, pb.INodeSymlink):
            return
        for i, packed in enumerate(body.acl.entries):
            scope, kind, name, permission = unpack_acl_entry(packed)
            strings = StringKind.USER if kind is AclType.USER else StringKind.GROUP
            body.acl.entries[i] = pack_acl_entry(scope, kind, self._serial(name, strings), permission)
        for attribute in body.xAttrs.xAttrs:
            namespace, name = unpack_xattr_name(attribute.name)
            attribute.name = pack_xattr_name(namespace, self._serial(name, StringKind.XATTR))

    def _serial(self, serial: int, kind: StringKind) -> int:
        text = self.old.lookup(serial, kind)
        return 0 if text is None else self.new.serial(text, kind)


RICH = [
    *(RECORDED / "hadoop-2.7.3" / name for name in ("acl-xattr", "random-mixed-1", "snapshots-rename-references")),
    *(RECORDED / "hadoop-3.4.1" / name for name in ("acl-xattr", "random-mixed-1", "snapshots-rename-references-2")),
    *(
        RECORDED / "hadoop-3.4.1" / name
        for name in ("erasure-coding-snapshots", "symlinks", "compress-gzip", "strings")
    ),
]


@pytest.mark.recorded
@pytest.mark.parametrize("case", RICH, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_a_different_encoding_is_not_a_difference(case: Path, tmp_path: Path) -> None:
    original = image_in(case / "after")
    other = store(tmp_path, Renumbered(original).image, original.name)
    assert other.read_bytes() != original.read_bytes()
    assert compared(original, other) == []
    assert compared(other, original) == []


@pytest.mark.recorded
def test_equal_serials_with_different_names_are_a_difference(tmp_path: Path) -> None:
    """Equal bytes of a record have a different meaning with another string table."""
    original = image_in(RECORDED / "hadoop-3.4.1" / "acl-xattr" / "after")
    with open_image(original) as image:
        bodies = {entry.name: bytes(image.section_bytes(entry.name)) for entry in image.sections}
    assert b"supergroup" in bodies["STRING_TABLE"]
    bodies["STRING_TABLE"] = bodies["STRING_TABLE"].replace(b"supergroup", b"subgroup00")
    other = store(tmp_path, build_image(list(bodies.items()), layout_version=-67), original.name)
    found = compared(original, other)
    groups = [d for d in found if d.topic is ItemKind.INODE]
    assert {(d.attribute, d.old, d.new) for d in groups} == {("group", "supergroup", "subgroup00")}
    with open_image(original) as image:
        assert len(groups) == ImageRecords(image).inode_header().numInodes


# ---- single changes ----------------------------------------------------------------------------------------------


class Made:
    """A small image with something in every section; tests change a message and build it."""

    def __init__(self) -> None:
        self.layout_version = -67
        self.info = pb.NameSystemSection(namespaceId=1, transactionId=7, genstampV2=1000)
        self.strings = [
            (1 << 29 | 1, b"hdfs"),
            (2 << 29 | 1, b"staff"),
            (3 << 29 | 1, b"origin"),
            (1 << 29 | 2, b"eve"),
        ]
        owner = pack_permission(1, 1, 0o755)
        self.root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
        self.a = pb.INode(type=pb.INode.DIRECTORY, id=16386, name=b"a")
        for inode in (self.root, self.a):
            inode.directory.permission, inode.directory.nsQuota, inode.directory.dsQuota = owner, 5, 6
        self.f = pb.INode(type=pb.INode.FILE, id=16387, name=b"f")
        self.f.file.permission, self.f.file.replication = owner, 3
        self.f.file.blocks.add(blockId=1, genStamp=2, numBytes=3)
        self.link = pb.INode(type=pb.INode.SYMLINK, id=16388, name=b"l")
        self.link.symlink.permission, self.link.symlink.target = owner, b"/a/f"
        self.kept = pb.INode(type=pb.INode.FILE, id=16389, name=b"kept")
        self.kept.file.permission = owner
        self.inodes = [self.root, self.a, self.f, self.link, self.kept]
        self.root_entry = pb.DirEntry(parent=16385, children=[16386, 16388])
        self.a_entry = pb.DirEntry(parent=16386, refChildren=[0])
        self.reference = pb.INodeReference(referredId=16387, dstSnapshotId=2147483646)
        self.lease = pb.FileUnderConstructionEntry(inodeId=16387, fullPath="/a/f")
        self.snapshots = pb.SnapshotSection(snapshotCounter=1, snapshottableDir=[16386], numSnapshots=1)
        self.snapshot = pb.Snapshot(snapshotId=4, root=self.a)
        self.snapshot.root.name = b"s4"
        self.file_diff = pb.FileDiff(snapshotId=4, fileSize=3, name=b"f", snapshotCopy=self.f.file)
        self.directory_diff = pb.DirectoryDiff(snapshotId=4, childrenSize=1, isSnapshotRoot=True, createdListSize=1)
        self.directory_diff.deletedINode.append(16389)
        self.created = pb.CreatedListEntry(name=b"f")
        self.secrets = pb.SecretManagerSection(currentId=1, numKeys=1, numTokens=1)
        self.key = pb.DelegationKey(id=1, expiryDate=5, key=b"k")
        self.token = pb.PersistToken(owner="eve", sequenceNumber=3, masterKeyId=1)
        self.tokens = [self.token]
        self.caches = pb.CacheManagerSection(nextDirectiveId=9, numPools=1, numDirectives=1)
        self.pool = pb.CachePoolInfoProto(poolName="p", ownerName="eve", mode=0o755)
        self.directive = pb.CacheDirectiveInfoProto(id=8, path="/a", pool="p")
        self.policy = pb.ErasureCodingPolicyProto(id=1, state=pb.DISABLED)

    def build(self, folder: Path) -> Path:
        strings = [pb.StringTableEntry(id=number, str=text) for number, text in self.strings]
        header = pb.INodeSection(lastInodeId=16389, numInodes=len(self.inodes))
        file_entry = pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=16387, numOfDiff=1)
        entry = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=16386, numOfDiff=1)
        sections: dict[str, list[Any]] = {
            "NS_INFO": [self.info],
            "ERASURE_CODING": [pb.ErasureCodingSection(policies=[self.policy])],
            "INODE": [header, *self.inodes],
            "INODE_DIR": [self.root_entry, self.a_entry],
            "FILES_UNDERCONSTRUCTION": [self.lease],
            "SNAPSHOT": [self.snapshots, self.snapshot],
            "SNAPSHOT_DIFF": [file_entry, self.file_diff, entry, self.directory_diff, self.created],
            "INODE_REFERENCE": [self.reference],
            "SECRET_MANAGER": [self.secrets, self.key, *self.tokens],
            "CACHE_MANAGER": [self.caches, self.pool, self.directive],
            "STRING_TABLE": [pb.StringTableSection(numEntry=len(strings), maskBits=3), *strings],
        }
        folder.mkdir()
        body = [(name, delimited(messages)) for name, messages in sections.items()]
        return store(folder, build_image(body, layout_version=self.layout_version))


def setting(target: str, /, **values: Any) -> Callable[[Made], None]:
    """Return a function that sets fields of a message; `target` is its path of attributes from `Made`."""

    def change(made: Made) -> None:
        message: Any = made
        for name in filter(None, target.split(".")):
            message = getattr(message, name)
        for name, value in values.items():
            setattr(message, name, value)

    return change


def add_acl(made: Made) -> None:
    made.f.file.acl.entries.append(0b101 | 2 << 6)


def add_xattr(made: Made) -> None:
    made.a.directory.xAttrs.xAttrs.add(name=1 << 6, value=b"\xff")


def add_type_quota(made: Made) -> None:
    made.a.directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=9)


def rename_created(made: Made) -> None:
    made.created.name = b"g"


def lose_child(made: Made) -> None:
    made.root_entry.children[:] = [16386]


def move_link(made: Made) -> None:
    lose_child(made)
    made.a_entry.children.append(16388)


def stray(made: Made) -> None:
    made.root_entry.children.append(99)


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (add_acl, ("/a/f", "acl", ["user:eve:r-x"], ["user:bob:r-x"])),
        (add_xattr, ("/a", "xAttrs", ["user.origin=0xff"], ["user.bob=0xff"])),
    ],
)
def test_equal_serials_with_different_names_in_one_feature_are_a_difference(
    tmp_path: Path, add: Callable[[Made], None], expected: tuple[str, str, list[str], list[str]]
) -> None:
    """The owners have the same names; only a named ACL entry or an attribute changes its meaning."""
    old, new = Made(), Made()
    for made in (old, new):
        add(made)
    new.strings = [(serial, b"bob" if text in (b"eve", b"origin") else text) for serial, text in new.strings]
    found = compared(old.build(tmp_path / "old"), new.build(tmp_path / "new"))
    assert [(each.subject, each.attribute, each.old, each.new) for each in found] == [expected]


CHANGES: list[tuple[Callable[[Made], None], tuple[ItemKind, ChangeKind, str, str, Any, Any]]] = [
    (setting("", layout_version=-66), (ItemKind.COUNTER, ChangeKind.CHANGED, "", "layoutVersion", -67, -66)),
    (setting("info", genstampV2=1001), (ItemKind.COUNTER, ChangeKind.CHANGED, "", "genstampV2", 1000, 1001)),
    (
        setting("info", lastAllocatedStripedBlockId=5),
        (ItemKind.COUNTER, ChangeKind.CHANGED, "", "lastAllocatedStripedBlockId", -(1 << 63), 5),
    ),
    (setting("caches", nextDirectiveId=10), (ItemKind.COUNTER, ChangeKind.CHANGED, "", "nextDirectiveId", 9, 10)),
    (setting("f.file", replication=2), (ItemKind.INODE, ChangeKind.CHANGED, "/a/f", "replication", 3, 2)),
    (
        setting("f.file", permission=pack_permission(2, 1, 0o755)),
        (ItemKind.INODE, ChangeKind.CHANGED, "/a/f", "user", "hdfs", "eve"),
    ),
    (setting("f.file.fileUC", clientName="c"), (ItemKind.INODE, ChangeKind.CHANGED, "/a/f", "clientName", None, "c")),
    (
        setting("f.file", erasureCodingPolicyID=0),
        (ItemKind.INODE, ChangeKind.CHANGED, "/a/f", "erasureCodingPolicyID", None, 0),
    ),
    (add_acl, (ItemKind.INODE, ChangeKind.CHANGED, "/a/f", "acl", [], ["user:eve:r-x"])),
    (add_xattr, (ItemKind.INODE, ChangeKind.CHANGED, "/a", "xAttrs", [], ["user.origin=0xff"])),
    (add_type_quota, (ItemKind.INODE, ChangeKind.CHANGED, "/a", "typeQuotas", [], ["SSD=9"])),
    (setting("root.directory", nsQuota=(1 << 64) - 1), (ItemKind.INODE, ChangeKind.CHANGED, "/", "nsQuota", 5, -1)),
    (setting("link.symlink", target=b"/x"), (ItemKind.INODE, ChangeKind.CHANGED, "/l", "target", "/a/f", "/x")),
    (setting("a", name=b"b"), (ItemKind.INODE, ChangeKind.RENAMED, "/b", "", "/a", "/b")),
    (setting("link", name=b"\xff"), (ItemKind.INODE, ChangeKind.RENAMED, "/\udcff", "", "/l", "/\udcff")),
    (setting("kept", name=b"x"), (ItemKind.INODE, ChangeKind.RENAMED, "id 16389", "", "id 16389", "id 16389")),
    (move_link, (ItemKind.INODE, ChangeKind.RENAMED, "/a/l", "", "/l", "/a/l")),
    (lose_child, (ItemKind.INODE, ChangeKind.REMOVED, "/l", "", "SYMLINK", None)),
    (stray, (ItemKind.DIRECTORY_ENTRY, ChangeKind.ADDED, "/", "", None, None)),
    (setting("lease", fullPath="/f"), (ItemKind.LEASE, ChangeKind.CHANGED, "/a/f", "paths", ["/a/f"], ["/f"])),
    (setting("snapshots", snapshotCounter=2), (ItemKind.COUNTER, ChangeKind.CHANGED, "", "snapshotCounter", 1, 2)),
    (setting("snapshot.root", name=b"t"), (ItemKind.SNAPSHOT, ChangeKind.CHANGED, "4", "name", "s4", "t")),
    (setting("file_diff", fileSize=4), (ItemKind.SNAPSHOT_DIFF, ChangeKind.CHANGED, "/a/f", "fileSize", 3, 4)),
    (
        setting("file_diff.snapshotCopy", replication=4),
        (ItemKind.SNAPSHOT_DIFF, ChangeKind.CHANGED, "/a/f", "snapshotCopy.replication", 3, 4),
    ),
    (
        setting("directory_diff", childrenSize=2),
        (ItemKind.SNAPSHOT_DIFF, ChangeKind.CHANGED, "/a", "childrenSize", 1, 2),
    ),
    (rename_created, (ItemKind.SNAPSHOT_DIFF, ChangeKind.CHANGED, "/a", "created", ["f"], ["g"])),
    (setting("secrets", currentId=2), (ItemKind.COUNTER, ChangeKind.CHANGED, "", "currentMasterKeyId", 1, 2)),
    (setting("key", expiryDate=6), (ItemKind.MASTER_KEY, ChangeKind.CHANGED, "1", "expiryDate", 5, 6)),
    (setting("token", expiryDate=7), (ItemKind.TOKEN, ChangeKind.CHANGED, "3", "expiryDate", 0, 7)),
    (setting("pool", limit=7), (ItemKind.CACHE_POOL, ChangeKind.CHANGED, "p", "limit", 0, 7)),
    (setting("directive", path="/b"), (ItemKind.CACHE_DIRECTIVE, ChangeKind.CHANGED, "8", "path", "/a", "/b")),
    (
        setting("directive.expiration", millis=5, isRelative=False),
        (ItemKind.CACHE_DIRECTIVE, ChangeKind.CHANGED, "8", "expiration", None, 5),
    ),
    (
        setting("policy", state=pb.ENABLED),
        (ItemKind.ERASURE_CODING_POLICY, ChangeKind.CHANGED, "1", "state", "DISABLED", "ENABLED"),
    ),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_each_single_change_is_reported(tmp_path: Path, number: int) -> None:
    change, expected = CHANGES[number]
    changed = Made()
    change(changed)
    before, after = Made().build(tmp_path / "before"), changed.build(tmp_path / "after")
    assert compared(before, before) == compared(after, after) == []
    found = compared(before, after)
    # one record may contain two attributes that belong together
    assert expected in [(d.topic, d.kind, d.subject, d.attribute, d.old, d.new) for d in found]
    assert len(found) <= 2


def test_added_and_removed_items_are_reported(tmp_path: Path) -> None:
    made = Made()
    made.inodes.append(pb.INode(type=pb.INode.FILE, id=16390, name=b"new"))
    made.inodes.remove(made.link)
    made.root_entry.children[:] = [16386, 16390]
    made.snapshots.snapshottableDir[:] = [16385]
    made.snapshot.snapshotId = made.file_diff.snapshotId = 5
    made.token.sequenceNumber = 4
    made.reference.dstSnapshotId = 1
    made.strings.append((1 << 29 | 3, b"late"))
    before, after = Made().build(tmp_path / "before"), made.build(tmp_path / "after")
    found = [(d.topic.value, d.kind.value, d.subject, d.detail) for d in compared(before, after)]
    assert found == [
        ("inode", "removed", "/l", ""),
        ("inode", "added", "/new", ""),
        ("reference", "removed", "/a/f", "inode 16387, dstSnapshotId 2147483646"),
        ("reference", "added", "/a/f", "inode 16387, dstSnapshotId 1"),
        ("snapshottable directory", "removed", "/a", ""),
        ("snapshottable directory", "added", "/", ""),
        ("snapshot", "removed", "4", "/a"),
        ("snapshot", "added", "5", "/a"),
        ("snapshot diff", "removed", "/a/f", "snapshot 4"),
        ("snapshot diff", "added", "/a/f", "snapshot 5"),
        ("delegation token", "removed", "3", "owner eve, issueDate 0"),
        ("delegation token", "added", "4", "owner eve, issueDate 0"),
    ]


def test_tokens_with_the_same_sequence_number_are_different_tokens(tmp_path: Path) -> None:
    made, fewer, renewed = Made(), Made(), Made()
    other = pb.PersistToken(owner="bob", sequenceNumber=3, masterKeyId=1)
    made.tokens, fewer.tokens, renewed.tokens = [other, made.token], [fewer.token], [other, renewed.token]
    made.secrets.numTokens = renewed.secrets.numTokens = 2
    renewed.token.expiryDate = 7
    before = made.build(tmp_path / "before")
    found = compared(before, fewer.build(tmp_path / "fewer"))
    assert [(d.topic, d.kind, d.subject, d.old[:20]) for d in found] == [
        (ItemKind.TOKEN, ChangeKind.REMOVED, "3", "version=0, owner=bob")
    ]
    found = compared(before, renewed.build(tmp_path / "renewed"))
    assert [(d.attribute, d.new, d.detail) for d in found] == [("expiryDate", 7, "owner eve, issueDate 0")]


def test_progress_counts_inodes(tmp_path: Path) -> None:
    path = Made().build(tmp_path / "image")
    reported: list[int] = []
    with open_image(path) as a, open_image(path) as b:
        assert list(ImageComparison(a, b).differences(reported.append)) == []
    assert reported == [5]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (setting("a_entry", parent=16385), "INODE_DIR|two"),
        (lambda made: made.directory_diff.deletedINodeRef.append(7), "INODE_REFERENCE has no record 7"),
        (setting("f.file", permission=9 << 40), "no user has serial 9"),
    ],
)
def test_the_error_names_the_damage(tmp_path: Path, change: Callable[[Made], None], complaint: str) -> None:
    changed = Made()
    change(changed)
    before, after = Made().build(tmp_path / "before"), changed.build(tmp_path / "after")
    if "two" in complaint:
        # two entries of one directory are read as one
        assert [d.kind for d in compared(before, after) if d.topic is ItemKind.INODE] == [ChangeKind.RENAMED]
        return
    with pytest.raises(RecordError, match=complaint):
        compared(before, after)
