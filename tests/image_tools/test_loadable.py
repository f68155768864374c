"""The check finds every record that a NameNode does not load, and accepts all other records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.index import Ids, ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, encode_varint
from image_tools.loadable import check_loadable, load_faults
from image_tools.loadable.kernels import records as kernels
from image_tools.loadable.kernels.records import PARSED
from image_tools.loadable.tables import FIELDS, MESSAGES, REQUIRED, fields_of, number_of
from tests.engine.image_builder import ImageBuilder
from tests.image_format.image_support import RECORDED, delimited

IMAGES = [path for path in sorted(RECORDED.glob("hadoop-*/*/before/fsimage_*")) if path.suffix != ".md5"]
NEWEST = -67


def inode() -> pb.INode:
    message = pb.INode(type=pb.INode.FILE, id=16386, name=b"f")
    message.file.replication = 3
    message.file.blocks.add(blockId=7, genStamp=1001, numBytes=5)
    message.file.acl.entries.extend([1, 2])
    message.file.fileUC.clientName = "c"
    return message


def parses(message: int, body: bytes) -> bool:
    """Return whether the compiled check accepts a message, after comparing the result with the result of the Python
    form.
    """
    section = np.frombuffer(encode_varint(len(body)) + body, np.uint8)
    arguments = (section, 0, message, FIELDS, REQUIRED)
    found = [int(form(*arguments)) for form in (kernels.first_unparsable.dispatcher, kernels.first_unparsable.plainly)]
    assert found[0] == found[1], body
    return found[0] == kernels.PARSED


def test_the_check_accepts_records_that_a_parser_accepts() -> None:
    number, body = number_of(pb.INode), inode().SerializeToString()
    assert parses(number, body)
    assert parses(number, b"") is False
    assert not parses(number, body[2:])
    assert not parses(number, pb.INode(type=pb.INode.FILE).SerializePartialToString())
    # an unknown value of an enum counts as absent; an optional field of another wire type is an unknown field
    assert not parses(number, b"\x08\x09" + body[2:])
    assert parses(number, body + b"\x18\x05")
    assert parses(number, body + b"\x98\x06\x05")
    for damage in (
        b"\x00",
        b"\x07",
        b"\x0f",
        b"\x1a",
        b"\x1a\x05ab",
        b"\x22\x02\x32\x00",
        b"\x18" + b"\xff" * 10,
        b"\x0c",
    ):
        assert not parses(number, body + damage), damage


@given(st.sampled_from(range(len(MESSAGES))), st.binary(max_size=40))
def test_both_forms_agree_on_any_bytes(message: int, body: bytes) -> None:
    # the library skips groups, which no release of Hadoop writes
    if not any(byte & 7 in (3, 4) for byte in body):
        parses(message, body)


@given(st.data())
def test_both_forms_agree_on_damaged_records(data: st.DataObject) -> None:
    body = bytearray(inode().SerializeToString())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= 1 << data.draw(st.integers(0, 2))
    if not any(byte & 7 in (3, 4) for byte in body):
        parses(number_of(pb.INode), bytes(body))


def usual_inode(data: st.DataObject) -> pb.INode:
    """Return an INode with the fields of most inodes, and any values."""
    numbers = st.integers(0, (1 << 64) - 1) | st.integers(0, 4096)
    message = pb.INode(type=pb.INode.DIRECTORY, id=data.draw(numbers), name=data.draw(st.binary(max_size=5)))
    if data.draw(st.booleans()):
        message.directory.MergeFrom(pb.INodeDirectory(**{name: data.draw(numbers) for name in DIRECTORY_FIELDS}))
        return message
    message.type = pb.INode.FILE
    message.file.MergeFrom(pb.INodeFile(**{name: data.draw(numbers) for name in FILE_FIELDS}))
    message.file.replication = data.draw(st.integers(0, 4096))
    for _ in range(data.draw(st.integers(0, 2))):
        message.file.blocks.add(**{name: data.draw(numbers) for name in ("blockId", "genStamp", "numBytes")})
    for name in data.draw(st.sampled_from([(), ("storagePolicyID",), ("storagePolicyID", "blockType")])):
        setattr(message.file, name, data.draw(st.integers(0, 1)))
    return message


DIRECTORY_FIELDS = ("modificationTime", "nsQuota", "dsQuota", "permission")
FILE_FIELDS = ("modificationTime", "accessTime", "preferredBlockSize", "permission")


@given(st.data(), st.booleans(), st.sampled_from(["none", "flip", "cut", "more"]))
def test_fast_and_general_checks_accept_the_same_inodes(data: st.DataObject, hadoop3: bool, damage: str) -> None:
    message = usual_inode(data)
    body = bytearray(message.SerializeToString())
    if damage == "flip":
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "cut":
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    elif damage == "more":
        body += data.draw(st.binary(min_size=1, max_size=3))
    policies = np.zeros(256 * hadoop3, np.uint8)
    storage_policies = np.array([1, *[hadoop3] * 255], np.uint8)
    rules = np.array([0, 2047, 1 << 47] if hadoop3 else [1, 4095, 1 << 47], np.int64)
    # the bytes after the record belong to another record
    arguments = (np.frombuffer(bytes(body) + b"\x08" * 16, np.uint8), 0, len(body), policies, storage_policies, rules)
    forms = kernels.load_usual_inode.dispatcher, kernels.load_usual_inode.plainly
    usual, plain = (int(form(*arguments)) for form in forms)
    assert usual == plain
    loads, kind = kernels._loads_inode(*arguments)
    if usual:
        assert parses(number_of(pb.INode), bytes(body))
        assert (bool(loads), int(kind)) == (True, usual)
    elif damage == "none":
        assert not loads or message.file.blockType == pb.STRIPED


@given(st.data())
def test_records_of_a_known_shape_are_checked_equally_strictly(data: st.DataObject) -> None:
    models = [usual_inode(data) for _ in range(data.draw(st.integers(1, 2)))]
    bodies: list[bytes] = []
    for _ in range(data.draw(st.integers(2, 8))):
        body = bytearray(data.draw(st.sampled_from(models)).SerializeToString())
        if data.draw(st.integers(0, 3)) == 0:
            body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        bodies.append(bytes(body))
    # the last records, which lack an id, are too close to the end of the section for a comparison of shapes
    bodies += [b"\x08\x01"] * 80
    rules = (np.ones(256, np.uint8), np.array([1] * 250 + [0] * 6, np.uint8), np.array([0, 2047, 1 << 47], np.int64))
    section = np.frombuffer(b"".join(encode_varint(len(body)) + body for body in bodies), np.uint8)
    kinds = np.zeros(64, np.uint8)
    first_unloadable = kernels.first_unloadable_inode.dispatcher
    at, parsed = first_unloadable(section, 0, number_of(pb.INode), FIELDS, REQUIRED, *rules, kinds)
    position = 0
    for number, body in enumerate(bodies):
        record = np.frombuffer(encode_varint(len(body)) + body, np.uint8)
        accepted = kernels.first_unparsable.dispatcher(record, 0, number_of(pb.INode), FIELDS, REQUIRED) == PARSED
        loads, kind = kernels._loads_inode(np.frombuffer(body, np.uint8), 0, len(body), *rules)
        if not accepted or not loads:
            assert (int(at), bool(parsed)) == (position, accepted)
            return
        assert kinds[number >> 2] >> 2 * (number & 3) & 3 == kind
        position += record.size


@pytest.mark.recorded
@pytest.mark.parametrize("path", IMAGES[::5], ids=lambda path: "/".join(path.parts[-4:-1]))
def test_recorded_images_are_loadable(path: Path) -> None:
    with ImageFile.open(path, verify_md5=False) as image:
        check_loadable(image, ImageIndex(image))


# ---- values that no loader accepts ---------------------------------------------------------------------------


def refused(tmp_path: Path, builder: ImageBuilder) -> str:
    """Return the reason why the image cannot be loaded, or "" if it can."""
    with ImageFile.open(builder.save(tmp_path)) as image:
        try:
            check_loadable(image, ImageIndex(image))
        except RecordError as error:
            return error.message
    return ""


def test_images_of_an_unknown_layout_have_no_load_faults(tmp_path: Path) -> None:
    for layout, loads in ((NEWEST - 1, True), (NEWEST, False)):
        builder = ImageBuilder(layout)
        builder.file("/f").file.storagePolicyID = 16
        with ImageFile.open(builder.save(tmp_path), allow_unknown_layout=True) as image:
            assert (list(load_faults(image.section, image.layout_version)) == []) is loads


FILES: dict[str, tuple[int, Callable[[pb.INodeFile], None], bool]] = {
    "replication of Hadoop 2": (-63, lambda file: setattr(file, "replication", 4095), True),
    "replication 0 of Hadoop 2": (-63, lambda file: setattr(file, "replication", 0), False),
    "replication 0": (NEWEST, lambda file: setattr(file, "replication", 0), True),
    "replication 2048": (NEWEST, lambda file: setattr(file, "replication", 2048), False),
    "block size": (NEWEST, lambda file: setattr(file, "preferredBlockSize", 1 << 48), False),
    "storage policy of Hadoop 3": (-66, lambda file: setattr(file, "storagePolicyID", 14), True),
    "storage policy of Hadoop 3 in Hadoop 2": (-63, lambda file: setattr(file, "storagePolicyID", 1), False),
    "storage policy": (NEWEST, lambda file: setattr(file, "storagePolicyID", 16), False),
    "striped without a policy": (NEWEST, lambda file: setattr(file, "blockType", pb.STRIPED), False),
    "a policy, but contiguous": (NEWEST, lambda file: setattr(file, "erasureCodingPolicyID", 1), False),
}


@pytest.mark.parametrize(("layout", "change", "loads"), FILES.values(), ids=FILES)
def test_file_values_that_namenodes_reject(
    layout: int, change: Callable[[pb.INodeFile], None], loads: bool, tmp_path: Path
) -> None:
    builder = ImageBuilder(layout)
    builder.file("/f")
    assert refused(tmp_path, builder) == ""
    change(builder.inodes["/f"].file)
    assert ("NameNodes reject the file's" in refused(tmp_path, builder)) is not loads


@pytest.mark.parametrize(
    ("layout", "kind", "loads"), [(-67, pb.NVDIMM, True), (-66, pb.NVDIMM, False), (-63, 5, False)]
)
def test_storage_types_depend_on_the_layout(layout: int, kind: int, loads: bool, tmp_path: Path) -> None:
    builder = ImageBuilder(layout)
    builder.directory("/d").directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=5)
    assert refused(tmp_path, builder) == ""
    builder.inodes["/d"].directory.typeQuotas.quotas.add(storageType=kind, quota=5)  # type: ignore[arg-type]
    assert ("NameNodes cannot parse the record" in refused(tmp_path, builder)) is not loads
    body = encode_delimited(builder.inodes["/d"])
    section, fields = np.frombuffer(body, np.uint8), fields_of(layout)
    for form in (kernels.first_unparsable.dispatcher, kernels.first_unparsable.plainly):
        found = form(section, 0, number_of(pb.INode), fields, REQUIRED)
        assert (found == kernels.PARSED) is loads


def faults(layout: int = NEWEST, **sections: list[Message]) -> list[str]:
    """Return the faults of sections with these records."""
    arrays = {name: np.frombuffer(delimited(records), np.uint8) for name, records in sections.items()}
    return [fault.what for fault in load_faults(arrays.get, layout)]


COUNTERS: list[tuple[str, list[Message], bool]] = [
    ("NS_INFO", [pb.NameSystemSection(lastAllocatedBlockId=1 << 30)], True),
    ("NS_INFO", [pb.NameSystemSection(lastAllocatedBlockId=(1 << 30) - 1)], False),
    ("NS_INFO", [pb.NameSystemSection()], False),
    ("NS_INFO", [pb.NameSystemSection(lastAllocatedBlockId=1 << 30, lastAllocatedStripedBlockId=1 << 63)], True),
    ("NS_INFO", [pb.NameSystemSection(lastAllocatedBlockId=1 << 30, lastAllocatedStripedBlockId=0)], False),
    ("NS_INFO", [pb.NameSystemSection(lastAllocatedBlockId=1 << 30, lastAllocatedStripedBlockId=5)], False),
    ("INODE", [pb.INodeSection(lastInodeId=16385)], True),
    ("INODE", [pb.INodeSection(lastInodeId=16384)], False),
    ("INODE", [pb.INodeSection(lastInodeId=1 << 63)], False),
    ("INODE", [pb.INodeSection()], False),
]


@pytest.mark.parametrize(("name", "records", "loads"), COUNTERS)
def test_counters_that_a_namenode_cannot_increment(name: str, records: list[Message], loads: bool) -> None:
    found = faults(**{name: records})
    assert (found == []) is loads
    assert all(each.endswith(("is reserved", "is not negative")) for each in found)


@pytest.mark.parametrize(
    ("renewer", "releases"),
    [
        ("yarn", (2, 3)),
        ("a/b", (2, 3)),
        ("a/b/c", (2, 3)),
        ("yarn/host@REALM", (2, 3)),
        ("@REALM", (2,)),
        ("a/b@C@D", ()),
        ("a/b/c@D", ()),
    ],
)
def test_token_renewers_must_be_kerberos_names(renewer: str, releases: tuple[int, ...]) -> None:
    header = pb.SecretManagerSection(numKeys=1, numTokens=1)
    records = [header, pb.DelegationKey(id=1), pb.PersistToken(sequenceNumber=4, renewer=renewer)]
    for release, layout in ((2, -63), (3, NEWEST)):
        what = [] if release in releases else [f"delegation token 4 has the malformed renewer {renewer!r}"]
        assert faults(layout, SECRET_MANAGER=records) == what


def test_delegation_tokens_must_differ() -> None:
    token = pb.PersistToken(owner="a", sequenceNumber=4, masterKeyId=1)
    renewed = pb.PersistToken(owner="a", sequenceNumber=4, masterKeyId=1, expiryDate=9)
    other = pb.PersistToken(owner="b", sequenceNumber=4, masterKeyId=1)
    header, key = pb.SecretManagerSection(numKeys=1, numTokens=2), pb.DelegationKey(id=1, key=b"k")
    assert faults(SECRET_MANAGER=[header, key, token, renewed]) == ["delegation token 4 is listed twice"]
    assert faults(SECRET_MANAGER=[header, key, token, other]) == []
    # a NameNode drops tokens without a master key
    assert faults(SECRET_MANAGER=[header, pb.DelegationKey(id=2, key=b"k"), token, token]) == []


def test_master_keys_of_tokens_must_have_key_material() -> None:
    header, key = pb.SecretManagerSection(numKeys=1, numTokens=1), pb.DelegationKey(id=1, expiryDate=5)
    token = pb.PersistToken(sequenceNumber=4, masterKeyId=1)
    what = "delegation token 4 belongs to master key 1, which has no key material"
    assert faults(SECRET_MANAGER=[header, key, token]) == [what]
    assert faults(SECRET_MANAGER=[pb.SecretManagerSection(numKeys=1, numTokens=0), key]) == []


def test_default_replication_of_a_cache_pool_must_fit_a_short_in_hadoop_3() -> None:
    pool = pb.CachePoolInfoProto(poolName="p", defaultReplication=(1 << 32) - 1)
    records = [pb.CacheManagerSection(nextDirectiveId=1, numPools=1, numDirectives=0), pool]
    assert faults(CACHE_MANAGER=records) == [f"cache pool 'p' has the default replication {(1 << 32) - 1}"]
    assert faults(-63, CACHE_MANAGER=records) == []


@pytest.mark.parametrize(
    ("values", "releases"),
    [
        ({"replication": 3}, (2, 3)),
        ({"replication": 3, "erasureCodingPolicyID": 99}, (2, 3)),
        ({"replication": 0}, (3,)),
        ({}, (3,)),
        ({"replication": 4095}, (2,)),
        ({"replication": 5000}, ()),
        ({"replication": 3, "preferredBlockSize": 1 << 60}, ()),
        ({"replication": 3, "storagePolicyID": 16}, ()),
        ({"blockType": pb.STRIPED, "erasureCodingPolicyID": 2}, (3,)),
        ({"blockType": pb.STRIPED, "erasureCodingPolicyID": 99}, ()),
    ],
)
def test_file_values_in_snapshots_that_namenodes_reject(values: dict[str, int], releases: tuple[int, ...]) -> None:
    entry = pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=16386, numOfDiff=1)
    copy = pb.INodeFile(**values)  # type: ignore[arg-type]
    records = [entry, pb.FileDiff(snapshotId=1, snapshotCopy=copy)]
    for release, layout in ((2, -63), (3, NEWEST)):
        found = faults(layout, SNAPSHOT_DIFF=records)
        assert [each.endswith("in a snapshot") for each in found] == ([] if release in releases else [True])


@pytest.mark.parametrize(("name", "loads"), [("EXTENDED_ACL", True), ("SNAPSHOT_DIFF_SUB", True), ("inode", False)])
def test_unknown_section_names_are_refused(name: str, loads: bool, tmp_path: Path) -> None:
    builder = ImageBuilder(NEWEST)
    builder.sections[name] = b"\0"
    assert (
        refused(tmp_path, builder) == ""
        if loads
        else f"NameNodes do not support a section named {name!r}" in refused(tmp_path, builder)
    )


def policy(number: int, **changed: object) -> pb.ErasureCodingPolicyProto:
    schema = pb.ECSchemaProto(codecName="rs", dataUnits=3, parityUnits=2)
    found = pb.ErasureCodingPolicyProto(id=number, name="RS-3-2-1k", schema=schema, cellSize=1024, state=pb.ENABLED)
    for name, value in changed.items():
        found.ClearField(name) if value is None else setattr(found, name, value)  # type: ignore[arg-type]
    return found


def built_in(number: int, **changed: object) -> pb.ErasureCodingPolicyProto:
    return policy(number, name=None, schema=None, cellSize=None, **changed)


@pytest.mark.parametrize(
    ("policies", "what"),
    [
        ([policy(64)], ""),
        ([built_in(2)], ""),
        ([*map(built_in, range(1, 7))], ""),
        # a damaged id: 37 in place of 4
        ([*map(built_in, (1, 2, 3, 37, 5))], "policy 37 has no name"),
        ([*map(built_in, range(6)), policy(6, name=None)], "has no name"),
        ([built_in(0)], "has no name"),
        ([built_in(2, state=None)], "has no state"),
        ([*map(built_in, range(1, 65))], "policy 64 has no name"),
        ([policy(64, name=None)], "has no name"),
        ([policy(64, state=None)], "has no state"),
        ([policy(64, cellSize=1000)], "cells of 1000 bytes"),
    ],
)
def test_invalid_erasure_coding_policies_are_refused(
    policies: list[pb.ErasureCodingPolicyProto], what: str, tmp_path: Path
) -> None:
    builder = ImageBuilder(NEWEST)
    builder.sections["ERASURE_CODING"] = encode_delimited(pb.ErasureCodingSection(policies=policies))
    found = refused(tmp_path, builder)
    assert what in found
    assert bool(found) == bool(what)


def directive(**changed: object) -> pb.CacheDirectiveInfoProto:
    values = {"id": 1, "path": "/d", "replication": 1, "pool": "p", **changed}
    return pb.CacheDirectiveInfoProto(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_directive", "what"),
    [
        (directive(), ""),
        (directive(pool="q"), "belongs to the missing pool 'q'"),
        (directive(id=0), "has an invalid id"),
        (directive(replication=0), "has the replication 0"),
        (directive(path=""), "has no path"),
    ],
)
def test_invalid_cache_directives_are_refused(
    given_directive: pb.CacheDirectiveInfoProto, what: str, tmp_path: Path
) -> None:
    builder = ImageBuilder(NEWEST)
    header = pb.CacheManagerSection(nextDirectiveId=2, numPools=1, numDirectives=1)
    builder.sections["CACHE_MANAGER"] = delimited([header, pb.CachePoolInfoProto(poolName="p"), given_directive])
    found = refused(tmp_path, builder)
    assert what in found
    assert bool(found) == bool(what)


def test_a_fault_gives_the_offset_of_a_counted_record() -> None:
    pools = [pb.CachePoolInfoProto(poolName=name, limit=limit) for name, limit in (("a", 1), ("b", -1))]
    tokens = [pb.PersistToken(sequenceNumber=n, renewer=renewer) for n, renewer in enumerate(("yarn", "a/b@C@D"))]
    cached: list[Message] = [pb.CacheManagerSection(nextDirectiveId=1, numPools=2, numDirectives=0), *pools]
    secret: list[Message] = [pb.SecretManagerSection(numKeys=0, numTokens=2), *tokens]
    for name, records in (("CACHE_MANAGER", cached), ("SECRET_MANAGER", secret)):
        section = np.frombuffer(delimited(records), np.uint8)
        (fault,) = load_faults({name: section}.get, NEWEST)
        assert fault.offset == len(delimited(records[:2]))


# ---- references between records ------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 1 << 17])
def test_children_of_files_and_missing_children_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("image_tools.loadable.check._PIECE", piece)
    builder = ImageBuilder(NEWEST)
    parent, child = builder.directory("/d"), builder.file("/d/f")
    assert refused(tmp_path, builder) == ""
    entries = [pb.DirEntry(parent=16385, children=[parent.id]), pb.DirEntry(parent=parent.id, children=[child.id + 9])]
    builder.sections["INODE_DIR"] = delimited(entries)
    assert f"a directory's child {child.id + 9} does not exist" in refused(tmp_path, builder)
    entries[1] = pb.DirEntry(parent=child.id, children=[child.id])
    builder.sections["INODE_DIR"] = delimited(entries)
    assert f"inode {child.id} has children but is not a directory" in refused(tmp_path, builder)


REFERENCES: dict[str, tuple[pb.INodeReference, bool]] = {
    "a present place": (pb.INodeReference(dstSnapshotId=0), False),
    "a name in snapshots": (pb.INodeReference(name=b"f", lastSnapshotId=0), False),
    "no dstSnapshotId": (pb.INodeReference(), True),
    "no name": (pb.INodeReference(lastSnapshotId=1), True),
    "an empty name": (pb.INodeReference(name=b"", lastSnapshotId=1), True),
    "a slash in the name": (pb.INodeReference(name=b"a/b", lastSnapshotId=1), True),
    "no lastSnapshotId": (pb.INodeReference(name=b"f"), True),
    "dstSnapshotId and a name": (pb.INodeReference(name=b"f", dstSnapshotId=5), True),
    "dstSnapshotId and lastSnapshotId": (pb.INodeReference(dstSnapshotId=5, lastSnapshotId=5), True),
}


@pytest.mark.parametrize(("reference", "odd"), REFERENCES.values(), ids=REFERENCES)
def test_references_that_no_namenode_writes_are_found(reference: pb.INodeReference, odd: bool) -> None:
    first = encode_delimited(pb.INodeReference(referredId=16386, dstSnapshotId=5))
    reference.referredId = 16386
    buf = np.frombuffer(first + encode_delimited(reference), np.uint8)
    faults = [(each.section, each.offset) for each in load_faults({"INODE_REFERENCE": buf}.get, NEWEST)]
    assert faults == [("INODE_REFERENCE", len(first))] * odd
    assert kernels.first_odd_reference.dispatcher(buf) == kernels.first_odd_reference.plainly(buf)


@pytest.mark.recorded
def test_directories_and_diffs_are_checked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary arrays for all directories together would need a lot of memory."""
    sizes = []
    slots_of = IndexArrays.slots_of

    def noted(arrays: IndexArrays, ids: Ids) -> Ids:
        sizes.append(ids.size)
        return slots_of(arrays, ids)

    path = next(each for each in reversed(IMAGES) if "snapshot" in str(each))
    with ImageFile.open(path, verify_md5=False) as image:
        index = ImageIndex(image)
        owners = index.snapshot_index.owners
        monkeypatch.setattr("image_tools.loadable.check._PIECE", 2)
        monkeypatch.setattr(IndexArrays, "slots_of", noted)
        check_loadable(image, index)
        assert sum(sizes) == index.arrays.directory_ids.size + owners.size
        assert (owners.size > 2, max(sizes)) == (True, 2)
        index.snapshot_index.kinds[-1] = 3 - index.snapshot_index.kinds[-1]
        with pytest.raises(
            RecordError, match=f"the snapshot diffs of inode {owners[-1]} belong to another type of inode"
        ):
            check_loadable(image, index)


def test_an_image_with_snapshots_must_have_all_snapshot_sections() -> None:
    header = encode_delimited(pb.SnapshotSection(snapshotCounter=1, numSnapshots=1))
    sections = {"SNAPSHOT": np.frombuffer(header, np.uint8), "SNAPSHOT_DIFF": np.zeros(0, np.uint8)}
    assert [each.section for each in load_faults(sections.get, NEWEST)] == ["INODE_REFERENCE"]
    assert [each.section for each in load_faults({"SNAPSHOT": sections["SNAPSHOT_DIFF"]}.get, NEWEST)] == ["SNAPSHOT"]
