"""String table: users, groups and xattr names by serial number (fsimage.proto StringTableSection)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from hadoop_common.quantities import counted
from image_format.errors import BufferOrigin, RecordError
from image_format.proto.fsimage_pb2 import StringTableEntry, StringTableSection
from image_format.varint import encode_delimited, iter_records, parse_message, read_record

# Records contain serials of users, groups and xattr names in 24 bits.
MAX_SERIAL = (1 << 24) - 1
_MAX_MASK_BITS = 3
# Maximum number of NameNode threads that assign a serial to the same string at the same moment.
_RACING_THREADS = 64
_NOWHERE = BufferOrigin(section="STRING_TABLE")


def last_serial(count: int) -> int:
    """Return the largest possible serial in a table of `count` strings with one id space.

    Ids may be missing; see `StringTable`.
    """
    return min(MAX_SERIAL, _RACING_THREADS * count)


class StringKind(IntEnum):
    """Maps of an expanded table (SerialNumberManager); a table with maskBits 0 has one map for all strings."""

    GLOBAL = 0
    USER = 1
    GROUP = 2
    XATTR = 3


class StringTable:
    """Strings by serial, for look-up and appending; existing serials never change.

    With `mask_bits` 0, ids form the single space of layouts before -65; with 3, an id is `serial | kind << 29`. An id
    can be missing, because two threads of a NameNode may assign a serial to the same string (SerialNumberMap.get). This
    race can occur, for example, when Hadoop 2.10 loads an image in parallel. Text is decoded with surrogateescape, so
    that bytes that are not UTF-8 survive.

    Raises:
        RecordError: a record is damaged, numEntry differs from the number of entries, or an id is 0, repeated or out of
            range.
    """

    def __init__(self, section: memoryview | bytes, place: BufferOrigin = _NOWHERE) -> None:
        self._source = bytes(section)
        self._place = place
        data = memoryview(self._source)
        record = read_record(data, 0, place)
        self._header = parse_message(StringTableSection, record, place)
        self._entries_start = record.end
        self.mask_bits = int(self._header.maskBits)
        if self.mask_bits > _MAX_MASK_BITS:
            raise place.error(RecordError, f"maskBits {self.mask_bits} exceeds {_MAX_MASK_BITS}", record.offset)
        self._strings: dict[int, str] = {}
        self._serials: dict[tuple[int, str], int] = {}
        self._last: dict[int, int] = {}
        self._added: list[bytes] = []
        self._read_entries(data, record.end)

    @classmethod
    def empty(cls, mask_bits: int) -> StringTable:
        """Return a table without entries; `mask_bits` is 0 or 3."""
        header = StringTableSection(numEntry=0)
        if mask_bits:
            header.maskBits = mask_bits
        return cls(encode_delimited(header))

    def __len__(self) -> int:
        return len(self._strings)

    @property
    def changed(self) -> bool:
        """Whether a string was appended since the table was parsed."""
        return bool(self._added)

    def lookup(self, serial: int, kind: StringKind) -> str | None:
        """Return the string with a serial, or None for serial 0, the null string.

        Raises:
            RecordError: the table does not contain the serial.
        """
        if serial == 0:
            return None
        text = self._strings.get(self._id(serial, kind))
        if text is None:
            raise RecordError(
                f"no {kind.name.lower()} has serial {serial}", file=self._place.file, section=self._place.section
            )
        return text

    def serial(self, text: str, kind: StringKind) -> int:
        """Return the serial of a string, appending the string if it is missing.

        Raises:
            RecordError: the table is full, or has no map for that kind of string.
        """
        space = self._space(kind)
        serial = self._serials.get((space, text))
        return self._append(text, kind, space) if serial is None else serial

    def entries(self) -> Iterator[tuple[StringKind, int, str]]:
        """Yield (kind, serial, text) of every string, in the table's order; the kind is GLOBAL if maskBits is 0."""
        for number, text in self._strings.items():
            space, serial = self._split(number)
            yield StringKind(space), serial, text

    def find(self, text: str, kind: StringKind) -> int:
        """Return the serial of a string, or 0 if the string is missing."""
        return self._serials.get((self._space(kind), text), 0)

    def encode(self) -> bytes:
        """Encode the section: the unchanged entries of the source, followed by the appended entries."""
        if not self._added:
            return self._source
        header = StringTableSection()
        header.CopyFrom(self._header)
        header.numEntry = len(self._strings)
        return b"".join((encode_delimited(header), self._source[self._entries_start :], *self._added))

    def _space(self, kind: StringKind) -> int:
        return kind if self.mask_bits else 0

    def _shift(self) -> int:
        return 32 - self.mask_bits

    def _id(self, serial: int, kind: StringKind) -> int:
        return serial | self._space(kind) << self._shift()

    def _read_entries(self, data: memoryview, start: int) -> None:
        expected = int(self._header.numEntry)
        count = 0
        for record in iter_records(data, start, self._place):
            entry = parse_message(StringTableEntry, record, self._place)
            space, serial = self._split(entry.id)
            # Hadoop 2.7 to 2.9 and 3.0 load the table into an array of numEntry + 1 strings, and write no gaps.
            last = (1 << self._shift()) - 1 if self.mask_bits else last_serial(expected)
            if not 0 < serial <= last or space > StringKind.XATTR or entry.id in self._strings:
                text = f"string id {entry.id} is repeated or outside the table's range"
                raise self._place.error(RecordError, text, record.offset)
            self._put(entry.id, space, serial, entry.str.decode("utf-8", "surrogateescape"))
            count += 1
        if count != expected:
            raise self._place.error(
                RecordError, f"the table should have {counted(expected, 'entry')} but has {count}", 0
            )

    def _split(self, number: int) -> tuple[int, int]:
        if not self.mask_bits:
            return 0, number
        return number >> self._shift(), number & (1 << self._shift()) - 1

    def _put(self, number: int, space: int, serial: int, text: str) -> None:
        self._strings[number] = text
        self._serials.setdefault((space, text), serial)
        self._last[space] = max(self._last.get(space, 0), serial)

    def _append(self, text: str, kind: StringKind, space: int) -> int:
        serial = self._last.get(space, 0) + 1
        if serial > MAX_SERIAL or space >> self.mask_bits:
            raise RecordError(
                f"no serial is left for the {kind.name.lower()} {text!r}",
                file=self._place.file,
                section=self._place.section,
                hint="An image cannot store more names of users, groups and xattrs; let a NameNode of the "
                "cluster make the checkpoint.",
            )
        number = self._id(serial, kind)
        entry = StringTableEntry(id=number, str=text.encode("utf-8", "surrogateescape"))
        self._added.append(encode_delimited(entry))
        self._put(number, space, serial, text)
        return serial
