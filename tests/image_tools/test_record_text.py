"""The kernel prints records as Python does, and leaves unusual and damaged records to Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.kernels.text import valid_utf8
from image_format.kernels.wire import read_varint
from image_format.permission import AclScope, AclType, pack_acl_entry, pack_permission, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_tools.dump import record_text
from image_tools.dump.delimited import dump_delimited
from image_tools.dump.json_lines import dump_json
from image_tools.dump.kernels.program import DONE, UNUSUAL
from image_tools.dump.kernels.text import write_records
from image_tools.dump.records import ImageRecords
from image_tools.dump.xml_dump import XmlForm, dump_xml
from tests.depth import examples
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import joined, open_image

FORMS = {
    "xml of 2.7": lambda records: dump_xml(records, XmlForm.RELEASE_2),
    "xml of 3.x": lambda records: dump_xml(records, XmlForm.RELEASE_3),
    "json": dump_json,
    "delimited": dump_delimited,
    "delimited of 3.x": lambda records: dump_delimited(records, ",", release_3=True),
}
STRINGS = StringTable.empty(0)
USER, GROUP = STRINGS.serial("u<é>", StringKind.USER), STRINGS.serial('g"&', StringKind.GROUP)
XATTR = STRINGS.serial("a'b", StringKind.XATTR)

_UINT64 = st.integers(0, (1 << 64) - 1)
_UINT32 = st.integers(0, (1 << 32) - 1)
_TIMES = st.one_of(st.integers(0, 5_000_000_000_000), _UINT64)
_NAMES = st.one_of(
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("ab&<>\"',\\\n\x01é\ufffe\uffff\ufffd😀", max_size=9).map(str.encode),
    st.binary(max_size=9),
    # near U+FFFE and U+FFFF
    st.binary(max_size=2).map(lambda end: b"\xef\xbf" + end),
)
_PERMISSIONS = st.builds(
    pack_permission, st.sampled_from([0, USER]), st.sampled_from([0, GROUP]), st.integers(0, 0xFFFF)
)
_ACLS = st.none() | st.builds(
    pb.AclFeatureProto,
    entries=st.lists(
        st.builds(lambda bits: pack_acl_entry(AclScope.ACCESS, AclType.USER, USER, bits), st.integers(0, 7)), max_size=3
    ),
)
_XATTRS = st.none() | st.builds(
    pb.XAttrFeatureProto,
    xAttrs=st.lists(
        st.builds(pb.XAttrCompactProto, name=st.just(pack_xattr_name(0, XATTR)), value=st.none() | _NAMES), max_size=3
    ),
)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


_FILES = st.builds(
    pb.INodeFile,
    replication=some(_UINT32),
    modificationTime=some(_TIMES),
    accessTime=some(_TIMES),
    preferredBlockSize=some(_UINT64),
    permission=some(_PERMISSIONS),
    blocks=st.lists(st.builds(pb.BlockProto, blockId=_UINT64, genStamp=_UINT64, numBytes=some(_UINT64)), max_size=4),
    fileUC=some(st.builds(pb.FileUnderConstructionFeature, clientName=some(st.text(max_size=5)))),
    acl=_ACLS,
    xAttrs=_XATTRS,
    storagePolicyID=some(_UINT32),
    blockType=some(st.sampled_from([pb.CONTIGUOUS, pb.STRIPED])),
    erasureCodingPolicyID=some(_UINT32),
)
_QUOTA = st.builds(pb.QuotaByStorageTypeEntryProto, storageType=st.integers(1, 4), quota=_UINT64)
_DIRECTORIES = st.builds(
    pb.INodeDirectory,
    modificationTime=some(_TIMES),
    nsQuota=some(_UINT64),
    dsQuota=some(_UINT64),
    permission=some(_PERMISSIONS),
    acl=_ACLS,
    xAttrs=_XATTRS,
    typeQuotas=some(st.builds(pb.QuotaByStorageTypeFeatureProto, quotas=st.lists(_QUOTA, max_size=3))),
)
_LINKS = st.builds(pb.INodeSymlink, permission=some(_PERMISSIONS), target=some(_NAMES), accessTime=some(_TIMES))
_INODES = st.one_of(
    st.builds(pb.INode, type=st.just(pb.INode.FILE), id=_UINT64, name=some(_NAMES), file=some(_FILES)),
    st.builds(pb.INode, type=st.just(pb.INode.DIRECTORY), id=_UINT64, name=_NAMES, directory=_DIRECTORIES),
    st.builds(pb.INode, type=st.just(pb.INode.SYMLINK), id=_UINT64, name=_NAMES, symlink=_LINKS),
)
_REFERENCES = st.builds(pb.INodeReference, referredId=some(_UINT64), name=some(_NAMES), lastSnapshotId=some(_UINT32))


def in_python(*arguments: Any) -> tuple[int, int, int, int]:
    """Stand-in for `write_records` that returns every record as `UNUSUAL`, so that Python writes it."""
    buf, pos, _, at, slot, _, _, _, paths = arguments[:9]
    while paths.parents.size and slot != paths.root and pos < buf.size:
        row = paths.parents[slot]
        if row >= 0 and paths.in_tree[row]:
            break
        size, start = read_varint(buf, pos, buf.size)
        pos, slot = start + size, slot + 1
    return pos, at, slot, UNUSUAL if pos < buf.size else DONE


def both_ways(path: Path, form: str) -> Iterator[str]:
    """Return the text or the error."""
    for write in (write_records, in_python):
        with mock.patch.object(record_text, "write_records", write), open_image(path) as image:
            try:
                yield joined(FORMS[form](ImageRecords(image)))
            except RecordError as error:
                yield str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def image_of(folder: Path, inodes: list[pb.INode], references: list[pb.INodeReference], form: str) -> Path:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"", directory=pb.INodeDirectory())
    if form.startswith("delimited"):
        for number, inode in enumerate(inodes):
            inode.id = 20000 + number
        references = []
    sections = dict(minimal_sections()) | {"STRING_TABLE": STRINGS.encode()}
    sections["INODE"] = delimited([pb.INodeSection(numInodes=len(inodes) + 1), *inodes, root])
    entry = pb.DirEntry(parent=16385, children=[inode.id for inode in inodes])
    sections["INODE_DIR"] = delimited([entry])
    sections["INODE_REFERENCE"] = delimited(references)
    return store(folder, build_image(list(sections.items())))


@pytest.mark.parametrize("form", FORMS)
@given(inodes=st.lists(_INODES, max_size=4), references=st.lists(_REFERENCES, max_size=2))
@examples(60)
def test_the_kernel_prints_the_same_text_as_python(
    folder: Path, form: str, inodes: list[pb.INode], references: list[pb.INodeReference]
) -> None:
    by_kernel, by_python = both_ways(image_of(folder, inodes, references, form), form)
    assert by_kernel == by_python


@pytest.mark.parametrize("form", ["xml of 3.x", "json"])
@given(inode=_INODES, data=st.data())
@examples(60)
def test_kernel_and_python_treat_damage_alike(folder: Path, form: str, inode: pb.INode, data: st.DataObject) -> None:
    record = bytearray(inode.SerializeToString())
    record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    sections = dict(minimal_sections()) | {"STRING_TABLE": STRINGS.encode()}
    head = encode_delimited(pb.INodeSection(numInodes=1))
    sections["INODE"] = head + bytes([len(record) & 0x7F | 0x80, len(record) >> 7]) + bytes(record)
    by_kernel, by_python = both_ways(store(folder, build_image(list(sections.items()))), form)
    assert by_kernel == by_python


def test_a_record_may_be_longer_than_the_buffer(folder: Path) -> None:
    children = list(range(1, 200_000))
    sections = dict(minimal_sections())
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=children, refChildren=[1, 2])])
    path = store(folder, build_image(list(sections.items())))
    by_kernel, by_python = both_ways(path, "xml of 3.x")
    assert by_kernel == by_python
    assert by_kernel.count("<child>") == len(children)


def test_the_word_cache_is_cleared_when_it_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_text, "_MAX_WORDS", 100)
    inodes = []
    for number in range(3000):
        inode = pb.INode(type=pb.INode.FILE, id=number, name=b"f")
        inode.file.permission = pack_permission(USER, GROUP, number % 2000)
        inodes.append(inode)
    by_kernel, by_python = both_ways(image_of(folder, inodes, [], "json"), "json")
    assert by_kernel == by_python


@given(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_utf8_validation_equals_that_of_python(data: bytes) -> None:
    try:
        data.decode("utf-8")
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert valid_utf8(np.frombuffer(data, np.uint8), 0, len(data)) == valid
