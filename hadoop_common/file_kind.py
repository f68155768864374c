"""Recognises unexpected files by their first bytes, for error messages."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

HEAD_BYTES = 4096
"""Number of leading bytes that `file_kind` needs."""

IMAGE_MAGIC = b"HDFSIMG1"

_HEADER = Struct(">ii")
_OLDEST_LAYOUT, _NEWEST_LAYOUT = -1, -999
_TAR_AT, _TAR = 257, b"ustar"
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_MIN_TEXT = 8

_UNPACK = "Unpack it first, and specify the unpacked file."
_OTHER = "Specify another file; this is not an HDFS file."


class FileKind(NamedTuple):
    """The kind of a file, with an indefinite article, and what to do instead."""

    name: str
    hint: str


_IMAGE = FileKind("an fsimage", "`checkpointer image info` and `image verify` read it.")
_EDITS = "an edit log segment of layout {}"
_EDITS_HINT = "`checkpointer edits info` reads it."
_EDITS_XML = FileKind("the XML of an edit log", "`checkpointer edits load` creates a segment from it.")
IMAGE_XML = FileKind("the XML of an fsimage", "Specify the image from which it was made.")
XML = FileKind("an XML file", _OTHER)
_JSON = FileKind("a JSON file", "`checkpointer edits load` creates a segment from it if each line is one operation.")
_EMPTY = FileKind("empty", "Use another copy.")
_ZEROS = FileKind(
    "all zeros at the beginning, as after a crash of the host or disk before the data was written",
    "Use a copy from another directory, the other NameNode or a JournalNode.",
)
_FILLED = FileKind("all 0xff at the beginning: space that was allocated but never written", "Use another copy.")
_TEXT = FileKind("a text file", _OTHER)
_NUMBER = FileKind("a text file with one number, such as seen_txid", _OTHER)
_MD5 = FileKind("an .md5 file", "Specify the image next to it.")

_MAGICS = (
    (b"\x1f\x8b", FileKind("a gzip file", _UNPACK)),
    (b"BZh", FileKind("a bzip2 file", _UNPACK)),
    (b"\xfd7zXZ\x00", FileKind("an xz file", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", FileKind("a zstd file", _UNPACK)),
    (b"\x04\x22\x4d\x18", FileKind("an lz4 file", _UNPACK)),
    (b"\xff\x06\x00\x00sNaPpY", FileKind("a snappy file", _UNPACK)),
    (b"\x89LZO\x00", FileKind("an lzop file", _UNPACK)),
    (b"PK\x03\x04", FileKind("a ZIP or JAR file", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", FileKind("a 7-Zip file", _UNPACK)),
    (b"PAR1", FileKind("a Parquet file", _OTHER)),
    (b"ORC", FileKind("an ORC file", _OTHER)),
    (b"Obj\x01", FileKind("an Avro file", _OTHER)),
    (b"SEQ", FileKind("a Hadoop sequence file", _OTHER)),
    (b"HDTS", FileKind("a Hadoop token file", _OTHER)),
    (b"crc\x00", FileKind("a Hadoop checksum file", "Specify the file to which it belongs.")),
    (b"\x7fELF", FileKind("a program", _OTHER)),
    (b"\xca\xfe\xba\xbe", FileKind("a Java class", _OTHER)),
    (b"\xac\xed\x00\x05", FileKind("a file of serialized Java objects", _OTHER)),
    (b"\xfe\xed\xfe\xed", FileKind("a Java key store", _OTHER)),
    (b"SQLite format 3\x00", FileKind("an SQLite database", _OTHER)),
    (b"%PDF", FileKind("a PDF file", _OTHER)),
    (b"\x89PNG", FileKind("a PNG image", _OTHER)),
)


def file_kind(head: bytes) -> FileKind | None:
    """Return the kind of a file from its first HEAD_BYTES bytes; None if it is not recognised."""
    if not head:
        return _EMPTY
    if head.startswith(IMAGE_MAGIC):
        return _IMAGE
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if not head.strip(b"\x00"):
        return _ZEROS
    if not head.strip(b"\xff"):
        return _FILLED
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return FileKind("a tar archive", _UNPACK)
    return _segment(head) or _text(head)


def _segment(head: bytes) -> FileKind | None:
    if len(head) < _HEADER.size:
        return None
    layout, flags = _HEADER.unpack_from(head)
    if not (_NEWEST_LAYOUT <= layout < _OLDEST_LAYOUT and flags == 0):
        return None
    return FileKind(_EDITS.format(layout), _EDITS_HINT)


def _text(head: bytes) -> FileKind | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"<"):
        if b"<EDITS" in text:
            return _EDITS_XML
        return IMAGE_XML if b"<fsimage" in text else XML
    if text.startswith((b"{", b"[")) and _is_text(text):
        return _JSON
    if text.rstrip().isdigit():
        return _NUMBER
    if len(head) < _MIN_TEXT or not _is_text(head):
        return None
    return _MD5 if b" *fsimage_" in head[:60] else _TEXT


def _is_text(head: bytes) -> bool:
    if any(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in head):
        return False
    # the last character may be truncated
    return any(_decodes(head[: len(head) - cut]) for cut in range(4))


def _decodes(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
