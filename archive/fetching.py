"""Fetches archived objects as files."""

from __future__ import annotations

from pathlib import Path

from archive.archive import Archive, copy_content
from archive.catalogue import EditsRecord
from archive.errors import ArchiveDamagedError
from hadoop_common.names import segment_name
from journal.segment_file import EditLogSegment


def fetch_segment(archive: Archive, record: EditsRecord, folder: Path, last: int | None = None) -> EditLogSegment:
    """Fetch an object with edits as a segment file up to transaction `last`, by default to the object's end.

    Raises:
        ArchiveDamagedError: the object is missing or damaged.
    """
    path = folder / segment_name(record.first, record.last)
    fetch_object(archive, record.name, path, record.md5)
    return EditLogSegment(record.first, record.last if last is None else last, path)


def fetch_object(archive: Archive, name: str, path: Path, md5: str) -> None:
    """Write the content of an object to a file that only its owner can read, and check its MD5.

    Raises:
        ArchiveDamagedError: the object is missing or damaged.
    """
    with archive.reading(name) as reader, path.open("wb") as out:
        path.chmod(0o600)
        found = copy_content(reader, out)
    if found != md5:
        raise ArchiveDamagedError(name, f"the MD5 of its content is {found}, but the catalogue contains {md5}")
