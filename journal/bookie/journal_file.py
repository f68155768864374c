"""The only file of a bookie: a magic number, then records that are appended and synced, but never changed.

magic      8 bytes
record     int32 length, uint32 CRC-32 of the payload, payload of that length
payload    int64 ledger, int64 entry. The payload of an entry's record is the entry's body, which begins with these ids.
           As in BookKeeper's own journals, entry -0x1000 means that the ledger's key follows, and -0x2000 is a fence
           record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from zlib import crc32

from hadoop_common.durable import fsync_directory
from hadoop_common.lifetimes import Closeable
from journal.bookie.state import BookieRecord, EntryRecord, FenceRecord, KeyRecord, RecordPlace
from journal.errors import JournalError

MAGIC = b"bookie 1"

_HEAD = Struct(">iI")
_IDS = Struct(">qq")
_KEY, _FENCE = -0x1000, -0x2000
_MAX_PAYLOAD = 8 << 20
_CHUNK = 1 << 20


def encode_record(record: BookieRecord) -> bytes:
    match record:
        case EntryRecord():
            payload = record.body
        case KeyRecord():
            payload = _IDS.pack(record.ledger_id, _KEY) + record.key
        case FenceRecord():
            payload = _IDS.pack(record.ledger_id, _FENCE)
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def decode_payload(payload: bytes) -> BookieRecord:
    ledger_id, entry_id = _IDS.unpack_from(payload)
    if entry_id == _KEY:
        return KeyRecord(ledger_id, payload[_IDS.size :])
    if entry_id == _FENCE:
        return FenceRecord(ledger_id)
    return EntryRecord(ledger_id, entry_id, payload)


class JournalFile(Closeable):
    """The journal file at `path`, which is created if it is missing.

    A partial record that a crash left at the end is removed. A damaged record before complete records raises an
    error.

    Raises:
        JournalError: the file is not a journal of a bookie, or is damaged.
        OSError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        made = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        self._end = len(MAGIC)
        try:
            if made or os.fstat(self._file).st_size < len(MAGIC):
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, MAGIC, 0)
                self.sync()
                fsync_directory(path.parent)
            if os.pread(self._file, len(MAGIC), 0) != MAGIC:
                newer = os.pread(self._file, len(MAGIC), 0).startswith(MAGIC[:-1])
                hint = "Install the release that wrote it: docs/upgrade.md." if newer else "Specify another directory."
                problem = "a newer release wrote the file" if newer else "the file is not a journal of a bookie"
                raise JournalError(problem, file=str(path), hint=hint)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def end(self) -> int:
        """Position of the next record."""
        return self._end

    def replay(self) -> Iterator[tuple[BookieRecord, RecordPlace]]:
        """Yield every record with the position of its payload; afterwards, records may be appended."""
        offset, size = len(MAGIC), os.fstat(self._file).st_size
        while offset < size:
            payload = self._payload(offset, size)
            if payload is None:
                self._refuse_records_behind(offset, size)
                os.ftruncate(self._file, offset)
                self.sync()
                break
            place = RecordPlace(offset + _HEAD.size, len(payload))
            yield decode_payload(payload), place
            offset = place.offset + place.size
        self._end = offset

    def append(self, records: list[BookieRecord]) -> list[RecordPlace]:
        """Append records; return the positions of their payloads. The records are durable after `sync`.

        Raises:
            OSError: some of the records may have been written; the next records overwrite them.
        """
        encoded = [encode_record(record) for record in records]
        places, offset = [], self._end
        for each in encoded:
            places.append(RecordPlace(offset + _HEAD.size, len(each) - _HEAD.size))
            offset += len(each)
        data = memoryview(b"".join(encoded))
        at = self._end
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written
        self._end = offset
        return places

    def cut(self, end: int) -> None:
        os.ftruncate(self._file, end)
        self._end = end

    def sync(self) -> None:
        os.fdatasync(self._file)

    def read(self, place: RecordPlace) -> bytes:
        """Return a payload without checking its CRC, because an entry contains its own digest."""
        return os.pread(self._file, place.size, place.offset)

    def free_bytes(self) -> int:
        """Return the number of free bytes on the file's disk."""
        found = os.fstatvfs(self._file)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        os.close(self._file)

    def _payload(self, offset: int, size: int) -> bytes | None:
        """Return the payload of the record at `offset`; None if it is not complete."""
        head = os.pread(self._file, _HEAD.size, offset)
        if len(head) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack(head)
        if not _IDS.size <= length <= _MAX_PAYLOAD or offset + _HEAD.size + length > size:
            return None
        payload = os.pread(self._file, length, offset + _HEAD.size)
        return payload if len(payload) == length and crc32(payload) == checksum else None

    def _refuse_records_behind(self, offset: int, size: int) -> None:
        """Raise JournalError if a complete record follows the damage at `offset`."""
        for start in range(offset + 1, min(size, offset + _CHUNK)):
            if self._payload(start, size) is not None:
                hint = "Check the disk for faults; other bookies have copies of the entries."
                raise JournalError(
                    "a damaged record precedes complete records", file=str(self.path), offset=offset, hint=hint
                )
