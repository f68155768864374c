"""A segment is read before it is stored: the filter of its paths, large operations, and undecodable operations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from errno import ENOSPC
from pathlib import Path
from unittest import mock
from zlib import crc32

import pytest

from archive import storing
from archive.archive import Archive, ObjectWriter
from archive.catalogue import EDITS, MAIN
from archive.fetching import fetch_segment
from archive.path_filter import PathFilterBuilder, may_contain
from archive.storing import EditsPart, position_after, read_part, store_segment
from hadoop_common.file_faults import FileFaultError
from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.storage_info import parse_version
from journal.binary_codec import encode_op
from journal.errors import CorruptOpError
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp, TimesOp
from journal.segment_file import EditLogSegment, map_file
from journal.segment_format import HEADER_SIZE, encode_header
from tests.archive.storage import VERSION
from tests.engine.image_builder import HADOOP3, numbered
from tests.engine.op_makers import add

HADOOP2 = -60


def written(folder: Path, ops: Sequence[EditOp], layout: int = HADOOP3, bad: int = -1) -> EditLogSegment:
    """Return a segment from transaction 1 on; byte `bad` of its content is set to 0xFF."""
    path = folder / segment_name(1, len(ops))
    numbered(ops, 0)
    content = bytearray(b"".join(encode_op(op, HADOOP3) for op in ops))
    if bad >= 0:
        content[bad] = 0xFF
        content[-4:] = crc32(content[:-4]).to_bytes(4, "big")
    path.write_bytes(encode_header(layout) + content)
    return EditLogSegment(1, len(ops), path)


def part_of(segment: EditLogSegment) -> EditsPart:
    with map_file(segment.path) as content:
        part = read_part(segment, content)
    assert part is not None
    return part


def test_undecodable_path_is_an_error_with_file_and_offset(tmp_path: Path) -> None:
    op = TimesOp(txid=1, path="/abc", mtime=1, atime=1)
    segment = written(tmp_path, [op], bad=encode_op(op, HADOOP3).index(b"/abc") + 2)
    with pytest.raises(CorruptOpError) as caught:
        part_of(segment)
    assert (caught.value.file, caught.value.offset, caught.value.txid) == (str(segment.path), HEADER_SIZE, 1)


def test_hadoop_3_operations_in_a_hadoop_2_log_are_archived_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The archive has the bytes that the NameNode wrote, but no restore can replay them."""
    ops = [StartLogSegmentOp(txid=0), add("/a", 16400), add("/b", 16401), EndLogSegmentOp(txid=0)]
    with caplog.at_level(logging.WARNING):
        assert part_of(written(tmp_path, ops)).last == len(ops)
        assert not caplog.messages
        assert part_of(written(tmp_path, ops, HADOOP2)).last == len(ops)
    (message,) = caplog.messages
    assert "archived an operation that a restore cannot replay" in message
    assert "txid 2" in message
    assert "; next: The bytes are as they were written" in message


def test_operations_after_a_large_one_are_read_in_chunks(tmp_path: Path) -> None:
    ops = [TimesOp(txid=0, path=path, mtime=1, atime=1) for path in ("/a", "/" + "b" * 900, *["/c"] * 20)]
    segment = written(tmp_path, ops)
    whole = part_of(segment)
    add_op = PathFilterBuilder.add
    with (
        mock.patch.object(storing, "_STEP", 500),
        mock.patch.object(PathFilterBuilder, "add", autospec=True, side_effect=add_op) as decoded,
    ):
        assert part_of(segment) == whole
    assert decoded.call_count == 1


def test_operations_without_paths_have_an_empty_filter(tmp_path: Path) -> None:
    ops = [StartLogSegmentOp(txid=0), EndLogSegmentOp(txid=0)]
    assert part_of(written(tmp_path, ops)).path_filter == b""
    root = part_of(written(tmp_path, [TimesOp(txid=0, path="/", mtime=1, atime=1)])).path_filter
    assert may_contain(root, "/")


@mock.patch.object(storing, "FRAME_SIZE", 300)
@mock.patch.object(storing, "_STEP", 500)
@pytest.mark.parametrize("before", [0, 7])
def test_segment_is_compressed_while_it_is_read(archive: Archive, tmp_path: Path, before: int) -> None:
    """Frames end at positions that the reader has passed, even in a part that begins later."""
    archive.adopt(parse_version(VERSION.encode(), ""))
    ops = [TimesOp(txid=0, path=f"/{number}", mtime=1, atime=1) for number in range(50)]
    segment = written(tmp_path, ops)
    with map_file(segment.path) as content:
        start, first = position_after(segment, content, before) if before else (HEADER_SIZE, 1)
        record = store_segment(archive, segment, content, start, first, MAIN)
        assert record is not None
        (tmp_path / "out").mkdir()
        stored = fetch_segment(archive, record, tmp_path / "out", 50).path.read_bytes()
        assert stored == bytes(content[:HEADER_SIZE]) + bytes(content[start:])
    with archive.reading(record.name) as reader:
        sizes = [each.size for each in reader.footer.frames]
    assert set(sizes[:-1]) == {300}
    assert len(sizes) > 5


def test_no_object_is_stored_for_an_empty_or_damaged_segment(archive: Archive, tmp_path: Path) -> None:
    archive.adopt(parse_version(VERSION.encode(), ""))
    op = TimesOp(txid=1, path="/abc", mtime=1, atime=1)
    damaged = written(tmp_path, [op], bad=encode_op(op, HADOOP3).index(b"/abc") + 2)
    opened = EditLogSegment(1, None, tmp_path / inprogress_name(1))
    opened.path.write_bytes(encode_header(HADOOP3))
    with map_file(damaged.path) as content, pytest.raises(CorruptOpError):
        store_segment(archive, damaged, content, HEADER_SIZE, 1, MAIN)
    with map_file(opened.path) as content:
        assert store_segment(archive, opened, content, HEADER_SIZE, 1, MAIN) is None
    assert not list(archive.store.sizes(EDITS))
    assert not list(archive.store.incoming())


def test_error_while_compressing_is_raised(archive: Archive, tmp_path: Path) -> None:
    archive.adopt(parse_version(VERSION.encode(), ""))
    segment = written(tmp_path, [TimesOp(txid=0, path="/a", mtime=1, atime=1)])
    full = OSError(ENOSPC, "No space left on device")
    with (
        map_file(segment.path) as content,
        mock.patch.object(ObjectWriter, "add", side_effect=full),
        pytest.raises(FileFaultError, match="incoming cannot be written: No space left"),
    ):
        store_segment(archive, segment, content, HEADER_SIZE, 1, MAIN)
    assert not list(archive.store.sizes(EDITS))
