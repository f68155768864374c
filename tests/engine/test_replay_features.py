"""Kernels change inodes of the image that have ACLs and xattrs, and leave the ACLs and xattrs unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UnsupportedOperationError
from engine.replay.kernels.features import features_mark
from engine.replay.kernels.state import UNUSUAL
from image_format.inode_features import has_unknown_fields
from image_format.kernels.inode import NO_ACL
from image_format.kernels.jit import kernel
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_varint
from journal.ops import EditOp
from tests.depth import examples
from tests.engine.image_builder import HADOOP2, LAYOUTS, ImageBuilder, merged
from tests.engine.op_makers import delete, mkdir, rename, set_permissions, times
from tests.engine.replay_scenes import base, needs_kernels, rare

KINDS = ("acl", "xattrs", "both")
NAMED = [(0, 0, 6, "bob"), (1, 0, 5, "")]


@kernel
def _features_mark(buf, offset):
    return features_mark(buf, offset)


def with_features(builder: ImageBuilder) -> ImageBuilder:
    """Add directories and files with an ACL, xattrs, or both to `base`; one of the files is open for writing."""
    entries = [builder.acl_entry(0, 0, 6, "bob"), builder.acl_entry(1, 0, 5)]
    defaults = [builder.acl_entry(kind, 1, 5) for kind in range(4)]
    for name in KINDS:
        directory = builder.directory(f"/old/{name}").directory
        file = builder.file(f"/old/{name}/f", open_by="them" if name == "both" else "").file
        if name != "xattrs":
            directory.acl.entries.extend([*entries, *defaults])
            file.acl.entries.extend(entries)
        if name != "acl":
            for body in (directory, file):
                body.xAttrs.xAttrs.add(name=builder.xattr_name(0, "key"), value=b"value")
                body.xAttrs.xAttrs.add(name=builder.xattr_name(0, "bare"))
    return builder


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_change_inodes_with_acls_and_xattrs(tmp_path: Path, layout: int) -> None:
    path = with_features(base(layout)).save(tmp_path)
    steps: list[EditOp] = [
        *(times(f"/old/{kind}/f", 4000) for kind in KINDS),
        *(set_permissions(f"/old/{kind}", 0o750) for kind in KINDS),
        *(mkdir(f"/old/{kind}/new", 20_001 + number) for number, kind in enumerate(KINDS)),
        rename("/old/acl/f", "/old/both/g"),
        delete("/old/xattrs/f"),
    ]
    # the first operation names an owner that is new to the kernels
    assert rare(path, [mkdir("/old/known", 20_000), *steps], layout) == []
    image = merged(path, mkdir("/old/known", 20_000), *steps)
    assert image.acl("/old/both/g") == image.acl("/old/both/f") == NAMED
    assert image.acl("/old/both")[:2] == image.acl("/old/acl")[:2] == NAMED
    assert image.acl("/old/acl/new")[-4:] == image.acl("/old/acl")[-4:]
    assert image.acl("/old/xattrs/new") == []
    assert image.xattrs("/old/xattrs") == image.xattrs("/old/both/f") == image.xattrs("/old/both") != []


@pytest.mark.parametrize("where", ["acl", "xattrs", "one of them"])
@pytest.mark.parametrize("path", ["/old/both/f", "/old/both"])
def test_edits_of_acls_and_xattrs_with_unknown_fields_are_refused(tmp_path: Path, where: str, path: str) -> None:
    builder = with_features(base(HADOOP2))
    inode = builder.inodes[path]
    body = inode.file if inode.HasField("file") else inode.directory
    parts = {"acl": body.acl, "xattrs": body.xAttrs, "one of them": body.xAttrs.xAttrs[1]}
    parts[where].MergeFromString(b"\x7a\x01A")
    image = builder.save(tmp_path)
    with pytest.raises(UnsupportedOperationError, match="fields that are unknown to this version"):
        merged(image, times("/old", 4000), times(path, 5000))


# ---- records of any form -----------------------------------------------------------------------------------------

UNKNOWN = st.sampled_from([b"", b"", b"\x7a\x01A", b"\x78\x05"])
ENTRY = st.integers(0, (1 << 32) - 1).map(lambda serial: serial.to_bytes(4, "little"))
PACKED = st.lists(ENTRY, max_size=3).map(lambda serials: _field(2, b"".join(serials)))
ACL = st.tuples(PACKED | ENTRY.map(lambda serial: b"\x15" + serial), UNKNOWN).map(b"".join)
XATTR = st.tuples(st.just(b"\x0d\1\0\0\0"), st.just(b"") | st.binary(max_size=3).map(lambda v: _field(2, v)), UNKNOWN)
XATTRS = st.tuples(st.lists(XATTR.map(lambda parts: _field(1, b"".join(parts))), max_size=3).map(b"".join), UNKNOWN)
QUOTAS = pb.QuotaByStorageTypeFeatureProto(
    quotas=[pb.QuotaByStorageTypeEntryProto(storageType=pb.DISK, quota=5)]
).SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content


@given(directory=st.booleans(), acl=st.none() | ACL, xattrs=st.none() | XATTRS.map(b"".join), quotas=st.booleans())
@examples(200)
def test_kernels_handle_only_records_with_known_features(
    directory: bool, acl: bytes | None, xattrs: bytes | None, quotas: bool
) -> None:
    message = pb.INodeDirectory if directory else pb.INodeFile
    numbers = {field.name: field.number for field in message.DESCRIPTOR.fields}
    fields = {"acl": acl, "xAttrs": xattrs, "typeQuotas": QUOTAS if quotas and directory else None}
    body = b"\x08\x05" + b"".join(_field(numbers[name], held) for name, held in fields.items() if held is not None)
    kind = "directory" if directory else "file"
    head = pb.INode(type=pb.INode.DIRECTORY if directory else pb.INode.FILE, id=5, name=b"n").SerializeToString()
    record = head + _field(pb.INode.DESCRIPTOR.fields_by_name[kind].number, body)
    found = int(_features_mark(np.frombuffer(b"\0" + encode_varint(len(record)) + record, np.uint8), 1))
    known = not has_unknown_fields(pb.INode.FromString(record)) and fields["typeQuotas"] is None
    if known and (acl is not None or xattrs is not None):
        assert found == (NO_ACL if acl is None else 0)
    else:
        assert found == UNUSUAL
    for end in range(1, len(record)):
        # a record that ends early must not be read beyond its end
        cut = np.frombuffer(b"\0" + encode_varint(end) + record[:end], np.uint8)
        assert int(_features_mark(cut, 1)) in (UNUSUAL, NO_ACL, 0)
