"""Conversion of generated images: every pair of layouts, and the kernels against the protobuf library."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin, RecordError, UnsupportedConversionError
from image_format.kernels import attributes as rows
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_tools.convert import convert_image
from image_tools.convert.layout_losses import empty_findings
from image_tools.convert.records import convert_records
from image_tools.convert.strings import NO_CHANGES, convert_strings, special_names
from journal.ops import PermissionStatus
from tests.depth import examples
from tests.engine.image_builder import ImageBuilder, Saved, delimited

LAYOUTS = list(range(-67, -59))
NAMES = ["hdfs", "hive", "etl", "wheel", "user.a", "ünï", "x" * 40]
EC_POLICY = "hdfs.erasurecoding.policy"
STORAGE_POLICY = "hsm.block.storage.policy.id"
RAW, ZONE = 4, "hdfs.crypto.encryption.zone"

names = st.sampled_from(NAMES)
entries = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 7), names), max_size=4)
attributes = st.lists(st.tuples(st.integers(0, 4), names, st.binary(max_size=5)), max_size=3)
nodes = st.lists(
    st.tuples(st.sampled_from(["file", "directory", "symlink"]), names, names, entries, attributes), max_size=12
)


def build(layout: int, specification: list[Any]) -> ImageBuilder:
    builder = ImageBuilder(layout)
    for number, (kind, user, group, acl, xattrs) in enumerate(specification):
        path = f"/{number}"
        if kind == "symlink":
            builder.symlink(path, "/target").symlink.permission = builder.permission(
                PermissionStatus(user, group, 0o777)
            )
            continue
        inode = builder.file(path) if kind == "file" else builder.directory(path)
        body = inode.file if kind == "file" else inode.directory
        body.permission = builder.permission(PermissionStatus(user, group, 0o1640))
        for entry_kind, scope, bits, name in acl:
            body.acl.entries.append(builder.acl_entry(entry_kind, scope, bits, name if entry_kind < 2 else ""))
        for space, name, value in xattrs:
            body.xAttrs.xAttrs.add(name=builder.xattr_name(space, name), value=value)
    return builder


def converted(builder: ImageBuilder, layout: int) -> bytes:
    out = bytearray()
    with tempfile.TemporaryDirectory() as folder, ImageFile.open(builder.save(Path(folder))) as image:
        convert_image(image, out.extend, layout_version=layout)
    return bytes(out)


def meaning(image: Saved, path: str) -> object:
    inode = image[path]
    if inode.HasField("symlink"):
        return image.status(inode.symlink.permission), inode.symlink.target
    body = inode.file if inode.HasField("file") else inode.directory
    return image.status(body.permission), image.acl(path), image.xattrs(path)


@given(specification=nodes, source=st.sampled_from(LAYOUTS), target=st.sampled_from(LAYOUTS))
@examples(60)
def test_conversion_between_every_pair_of_layouts(specification: list[Any], source: int, target: int) -> None:
    builder = build(source, specification)
    with tempfile.TemporaryDirectory() as folder:
        before = Saved(builder.save(Path(folder)).read_bytes())
    after = Saved(converted(builder, target))
    assert after.summary.layoutVersion == target & 0xFFFFFFFF
    assert after.mask_bits == (3 if target <= -65 else 0)
    assert list(after.paths) == list(before.paths)
    for path in before.paths:
        assert meaning(after, path) == meaning(before, path)
        assert after[path].ByteSize() == before[path].ByteSize()
    assert after.children == before.children


# ---- the kernels' twin -------------------------------------------------------------------------------------


def plain_findings(inode: pb.INode) -> Counter[int]:
    found: Counter[int] = Counter()
    body = inode.file if inode.HasField("file") else inode.directory
    if inode.HasField("file"):
        file = inode.file
        found[rows.STRIPED] += bool(file.blockType or file.HasField("erasureCodingPolicyID"))
        found[rows.WIDE_REPLICATION] += file.replication > 2047
        found[rows.PROVIDED_POLICIES] += file.storagePolicyID == 1
        found[rows.NVDIMM_POLICIES] += file.storagePolicyID == 14
    else:
        quotas = inode.directory.typeQuotas.quotas
        found[rows.TYPE_QUOTAS] += inode.directory.HasField("typeQuotas")
        found[rows.PROVIDED_QUOTAS] += sum(quota.storageType == pb.PROVIDED for quota in quotas)
        found[rows.NVDIMM_QUOTAS] += sum(quota.storageType == pb.NVDIMM for quota in quotas)
    for xattr in body.xAttrs.xAttrs:
        found[rows.EC_XATTRS] += xattr.name == special_name(1)
        found[rows.PROVIDED_POLICIES] += xattr.name == special_name(2) and xattr.value == b"\x01"
        found[rows.NVDIMM_POLICIES] += xattr.name == special_name(2) and xattr.value == b"\x0e"
    return +found


def special_name(serial: int) -> int:
    return 3 << 30 | serial << 6


def table() -> StringTable:
    header = pb.StringTableSection(numEntry=2, maskBits=3)
    found = [
        pb.StringTableEntry(id=3 << 29 | serial, str=text.encode())
        for serial, text in ((1, EC_POLICY), (2, STORAGE_POLICY))
    ]
    return StringTable(delimited([header, *found]))


files = st.builds(
    pb.INodeFile,
    replication=st.integers(0, 4095),
    storagePolicyID=st.sampled_from([0, 1, 2, 7, 14, 15]),
    blockType=st.sampled_from([pb.CONTIGUOUS, pb.STRIPED]),
    erasureCodingPolicyID=st.none() | st.integers(1, 127),
)
xattrs = st.builds(
    pb.XAttrFeatureProto,
    xAttrs=st.lists(
        st.builds(
            pb.XAttrCompactProto,
            name=st.sampled_from([special_name(1), special_name(2), special_name(3), 2 << 6]),
            value=st.sampled_from([b"\x01", b"\x0e", b"", b"\x01\x02"]),
        ),
        max_size=3,
    ),
)
quotas = st.builds(
    pb.QuotaByStorageTypeFeatureProto,
    quotas=st.lists(
        st.builds(
            pb.QuotaByStorageTypeEntryProto,
            storageType=st.sampled_from([pb.DISK, pb.PROVIDED, pb.NVDIMM]),
            quota=st.integers(0, 1 << 60),
        ),
        max_size=3,
    ),
)
directories = st.builds(pb.INodeDirectory, typeQuotas=st.none() | quotas, xAttrs=st.none() | xattrs)
inodes = st.builds(pb.INode, type=st.just(pb.INode.FILE), id=st.integers(1, 1 << 50), file=files) | st.builds(
    pb.INode, type=st.just(pb.INode.DIRECTORY), id=st.integers(1, 1 << 50), directory=directories
)


def survey(name: str, section: bytes) -> np.ndarray:  # type: ignore[type-arg]
    found = empty_findings()
    chunks = convert_records(
        name, np.frombuffer(section, np.uint8), NO_CHANGES, special_names(table()), found, BufferOrigin(section=name)
    )
    assert b"".join(bytes(chunk) for chunk in chunks) == section
    return found


@given(st.lists(inodes, max_size=8))
def test_the_kernel_finds_what_the_plain_twin_finds(records: list[pb.INode]) -> None:
    expected: Counter[int] = Counter()
    first: dict[int, int] = {}
    for inode in records:
        for row, count in plain_findings(inode).items():
            expected[row] += count
            first.setdefault(row, inode.id)
    found = survey("INODE", delimited([pb.INodeSection(numInodes=len(records)), *records]))
    assert {row: (count, first[row]) for row, count in expected.items()} == {
        row: tuple(found[row]) for row in range(rows.FINDINGS) if found[row, 0]
    }


@given(st.lists(inodes, max_size=5), st.booleans())
def test_snapshots_and_diffs_are_searched(records: list[pb.INode], with_blocks: bool) -> None:
    snapshots = [pb.Snapshot(snapshotId=i, root=inode) for i, inode in enumerate(records)]
    found = survey("SNAPSHOT", delimited([pb.SnapshotSection(numSnapshots=len(records)), *snapshots]))
    expected = sum(map(plain_findings, records), Counter())
    assert {row: found[row, 0] for row in range(rows.FINDINGS) if found[row, 0]} == expected
    lists: list[Any] = []
    for inode in records:
        if inode.HasField("file"):
            lists.append(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=inode.id, numOfDiff=1))
            lists.append(pb.FileDiff(snapshotId=1, snapshotCopy=inode.file))
            if with_blocks:
                lists[-1].blocks.add(blockId=1, genStamp=1)
        else:
            lists.append(pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=inode.id, numOfDiff=1))
            lists.append(pb.DirectoryDiff(snapshotId=1, snapshotCopy=inode.directory, createdListSize=1))
            lists.append(pb.CreatedListEntry(name=b"name"))
    found = survey("SNAPSHOT_DIFF", delimited(lists))
    blocks = sum(inode.HasField("file") for inode in records) if with_blocks else 0
    assert found[rows.DIFF_BLOCKS, 0] == blocks
    found[rows.DIFF_BLOCKS] = 0
    assert {row: found[row, 0] for row in range(rows.FINDINGS) if found[row, 0]} == expected


# ---- refusals ----------------------------------------------------------------------------------------------


def type_quota(storage_type: int) -> Callable[[ImageBuilder], None]:
    def change(builder: ImageBuilder) -> None:
        builder.directory("/d").directory.typeQuotas.quotas.add(storageType=storage_type, quota=7)  # type: ignore[arg-type]

    return change


def file_policy(policy: int) -> Callable[[ImageBuilder], None]:
    def change(builder: ImageBuilder) -> None:
        builder.file("/f").file.storagePolicyID = policy

    return change


def directory_xattr(name: str, value: bytes, namespace: int = 3) -> Callable[[ImageBuilder], None]:
    def change(builder: ImageBuilder) -> None:
        feature = builder.directory("/d").directory.xAttrs
        feature.xAttrs.add(name=builder.xattr_name(namespace, name), value=value)

    return change


def striped(builder: ImageBuilder) -> None:
    file = builder.file("/f").file
    file.ClearField("replication")
    file.blockType, file.erasureCodingPolicyID = pb.STRIPED, 1


def replication(builder: ImageBuilder) -> None:
    builder.file("/f").file.replication = 3000


def striped_counter(builder: ImageBuilder) -> None:
    builder.info.lastAllocatedStripedBlockId = (1 << 63) + 16


def policies(builder: ImageBuilder) -> None:
    section = pb.ErasureCodingSection(policies=[pb.ErasureCodingPolicyProto(id=1, state=pb.ENABLED)])
    builder.sections["ERASURE_CODING"] = encode_delimited(section)


def pool(**fields: Any) -> Callable[[ImageBuilder], None]:
    def change(builder: ImageBuilder) -> None:
        header = pb.CacheManagerSection(nextDirectiveId=1, numPools=1, numDirectives=0)
        builder.sections["CACHE_MANAGER"] = delimited([header, pb.CachePoolInfoProto(poolName="p", **fields)])

    return change


@pytest.mark.parametrize(
    ("change", "source", "refused", "accepted", "text"),
    [
        (type_quota(pb.SSD), -63, -62, -64, "directories with storage type quotas (1, the first is inode 16386)"),
        (type_quota(pb.PROVIDED), -64, -63, -67, "a quota for PROVIDED storage"),
        (type_quota(pb.NVDIMM), -67, -66, -67, "a quota for NVDIMM storage"),
        (file_policy(1), -64, -63, -67, "storage policy PROVIDED"),
        (file_policy(14), -67, -64, -67, "storage policy ALL_NVDIMM"),
        (file_policy(12), -67, None, -60, ""),
        (directory_xattr(STORAGE_POLICY, b"\x0e"), -67, -65, -67, "storage policy ALL_NVDIMM"),
        (directory_xattr(STORAGE_POLICY, b"\x02"), -67, None, -60, ""),
        (directory_xattr(EC_POLICY, b"x"), -66, -60, -64, "an erasure coding policy"),
        (directory_xattr("hdfs.snapshot.deleted", b""), -67, -66, -67, "snapshots marked as deleted"),
        (directory_xattr(ZONE, b"\x08\x03\x10\x02", RAW), -67, -66, -67, "encryption zones with the cipher SM4"),
        (directory_xattr(ZONE, b"\x08\x02\x1a\x01\x03", RAW), -67, None, -60, ""),
        (directory_xattr(ZONE, b"\x08", RAW), -67, None, -60, ""),
        (striped, -64, -63, -67, "erasure-coded files"),
        (replication, -63, -64, -60, "files with a replication above 2047"),
        (striped_counter, -67, -63, -64, "the counter of allocated striped blocks"),
        (policies, -67, -63, -64, "enabled or user-defined: id 1"),
        (pool(maxRelativeExpiry=5), -67, -63, -64, "the maximum relative expiry of cache pool p"),
        (pool(defaultReplication=2), -67, -63, -64, "the default replication of cache pool p"),
    ],
)
def test_features_that_the_target_layout_cannot_represent_are_refused(
    change: Callable[[ImageBuilder], None], source: int, refused: int | None, accepted: int, text: str
) -> None:
    builder = ImageBuilder(source)
    change(builder)
    if refused is not None:
        with pytest.raises(UnsupportedConversionError, match="cannot represent") as raised:
            converted(builder, refused)
        assert text in str(raised.value)
    converted(builder, accepted)


def test_a_cache_pool_gets_the_default_expiry_of_hadoop_3() -> None:
    builder = ImageBuilder(-63)
    pool()(builder)
    after = Saved(converted(builder, -67))
    found = after.sections["CACHE_MANAGER"]
    assert pb.CachePoolInfoProto(maxRelativeExpiry=(2**63 - 1) // 4).SerializeToString() in found


# ---- damage and limits -------------------------------------------------------------------------------------


def test_a_serial_missing_from_the_string_table_is_an_error() -> None:
    builder = ImageBuilder(-67)
    builder.directory("/d").directory.permission = 9 << 40 | 1 << 16 | 0o755
    with pytest.raises(RecordError, match="refers to a string that is missing from the string table"):
        converted(builder, -63)


@given(st.binary(max_size=60))
def test_damaged_records_raise_only_record_errors(data: bytes) -> None:
    for name in ("INODE", "SNAPSHOT", "SNAPSHOT_DIFF"):
        head = b"" if name == "SNAPSHOT_DIFF" else encode_delimited(pb.INodeSection(numInodes=1))
        with suppress(RecordError):
            survey(name, head + encode_delimited(pb.INode(type=pb.INode.FILE, id=1)) + data)


def test_unknown_fields_of_a_changed_string_table_are_refused() -> None:
    entry = pb.StringTableEntry(id=1, str=b"a").SerializeToString() + b"\xf8\x07\x01"
    data = encode_delimited(pb.StringTableSection(numEntry=1)) + bytes([len(entry)]) + entry
    with pytest.raises(UnsupportedConversionError, match="contains unknown fields"):
        convert_strings(StringTable(data), -67)
    assert convert_strings(StringTable(data), -64)[0] == data


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), names), unique=True, max_size=12))
def test_joined_and_split_string_tables_keep_every_string(strings: list[tuple[int, str]]) -> None:
    source = StringTable.empty(3)
    serials = {(kind, text): source.serial(text, StringKind(kind)) for kind, text in strings}
    data, maps = convert_strings(StringTable(source.encode()), -63)
    joined = StringTable(data)
    for (kind, text), serial in serials.items():
        assert joined.lookup(int(maps[kind - 1][serial]), StringKind(kind)) == text
    split = StringTable(convert_strings(joined, -67)[0])
    assert {text for _, _, text in split.entries()} == {text for _, text in strings}
    for _, serial, text in joined.entries():
        assert {split.lookup(serial, kind) for kind in (StringKind.USER, StringKind.GROUP, StringKind.XATTR)} == {text}
