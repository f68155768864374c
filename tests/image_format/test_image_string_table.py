from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin, ImageFormatError, RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import MAX_SERIAL, StringKind, StringTable
from tests.image_format.image_support import delimited, image_id, recorded_images

PLACE = BufferOrigin("fsimage_1", "STRING_TABLE")
NAMED = (StringKind.USER, StringKind.GROUP, StringKind.XATTR)
texts = st.text(st.characters(codec="utf-8", exclude_categories=()), max_size=8)
pairs = st.lists(st.tuples(texts, st.sampled_from(NAMED)), max_size=20)


def section(entries: list[tuple[int, bytes]], mask_bits: int = 0, count: int | None = None) -> bytes:
    header = pb.StringTableSection(numEntry=len(entries) if count is None else count)
    if mask_bits:
        header.maskBits = mask_bits
    return delimited([header, *(pb.StringTableEntry(id=number, str=text) for number, text in entries)])


@pytest.mark.parametrize("mask_bits", [0, 3])
@given(first=pairs, second=pairs)
def test_round_trip(mask_bits: int, first: list[tuple[str, StringKind]], second: list[tuple[str, StringKind]]) -> None:
    table = StringTable.empty(mask_bits)
    serials = [table.serial(text, kind) for text, kind in first]
    again = StringTable(table.encode())
    assert not again.changed
    assert [again.lookup(serial, kind) for serial, (_, kind) in zip(serials, first, strict=True)] == [
        text for text, _ in first
    ]
    assert [again.serial(text, kind) for text, kind in first] == serials
    before = again.encode()
    later = [again.serial(text, kind) for text, kind in second]
    assert again.changed == bool(
        set(second) - set(first) if mask_bits else {t for t, _ in second} - {t for t, _ in first}
    )
    final = StringTable(again.encode())
    assert [final.serial(text, kind) for text, kind in (*first, *second)] == [*serials, *later]
    assert len(final) == len(again)
    assert again.changed or again.encode() == before


def test_one_id_space_shares_serials_between_kinds() -> None:
    table = StringTable(section([(2, b"supergroup"), (1, b"hdfs")]))
    assert table.serial("hdfs", StringKind.GROUP) == table.serial("hdfs", StringKind.USER) == 1
    assert table.serial("alice", StringKind.XATTR) == 3
    assert table.lookup(3, StringKind.USER) == "alice"
    assert table.encode() == section([(2, b"supergroup"), (1, b"hdfs"), (3, b"alice")])


def test_ids_may_have_gaps() -> None:
    """NameNodes of Hadoop 2.10 and 3.1, which can number a string twice, write such a table."""
    table = StringTable(section([(1, b"hdfs"), (4, b"supergroup")]))
    assert (table.lookup(4, StringKind.GROUP), len(table)) == ("supergroup", 2)
    assert [table.serial(text, StringKind.USER) for text in ("supergroup", "alice")] == [4, 5]
    assert table.encode() == section([(1, b"hdfs"), (4, b"supergroup"), (5, b"alice")])


@pytest.mark.parametrize("number", [129, MAX_SERIAL])
def test_an_id_far_beyond_the_other_ids_is_damage(number: int) -> None:
    """A conversion would fill the gap with millions of strings."""
    with pytest.raises(RecordError, match=f"string id {number} is repeated or outside the table's range"):
        StringTable(section([(1, b"hdfs"), (number, b"supergroup")]))


def test_an_expanded_table_has_an_id_space_for_each_kind() -> None:
    table = StringTable(section([(0x20000001, b"hdfs"), (0x20000002, b""), (0x40000001, b"hdfs")], 3))
    assert table.lookup(2, StringKind.USER) == ""
    assert table.lookup(1, StringKind.GROUP) == "hdfs"
    assert table.serial("a", StringKind.XATTR) == 1
    assert table.serial("a", StringKind.USER) == 3
    assert table.encode() == section(
        [(0x20000001, b"hdfs"), (0x20000002, b""), (0x40000001, b"hdfs"), (0x60000001, b"a"), (0x20000003, b"a")], 3
    )


def test_unknown_serials_are_an_error_and_serial_0_is_null() -> None:
    table = StringTable(section([(1, b"hdfs")]), PLACE)
    assert table.lookup(0, StringKind.USER) is None
    with pytest.raises(RecordError, match="fsimage_1, section STRING_TABLE: no user has serial 2"):
        table.lookup(2, StringKind.USER)


def test_bytes_that_are_not_utf8_survive() -> None:
    table = StringTable(section([(1, b"\xff\xfe")]))
    text = table.lookup(1, StringKind.USER)
    assert text == "\udcff\udcfe"
    assert table.serial(text, StringKind.USER) == 1
    table.serial("\udc80", StringKind.USER)
    assert table.encode() == section([(1, b"\xff\xfe"), (2, b"\x80")])


def test_unknown_fields_survive() -> None:
    data = delimited([pb.StringTableSection(numEntry=1)])
    data = bytes([data[0] + 3]) + data[1:] + b"\xe0\x03\x07" + b"\x08\x08\x01\x12\x01a\xe0\x03\x09"
    table = StringTable(data)
    assert table.encode() == data
    table.serial("b", StringKind.USER)
    assert table.encode() == b"\x05\x08\x02\xe0\x03\x07" + data[6:] + b"\x05\x08\x02\x12\x01b"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends within a varint"),
        (section([(1, b"a")], count=2), "should have 2 entries but has 1"),
        (section([(1, b"a"), (2, b"b")], count=1), "should have 1 entry but has 2"),
        (section([(0, b"a")]), "id 0 is repeated or outside"),
        (section([(1 << 24, b"a")]), "id 16777216 is repeated or outside"),
        (section([(1, b"a"), (1, b"a")]), "id 1 is repeated or outside"),
        (section([(0x20000000, b"a")], 3), "id 536870912 is repeated or outside"),
        (section([(0x80000001, b"a")], 3), "id 2147483649 is repeated or outside"),
        (section([(1, b"a")], 4), "maskBits 4 exceeds 3"),
        (section([(1, b"a")])[:-1], "does not fit"),
    ],
)
def test_damaged_tables_are_an_error(data: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message) as raised:
        StringTable(data, PLACE)
    assert raised.value.message.startswith("fsimage_1, section STRING_TABLE, offset ")


@pytest.mark.parametrize("kind", NAMED)
def test_a_table_without_free_serials_is_an_error(kind: StringKind) -> None:
    table = StringTable(section([(MAX_SERIAL | kind << 29, b"last")], 3))
    with pytest.raises(RecordError, match="no serial is left"):
        table.serial("one more", kind)
    assert table.serial("last", kind) == MAX_SERIAL
    assert not table.changed


def test_a_narrow_mask_has_no_serials_for_some_kinds() -> None:
    table = StringTable(section([(0x80000001, b"hdfs")], 1))
    assert table.lookup(1, StringKind.USER) == "hdfs"
    with pytest.raises(RecordError, match="no serial is left for the group"):
        table.serial("g", StringKind.GROUP)


@given(st.binary(max_size=80))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        table = StringTable(data)
    except ImageFormatError:
        return
    assert table.encode() == data


@pytest.mark.recorded
@pytest.mark.parametrize("path", recorded_images(), ids=image_id)
def test_recorded_tables_round_trip_and_accept_new_strings(path: object) -> None:
    with ImageFile.open(path) as image:  # type: ignore[arg-type]
        table = image.string_table()
        source = bytes(image.section_bytes("STRING_TABLE"))
        assert table.encode() == source
        added = table.serial("somebody new", StringKind.USER)
        assert table.changed
        again = StringTable(table.encode())
        assert again.lookup(added, StringKind.USER) == "somebody new"
