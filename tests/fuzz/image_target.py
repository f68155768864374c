"""Invariants for any bytes read as an fsimage: a typed error, or the records that protobuf reads."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import Message

from hadoop_common.errors import HdfsError
from image_format.index import DirectoryChanges, ImageIndex
from image_format.inode_table import InodeTable
from image_format.kernels.inode import UNKNOWN_FIELDS
from image_format.layout import LayoutVersion, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import StringKind
from image_format.summary import SECTIONS
from image_format.varint import parse_message, read_record
from tests.fuzz.scratch import Scratch
from tests.fuzz.verdict import check_error

_NO_IDS = np.zeros(0, np.int64)
# the index reads these sections
_INDEXED = ("INODE", "INODE_DIR")


def check_image(data: bytes, scratch: Scratch) -> bool:
    """Read all of `data` as an image; return False for a typed error.

    Raises:
        AssertionError: something was misread.
    """
    try:
        with ImageFile.open(scratch.file("fsimage", data), verify_md5=False) as image:
            _check_sections(image)
            _check_index(ImageIndex(image))
    except HdfsError as error:
        check_error(error)
        return False
    return True


def _check_sections(image: ImageFile) -> None:
    table = image.string_table()
    assert table.encode() == bytes(image.section_bytes("STRING_TABLE"))
    assert table.lookup(0, StringKind.USER) is None
    assert table.lookup(table.serial("a new one", StringKind.USER), StringKind.USER) == "a new one"
    for name, kinds in SECTIONS.items():
        if name in _INDEXED or image.section(name) is None:
            continue
        for number, record in enumerate(image.records(name)):
            kind = kinds.record if number or kinds.header is None else kinds.header
            if kind is not None:
                assert parse_message(kind, record, image.place(name)).IsInitialized()


def _check_index(index: ImageIndex) -> None:
    names = _check_inodes(index)
    for directory_id in index.directory_ids.tolist():
        try:
            _check_directory(index, directory_id, names)
        except HdfsError as error:
            check_error(error)


def _check_inodes(index: ImageIndex) -> dict[int, bytes]:
    """Return the names of the intact records by id."""
    table = InodeTable(index.layout_version, index.place("INODE"))
    names = {}
    for slot, offset in enumerate(index.offsets.all().tolist()):
        try:
            row = table.load(index.inode_buffer, offset, slot)
        except HdfsError:
            continue
        unknown = bool(table.flags[row] & UNKNOWN_FIELDS)
        try:
            expected = parse_message(pb.INode, read_record(index.inode_buffer.data, offset))
        except HdfsError:
            assert unknown, "protobuf refuses a record that the table accepted"
            continue
        assert index.slot(expected.id) == slot
        assert index.name(expected.id) == table.name(row) == expected.name
        names[expected.id] = expected.name
        if not unknown:
            _normalize(expected, index.layout_version)
            encoded = table.encode(np.array([row], np.int64)).record(0)
            _assert_same(expected, parse_message(pb.INode, read_record(memoryview(encoded))))
    return names


def _normalize(inode: pb.INode, layout_version: int) -> None:
    """Remove fields that a NameNode does not read: fields newer than the layout, and all quotas of a type except the
    last.
    """
    quotas = inode.directory.typeQuotas.quotas
    kept = list({quota.storageType: quota for quota in quotas}.values())
    if len(kept) < len(quotas):
        inode.directory.typeQuotas.ClearField("quotas")
        inode.directory.typeQuotas.quotas.extend(kept)
    if not supports(LayoutVersion.BLOCK_STORAGE_POLICY, layout_version):
        inode.file.ClearField("storagePolicyID")
    if not supports(LayoutVersion.ERASURE_CODING, layout_version):
        inode.file.ClearField("blockType")


def _assert_same(expected: Message, actual: Message) -> None:
    """Compare messages as a NameNode reads them: an absent field equals its default."""
    for field in expected.DESCRIPTOR.fields:
        left, right = getattr(expected, field.name), getattr(actual, field.name)
        if field.is_repeated:
            assert len(left) == len(right), field.full_name
        pairs = zip(left, right, strict=True) if field.is_repeated else [(left, right)]
        for one, other in pairs:
            if field.message_type:
                _assert_same(one, other)
            else:
                assert one == other, field.full_name


def _check_directory(index: ImageIndex, directory_id: int, names: dict[int, bytes]) -> None:
    children = index.children(directory_id).tolist()
    index.reference_children(directory_id)
    known = [child for child in children if child in names]
    for child in known if len(known) == len(children) else []:
        assert index.child(directory_id, names[child]) == child
    if not index.has_unknown_fields(directory_id):
        unchanged = DirectoryChanges(
            np.array([directory_id], np.int64),
            np.zeros(0, np.uint8),
            np.zeros((0, 2), np.int64),
            _NO_IDS,
            np.zeros(2, np.int64),
        )
        data, spans = index.merge_directories(unchanged, index.directory_spans(unchanged.directory_ids))
        entry = pb.DirEntry()
        if data.size:
            entry = parse_message(type(entry), read_record(data.data))
            assert entry.parent == directory_id
        assert list(entry.children) == children
        assert spans.tolist() == [[0, data.size]]
    index.forget_directory(directory_id)
