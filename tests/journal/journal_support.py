"""Shared parts of the tests of the edit log: the recorded cases and strategies for operations."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from journal import attribute_kinds, compound_kinds, kinds, ops, record_kinds
from journal.binary_codec import encode_op
from journal.journal import Journal
from journal.operation import EditOp
from journal.segment_format import encode_header

RECORDED = Path(__file__).resolve().parents[1] / "recorded"
CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"
NEWEST = -67


def segment_of(case: str) -> Path:
    """Return the only segment of a recorded case."""
    (path,) = (RECORDED / case / "before").glob("edits_*")
    return path


WHOLE = segment_of("hadoop-2.7.3/renames")
NAME = WHOLE.name


@functools.cache
def recorded_segments() -> list[Path]:
    """Return every undamaged segment of both releases."""
    return sorted(path for path in RECORDED.glob("**/before/edits_*") if CORRUPT not in path.parents)


@functools.cache
def recorded_xml() -> list[Path]:
    return sorted(RECORDED.glob("**/edits.xml.gz"))


def case_id(path: Path) -> str:
    return str(path.relative_to(RECORDED).parent)


def verdict(case: Path) -> dict[str, Any]:
    """Return the recorded result of a NameNode with a damaged folder."""
    return json.loads((case / "case.json").read_text())["verdict"]["NameNode"]


def segment_bytes(operations: list[EditOp], layout_version: int = NEWEST) -> bytes:
    return encode_header(layout_version) + b"".join(encode_op(op, layout_version) for op in operations)


def unreadable_op(kind: str, txid: int) -> bytes:
    """Return a complete operation of layout -63, with a correct checksum, that no Hadoop release writes."""
    delete = encode_op(ops.DeleteOp(txid=txid, path="/a", timestamp=1), -63)[:-4]
    rename = encode_op(ops.RenameOp(txid=txid, src="/a", dst="/b", timestamp=1, options=b"\x01"), -63)[:-4]
    frame = {
        "opcode": b"\x78" + delete[1:],
        "further field": delete + bytes(4),
        "missing field": delete[:-3],
        "rename option": rename.replace(b"\0\0\0\x01\x01", b"\0\0\0\x01\x09"),
    }[kind]
    frame = frame[:1] + (len(frame) - 1).to_bytes(4, "big") + frame[5:]
    return frame + crc32(frame).to_bytes(4, "big")


def numbered(operations: list[EditOp], first: int) -> list[EditOp]:
    for txid, op in enumerate(operations, first):
        op.txid = txid
    return operations


def count_of(journal: Journal, from_txid: int, *, in_progress: bool = False) -> int:
    """Return the number of transactions from `from_txid` on that a reader of `journal` finds."""
    found = journal.segments(from_txid, in_progress=in_progress)
    return found[-1].last - from_txid + 1 if found else 0


def some_ops(first: int = 1, count: int = 8) -> list[EditOp]:
    """Return the operations of a segment."""
    middle = [ops.DeleteOp(path=f"/{number}", timestamp=number) for number in range(count - 2)]
    return numbered([ops.StartLogSegmentOp(), *middle, ops.EndLogSegmentOp()], first)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


units = st.text(st.characters(), max_size=40)  # lone surrogates included
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
modes = st.integers(0, 0xFFFF)
# differences between compact blocks must fit in 64 bits
lengths = st.integers(0, (1 << 62))
blocks = st.builds(ops.Block, signed(64), lengths, lengths)
block_lists = st.lists(blocks, max_size=4).map(tuple)


def joined(text: str) -> str:
    """Return `text` with surrogate pairs as single characters, as a reader returns it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


strings = units.map(joined)


def acl_entries(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[ops.AclEntry, ...]]:
    entry = st.builds(ops.AclEntry, st.integers(0, 3), st.integers(0, 1), st.integers(0, 7), st.none() | names)
    return st.lists(entry, max_size=4).map(tuple)


xattrs = st.lists(st.builds(ops.XAttr, st.integers(0, 4), texts, st.none() | st.binary(max_size=20)), max_size=3).map(
    tuple
)

STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {
    kinds.BYTE: signed(8),
    kinds.BOOL: st.booleans(),
    kinds.SHORT: signed(16),
    kinds.INT: signed(32),
    kinds.LONG: signed(64),
    kinds.STR: strings,
    kinds.MODE: modes,
    kinds.NULLABLE_STR: st.none() | strings.filter(bool),
    kinds.CLIENT_ID: st.just(b"") | st.binary(min_size=16, max_size=16),
    kinds.RENAME_OPTIONS: st.lists(st.integers(0, 2), max_size=3).map(bytes),
    kinds.STR_LIST: st.lists(strings, max_size=4).map(tuple),
    compound_kinds.BLOCK_ARRAY: st.lists(st.builds(ops.Block, signed(64), signed(64), signed(64)), max_size=4).map(
        tuple
    ),
    compound_kinds.COMPACT_BLOCKS: block_lists,
    compound_kinds.TRUNCATE_BLOCK: st.none() | blocks,
    compound_kinds.PERMISSION_STATUS: st.builds(ops.PermissionStatus, texts, texts, modes),
    attribute_kinds.ACL_ENTRIES: acl_entries(strings).map(lambda value: value or None),
    attribute_kinds.XATTRS: xattrs,
    record_kinds.DELEGATION_TOKEN: st.builds(
        ops.DelegationTokenIdent, texts, texts, texts, signed(64), signed(64), signed(32), signed(32)
    ),
    record_kinds.DELEGATION_KEY: st.builds(
        ops.DelegationKey, signed(32), signed(64), st.none() | st.binary(max_size=20)
    ),
    record_kinds.CACHE_DIRECTIVE: st.builds(
        ops.CacheDirectiveInfo,
        signed(64),
        st.none() | strings,
        st.none() | signed(16),
        st.none() | strings,
        st.none() | signed(64),
    ),
    record_kinds.CACHE_POOL: st.builds(
        ops.CachePoolInfo,
        strings,
        st.none() | strings,
        st.none() | strings,
        st.none() | modes,
        st.none() | signed(64),
        st.none() | signed(64),
        st.none() | signed(16),
    ),
    record_kinds.EXTRA_OPTIONS: st.lists(st.tuples(strings, strings), max_size=3).map(tuple),
}
PART_STRATEGIES: dict[tuple[Any, str], st.SearchStrategy[Any]] = {
    (attribute_kinds.ACL_EDIT_LOG, "src"): texts,
    (attribute_kinds.ACL_EDIT_LOG, "acl_entries"): acl_entries(texts),
    (attribute_kinds.XATTR_EDIT_LOG, "src"): texts,
    (attribute_kinds.XATTR_EDIT_LOG, "xattrs"): xattrs,
}


@st.composite
def operations(draw: st.DrawFn, cls: type[EditOp] | None = None, layout_version: int = NEWEST) -> EditOp:
    """Draw an operation whose values are unchanged by encoding in `layout_version`."""
    cls = cls or draw(st.sampled_from(list(ops.OPERATIONS.values())))
    members = {
        item.name: draw(PART_STRATEGIES.get((item.part, item.name), STRATEGIES[item.kind]))
        for item in cls.fields
        if item.present_in(layout_version)
    }
    if cls is ops.MkdirOp and members["atime"] == members["timestamp"]:
        members["atime"] = None
    return cls(txid=draw(st.integers(0, (1 << 63) - 1)), **members)
