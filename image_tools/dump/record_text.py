"""Prints a section's records with a template: kernels print common records, and Python prints all other records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from hadoop_common.java_numbers import unsigned64
from hadoop_common.java_utf8 import decode_java_utf8
from image_format.errors import BufferOrigin
from image_format.inode_scan import read_inode_header
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.dump.kernels.program import FULL, SCRATCH, UNKNOWN_WORD, UNUSUAL, Paths, Words
from image_tools.dump.kernels.text import find_word, write_records
from image_tools.dump.records import PROGRESS_STEP, ImageRecords
from image_tools.dump.template import RecordTemplate

M = TypeVar("M", bound=Message)
Bytes = npt.NDArray[np.uint8]

_CHUNK = 1 << 20
_FIRST_WORDS = 1 << 10
_MAX_WORDS = 1 << 18
_NO_NUMBERS = np.zeros(0, np.int64)
_NO_PATHS = Paths(
    np.zeros(0, np.int32), np.zeros(0, np.bool_), _NO_NUMBERS, np.zeros(0, np.uint8), _NO_NUMBERS, _NO_NUMBERS, -1
)


def record_texts(records: ImageRecords, name: str, message: type[M], template: RecordTemplate) -> Iterator[bytes]:
    """Yield the records of a section with one kind of record as UTF-8 text, or nothing if the section is missing.

    Raises:
        RecordError: a record is damaged, or contains an unknown number.
    """
    section = records.image.section(name)
    if section is not None and section.size:
        yield from _RecordText(template, message, section, records.image.place(name)).pieces(0)


def inode_texts(
    records: ImageRecords,
    template: RecordTemplate,
    paths: Paths = _NO_PATHS,
    path_of: Callable[[int, pb.INode], bytes] = lambda _slot, _inode: b"",
) -> Iterator[bytes]:
    """Yield the text of INODE as `record_texts` does, and report to `records.progress`.

    Args:
        paths, path_of: path of an inode by its slot, for steps that print paths.

    Raises:
        RecordError: see `record_texts`; also if the inode count in the section's header is wrong.
    """
    image = records.image
    section = image.section("INODE")
    if section is None or not section.size:
        return
    text = _RecordText(template, pb.INode, section, image.place("INODE"), paths)
    yield from text.pieces(read_inode_header(image)[1], path_of, step=PROGRESS_STEP, progress=records.progress)
    records.check_inode_count(text.count)


def _clean(data: bytes) -> bytes:
    """Replace invalid UTF-8 with U+FFFD, as decoding and encoding in Java do."""
    return data if data.isascii() else decode_java_utf8(data).encode()


class _WordTable:
    """The words that a kernel has requested; the table is cleared when it contains too many words."""

    def __init__(self, template: RecordTemplate) -> None:
        self._kinds = template.kinds
        self._clear()

    def _clear(self) -> None:
        self._known: list[tuple[int, int]] = []
        self._texts = bytearray()
        self._spans: list[tuple[int, int]] = []
        self.words = self._table(_FIRST_WORDS)

    def learn(self, kind: int, key: int) -> bool:
        """Add the word of a number; return whether a word exists. Propagate errors of the template's function."""
        try:
            word = self._kinds[kind](unsigned64(key))
        except KeyError:
            return False
        if len(self._known) >= _MAX_WORDS:
            self._clear()
        self._known.append((kind, key))
        start = len(self._texts)
        self._texts += word.encode("utf-8", "replace")
        self._spans.append((start, len(self._texts)))
        size = self.words.keys.size
        self.words = self._table(size if 2 * len(self._known) < size else 4 * size)
        return True

    def _table(self, size: int) -> Words:
        kinds, keys = np.full(size, -1, np.int64), np.zeros(size, np.int64)
        spans = np.zeros((size, 2), np.int64)
        for (kind, key), span in zip(self._known, self._spans, strict=True):
            entry = find_word(kinds, keys, kind, key)
            kinds[entry], keys[entry], spans[entry] = kind, key, span
        return Words(kinds, keys, spans, np.frombuffer(bytes(self._texts), np.uint8).copy())


class _RecordText(Generic[M]):
    """Printer of the records of one section.

    The printer uses a buffer, which grows to the longest text of a record, and a dictionary of words for numbers.

    Attributes:
        count: number of printed records.

    Args:
        message: type of the records.
        section: bytes of the section; `place`: its location, for errors.
        paths: paths of inodes, by record number.
    """

    def __init__(
        self, template: RecordTemplate, message: type[M], section: Bytes, place: BufferOrigin, paths: Paths = _NO_PATHS
    ) -> None:
        self._template, self._message = template, message
        self._section, self._place, self._paths = section, place, paths
        self._dictionary = _WordTable(template)
        self._scratch = [np.zeros(SCRATCH, np.int64) for _ in range(4)]
        self._out = np.empty(_CHUNK, np.uint8)
        self.count = 0

    def pieces(
        self,
        start: int,
        path_of: Callable[[int, M], bytes] = lambda _number, _message: b"",
        *,
        step: int = 1 << 62,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[bytes]:
        """Yield all records from offset `start` as UTF-8 text.

        Args:
            path_of: returns the path of the inode with a record number.
            progress: called with the number of records after every `step` records and at the end.

        Raises:
            RecordError: a record is damaged, or contains an unknown number.
        """
        pos, at, number, reported = start, 0, 0, 0
        section, program, paths = self._section, self._template.program, self._paths
        while pos < section.size:
            behind = number - number % step + step
            pos, at, number, why = write_records(
                section, pos, self._out, at, number, behind, program, self._dictionary.words, paths, *self._scratch
            )
            if why == FULL and at == 0:
                self._out = np.empty(2 * self._out.size, np.uint8)
            elif why == FULL:
                yield _clean(self._out[:at].tobytes())
                at = 0
            elif why == UNUSUAL or (why == UNKNOWN_WORD and not self._learn()):
                yield _clean(self._out[:at].tobytes())
                at = 0
                record = read_record(section.data, pos, self._place)
                message = parse_message(self._message, record, self._place)
                yield self._template.render(message, path_of(number, message)).encode("utf-8", "replace")
                pos, number = record.end, number + 1
            if progress is not None and number - reported >= step:
                reported = number
                progress(number)
        yield _clean(self._out[:at].tobytes())
        self.count = number
        if progress is not None and number > reported:
            progress(number)

    def _learn(self) -> bool:
        asked = self._scratch[2]
        return self._dictionary.learn(int(asked[0]), int(asked[1]))
