"""An fsimage file opened for reading: mapped and checked; sections are decompressed on demand."""

from __future__ import annotations

import errno
import hashlib
import logging
import mmap
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from hadoop_common.file_faults import error_text
from hadoop_common.mapped_file import MappedFile, ShrunkFileError, map_regular
from hadoop_common.names import parse_image
from hadoop_common.process_tuning import available_cores
from image_format.codecs import expand, find_codec
from image_format.direct_reader import DirectReader, SectionReads, exceeds_page_cache
from image_format.errors import (
    BufferOrigin,
    CodecError,
    DigestMismatchError,
    ImageStorageError,
    MissingSectionError,
    RecordError,
    TransactionIdError,
    TruncatedImageError,
    UnreadableImageError,
)
from image_format.known_digests import FileIdentity, identity_at, identity_of, known_digest, remember_digest
from image_format.layout import check_readable
from image_format.md5_file import read_md5_file
from image_format.proto.fsimage_pb2 import FileSummary, NameSystemSection
from image_format.spool import SPOOL_LIMIT, Spool, read_ahead
from image_format.string_table import StringTable
from image_format.sub_section_rules import compressed_streams, sub_section_faults
from image_format.summary import Section, is_sub_section, parse_file
from image_format.varint import Record, iter_records, parse_message, read_record

REQUIRED_SECTIONS = ("NS_INFO", "STRING_TABLE", "INODE", "INODE_DIR")
_SLICE = 8 * 1024 * 1024
_LOG = logging.getLogger(__name__)
_M = TypeVar("_M", bound=Message)


class BegunDigest:
    """MD5 of the beginning of a file; `size` is the number of bytes so far."""

    def __init__(self) -> None:
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.size = 0

    def update(self, data: npt.NDArray[np.uint8]) -> None:
        self.md5.update(data.data)
        self.size += data.size


class ImageFile:
    """A checked fsimage, used as a context manager; returned arrays stay valid after `close`.

    If the file becomes shorter while it is read, leaving the context raises ShrunkFileError; `check_whole` raises this
    error earlier.

    Attributes:
        layout_version: negative, e.g. -63.
        codec: class name of the compression codec, or "" for no compression.
        sections: entries in the FileSummary's order, including sub-sections (`*_SUB`).
        md5: digest of the whole file (16 bytes) once verified, else None.
    """

    def __init__(
        self, path: Path, data: npt.NDArray[np.uint8], spool_dir: Path | None, identity: FileIdentity | None = None
    ) -> None:
        """Parse the FileSummary of `data`, the whole file; callers use `open` instead."""
        parsed = parse_file(data.data, str(path))
        self.path = path
        self.summary: FileSummary = parsed.message
        self.layout_version = parsed.layout_version
        self.codec = parsed.codec
        self.sections = parsed.sections
        self.md5: bytes | None = None
        self._identity = identity
        self._data: npt.NDArray[np.uint8] | None = data
        self._mapped: MappedFile | None = None
        self._direct: DirectReader | None = None
        self._spool_dir = spool_dir
        self._by_name = {entry.name: entry for entry in self.sections if not is_sub_section(entry.name)}
        self._decompressed: dict[str, npt.NDArray[np.uint8]] = {}
        self._ns_info: NameSystemSection | None = None

    @classmethod
    def open(
        cls, path: Path, *, verify_md5: bool = True, spool_dir: Path | None = None, allow_unknown_layout: bool = False
    ) -> ImageFile:
        """Map the file and check the frame, layout version, codec, required sections, txid and, at the end, the MD5.

        Sections are read from their entries; sub-sections that do not match their section are only logged.

        Args:
            verify_md5: whether to compare the file with its `.md5` file, which must exist; reads the whole file.
            spool_dir: folder for large decompressed sections; None is the system's default.
            allow_unknown_layout: whether to open images with a layout version newer than the newest known version.

        Raises:
            ImageFormatError: a subclass for each fault.
            ImageStorageError: the file cannot be read.
        """
        mapped = map_image(path)
        if mapped is None:
            raise TruncatedImageError("the file is empty", file=str(path))
        with mapped.whole():
            image = cls(path, np.frombuffer(mapped, np.uint8), spool_dir, identity_of(mapped.status))
            image._mapped = mapped
            image._check(verify_md5=verify_md5, allow_unknown_layout=allow_unknown_layout)
        return image

    def _check(self, *, verify_md5: bool, allow_unknown_layout: bool) -> None:
        path = self.path
        check_readable(self.layout_version, str(path), allow_unknown=allow_unknown_layout)
        find_codec(self.codec, str(path))
        for name in REQUIRED_SECTIONS:
            self._entry(name)
        self._check_txid()
        for fault in sub_section_faults(self.sections):
            _LOG.warning("%s: %s; a NameNode that loads in parallel cannot use them", path, fault)
        if verify_md5:
            self.verify_md5()

    def __enter__(self) -> ImageFile:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None or isinstance(error, Exception):
                self.check_whole()
        except ShrunkFileError as cause:
            raise cause from error
        finally:
            self.close()

    def check_whole(self) -> None:
        """Raise ShrunkFileError if the file has become shorter since it was opened."""
        if self._mapped is not None:
            self._mapped.check_whole()

    def close(self) -> None:
        """Release the file; the mapping is released with the last array that uses it."""
        self._data = self._mapped = None
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        self._decompressed.clear()

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._bytes().size

    @property
    def identity(self) -> FileIdentity | None:
        """The file's identity when it was opened; None if `path` is a different file now."""
        return self._identity if self._identity == identity_at(self.path) else None

    @property
    def txid(self) -> int:
        return int(self.ns_info().transactionId)

    def verify_md5(
        self,
        before_slice: Callable[[], object] = lambda: None,
        begun: BegunDigest | None = None,
        expected: bytes | None = None,
    ) -> bytes:
        """Compare the file's MD5 with its digest file; set and return `md5`.

        Without `begun`, the file is not read if this process has written or verified it and the file has not changed
        since.

        Args:
            before_slice: called before each slice is read; an exception aborts.
            begun: digest of the beginning of the file.
            expected: contents of the digest file, if it has been read.

        Raises:
            DigestMismatchError: the digests differ.
            UnusableDigestError: the digest file is missing or malformed.
            ImageStorageError: the digest file cannot be read.
        """
        expected = read_md5_file(self.path) if expected is None else expected
        known = self.known_digest() if begun is None else None
        actual = known or self._take_digest(before_slice, begun or BegunDigest())
        if actual != expected:
            text = f"its MD5 is {actual.hex()}, but its .md5 file contains {expected.hex()}"
            raise DigestMismatchError(text, file=str(self.path))
        self.md5 = actual
        return actual

    def known_digest(self) -> bytes | None:
        """Return the MD5 of the file if this process has computed it, None otherwise."""
        identity = self.identity
        return None if identity is None else known_digest(identity)

    def _take_digest(self, before_slice: Callable[[], object], begun: BegunDigest) -> bytes:
        digest, size = begun.md5, self.size
        for start in range(begun.size, size, _SLICE):
            before_slice()
            digest.update(self._slice(start, min(start + _SLICE, size)).data)
        taken = digest.digest()
        # a digest of pages that could not be read must not be remembered
        self.check_whole()
        if self.identity is not None:
            remember_digest(self.path, taken)
        return taken

    def _slice(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Return bytes of the file, valid until the next call in this thread."""
        read = None if self._direct is None else self._direct.read(start, stop)
        return self._bytes()[start:stop] if read is None else read

    def section(self, name: str) -> npt.NDArray[np.uint8] | None:
        """Return the decompressed bytes of a section, read-only; None if the section is absent.

        Uncompressed bytes are not copied.

        Raises:
            CodecError: the compressed bytes are damaged.
            ImageStorageError: the spool folder is full.
        """
        entry = self._by_name.get(name)
        return None if entry is None else self._read(entry)

    def read_around_cache(self) -> None:
        """From now on, bypass the page cache for large sections if the cache can hold only a part of the file.

        Other reads of the INODE section then probably go to scattered places, where reading ahead would take longer
        than the read itself. For a compressed image, do nothing.
        """
        if self.codec or self._mapped is None or not exceeds_page_cache(self.size):
            return
        self._direct = DirectReader.open(self.path, self._mapped.status)
        if self._direct is not None:
            entry = self._entry("INODE")
            first = entry.offset // mmap.PAGESIZE * mmap.PAGESIZE
            self._mapped.madvise(mmap.MADV_RANDOM, first, entry.end - first)

    @property
    def reads_around_cache(self) -> bool:
        """Whether `read_around_cache` has enabled direct reads."""
        return self._direct is not None

    def direct_section(self, name: str) -> SectionReads | None:
        """Return direct reads of a section; None unless `read_around_cache` has enabled them."""
        entry = self._by_name.get(name)
        return None if self._direct is None or entry is None else SectionReads(self._direct, entry.offset)

    def begin_reads(self, name: str, positions: npt.NDArray[np.int64]) -> None:
        """Begin to read the pages at these positions of a section, unless the system reads them ahead.

        The disk reads several pages at the same time; a walk over the mapped records would wait for each page.
        """
        if self._direct is None or self._mapped is None:
            return
        for page in np.unique((self._entry(name).offset + positions) // mmap.PAGESIZE).tolist():
            self._mapped.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)

    def has_section(self, name: str) -> bool:
        return name in self._by_name

    def section_bytes(self, name: str) -> memoryview:
        """Return a section as `section` does; raise MissingSectionError if the section is absent."""
        return self._read(self._entry(name)).data

    @property
    def unpacked_size(self) -> int:
        """Size of all sections in bytes; the decompressed size for sections that are already decompressed."""
        lengths = ((name, entry.length) for name, entry in self._by_name.items())
        return sum(self._decompressed[name].size if name in self._decompressed else each for name, each in lengths)

    def decompress(self, names: Iterable[str]) -> None:
        """Decompress several sections in parallel, for later calls of `section`; do nothing for a fast codec.

        Raises:
            CodecError, ImageStorageError: see `section`; raised for the first of `names` that cannot be decompressed.
        """
        entries = [self._by_name[name] for name in names if name in self._by_name and name not in self._decompressed]
        if not self.codec or not entries or find_codec(self.codec, str(self.path)).quick:
            return
        with ThreadPoolExecutor(min(available_cores(), len(entries)), "image-section") as pool:
            for entry, data in zip(entries, pool.map(self._decompress, entries), strict=True):
                self._decompressed[entry.name] = data

    def unpack_section(self, name: str, out: BinaryIO) -> None:
        """Write the decompressed bytes of a section to `out`, piece by piece.

        Raises:
            CodecError: the compressed bytes are damaged.
            MissingSectionError: the section is absent.
            OSError: `out` cannot be written.
        """
        for chunk in self._decompressed_chunks(self._entry(name)):
            out.write(chunk)

    def first_record(self, name: str, kind: type[_M]) -> _M:
        """Return the first message of a section without decompressing the rest; a default message for an empty section.

        Raises:
            CodecError: the compressed bytes are damaged.
            MissingSectionError: the section is absent.
            RecordError: the record is not a message of `kind`, or longer than a piece of the section.
        """
        head, place = memoryview(next(self._decompressed_chunks(self._entry(name)), b"")), self.place(name)
        return parse_message(kind, read_record(head, 0, place), place) if head else kind()

    def use_unpacked(self, name: str, data: npt.NDArray[np.uint8]) -> None:
        """Make `section` return `data`, which `unpack_section` wrote, for a section of a compressed image."""
        self._decompressed[name] = data

    def stored_bytes(self, entry: Section) -> memoryview:
        """Return the stored bytes of a section or sub-section, which are compressed in a compressed image."""
        return self._bytes()[entry.offset : entry.end].data

    def file_bytes(self) -> memoryview:
        """Return the whole file, including gaps between sections."""
        return self._bytes().data

    def place(self, name: str) -> BufferOrigin:
        """Return the origin of a section's bytes, for errors."""
        return BufferOrigin(str(self.path), name, None if self.codec else self._entry(name).offset)

    def records(self, name: str) -> Iterator[Record]:
        """Yield the delimited messages of a small section; kernels are faster for large sections.

        Raises:
            MissingSectionError: the section is absent.
            RecordError: a record is truncated.
        """
        return iter_records(self.section_bytes(name), 0, self.place(name))

    def ns_info(self) -> NameSystemSection:
        """Return the NS_INFO section.

        Raises:
            RecordError: the section is not exactly one NameSystemSection.
        """
        if self._ns_info is None:
            data, place = self.section_bytes("NS_INFO"), self.place("NS_INFO")
            record = read_record(data, 0, place)
            if record.end != len(data):
                raise place.error(RecordError, "bytes follow the NameSystemSection", record.end)
            self._ns_info = parse_message(NameSystemSection, record, place)
        copy = NameSystemSection()
        copy.CopyFrom(self._ns_info)
        return copy

    def string_table(self) -> StringTable:
        """Return the STRING_TABLE section, parsed at each call.

        Raises:
            RecordError: the table is damaged.
        """
        return StringTable(self.section_bytes("STRING_TABLE"), self.place("STRING_TABLE"))

    def _check_txid(self) -> None:
        if self.txid >> 63:
            text = f"its NS_INFO has transaction {self.txid}, which is beyond any edit log"
            raise TransactionIdError(text, file=str(self.path), section="NS_INFO")
        named = parse_image(self.path.name)
        if named is not None and named.txid != self.txid:
            text = f"the file's name has transaction {named.txid}, but its NS_INFO has {self.txid}"
            raise TransactionIdError(text, file=str(self.path), section="NS_INFO")

    def _bytes(self) -> npt.NDArray[np.uint8]:
        if self._data is None:
            raise ValueError(f"{self.path} is closed")
        return self._data

    def _entry(self, name: str) -> Section:
        entry = self._by_name.get(name)
        if entry is None:
            raise MissingSectionError("the FileSummary does not list the section", file=str(self.path), section=name)
        return entry

    def _read(self, entry: Section) -> npt.NDArray[np.uint8]:
        if not self.codec:
            return self._bytes()[entry.offset : entry.end]
        if entry.name not in self._decompressed:
            self._decompressed[entry.name] = self._decompress(entry)
        return self._decompressed[entry.name]

    def _decompress(self, entry: Section) -> npt.NDArray[np.uint8]:
        with Spool(self._spool_dir, SPOOL_LIMIT) as spool:
            for chunk in self._decompressed_chunks(entry):
                spool.write(chunk)
            return spool.finish()

    def _decompressed_chunks(self, entry: Section) -> Iterator[bytes | memoryview]:
        parts = compressed_streams(self.sections, entry)
        if len(parts) == 1 or find_codec(self.codec, str(self.path)).quick:
            return chain.from_iterable(self._expand(entry.name, part) for part in parts)
        return read_ahead([partial(self._expand, entry.name, part) for part in parts], self._spool_dir)

    def _expand(self, name: str, stream: Section) -> Iterator[bytes | memoryview]:
        """Yield the chunks of one compressed stream of the section `name`."""
        try:
            yield from expand(self.codec, self.stored_bytes(stream), str(self.path))
        except CodecError as error:
            place = BufferOrigin(str(self.path), name, stream.offset)
            raise place.error(CodecError, error.detail, error.offset or 0) from error


def map_image(path: Path) -> MappedFile | None:
    """Map a whole image; return None if the file is empty.

    Raises:
        ImageStorageError: the file is not a regular file, has holes or cannot be read.
        UnreadableImageError: the disk failed.
    """
    try:
        return map_regular(path)
    except OSError as error:
        hint = "Check the path and the disk, and that the file is a readable regular file."
        kind = UnreadableImageError if error.errno == errno.EIO else ImageStorageError
        raise kind(f"cannot read {path}: {error_text(error, path)}", hint=hint) from error
