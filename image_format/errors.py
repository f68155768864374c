"""Errors of the fsimage; each error names the file, section and byte offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

_OTHER_COPY = "Use an intact copy of the image, for example one from another name directory or from the NameNode."


class ImageFormatError(HdfsError):
    """Failure to use an fsimage or a digest file.

    `file` and `section` are "" and `offset` is None if they do not apply. `offset` is in bytes from the start of the
    file, or of the decompressed section if `decompressed` is set. `detail` is the message without this location.
    """

    exit_code: ClassVar[int] = ExitCode.BAD_IMAGE
    default_hint = _OTHER_COPY

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        section: str = "",
        offset: int | None = None,
        decompressed: bool = False,
        hint: str = "",
    ) -> None:
        where = [part for part in (file, f"section {section}" if section else "") if part]
        if offset is not None:
            where.append(f"offset {offset}" + (" of the decompressed section" if decompressed else ""))
        super().__init__(": ".join(filter(None, (", ".join(where), message))), hint=hint)
        self.detail = message
        self.file = file
        self.section = section
        self.offset = offset
        self.decompressed = decompressed


class BadMagicError(ImageFormatError):
    """Refusal of a file that does not start with HDFSIMG1, so it is not an fsimage in protobuf format."""


class TruncatedImageError(ImageFormatError):
    """Damage to a file that is shorter than its contents require."""


class SummaryError(ImageFormatError):
    """Failure to parse the FileSummary at the end of the file, or a FileSummary that contradicts the file."""


class DigestMismatchError(ImageFormatError):
    """A difference between the MD5 of a file and its digest file, or an unusable digest file."""


class UnusableDigestError(DigestMismatchError):
    """Failure to find a digest of the image in a `.md5` file; the image may be intact."""


class MissingDigestError(UnusableDigestError):
    """Lack of the `.md5` file of an image."""


class MissingSectionError(ImageFormatError):
    """Lack of a required section in the FileSummary."""


class TransactionIdError(ImageFormatError):
    """A difference between the transactionId in NS_INFO and the txid in the file's name."""


class RecordError(ImageFormatError):
    """Failure to read a record that is truncated, cannot be parsed or has an impossible value."""


class InconsistentSnapshotsError(RecordError):
    """References of snapshots to missing inodes, as NameNodes themselves may write them; each record is valid."""

    default_hint = "`checkpointer image verify IMAGE --repair OUT` lists the faults and writes a repaired copy."


class CodecError(ImageFormatError):
    """Failure to decompress a section whose bytes are damaged or do not end with the section."""


class UnsupportedLayoutError(ImageFormatError):
    """Refusal of an unknown layout version."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED
    default_hint = "Let a NameNode of the release that wrote the image make the checkpoint."


class UnsupportedConversionError(ImageFormatError):
    """Refusal to convert an image with a part that the target layout cannot store."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED
    default_hint = "Keep the image at its own layout, or choose a layout that can store the named part."


class UnsupportedCodecError(ImageFormatError):
    """Refusal of an unknown compression codec."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED
    default_hint = (
        "Set dfs.image.compression.codec of the NameNode to a known codec, or dfs.image.compress to false. The "
        "NameNode's next image can then be read."
    )


class ImageStorageError(HdfsError):
    """Failure of the operating system to read or write an image or a spool file."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class UnreadableImageError(ImageStorageError):
    """Failure of a disk to read an image (EIO)."""


_E = TypeVar("_E", bound=ImageFormatError)


@dataclass(frozen=True, slots=True)
class BufferOrigin:
    """Origin of a buffer, from which its decoder derives the location of a fault.

    `base` is the offset of the buffer's first byte in the file, or None if the buffer is a decompressed section.
    """

    file: str = ""
    section: str = ""
    base: int | None = 0

    def error(self, kind: type[_E], message: str, offset: int, hint: str = "") -> _E:
        """Return an error of class `kind` for the byte at `offset` of the buffer."""
        return kind(
            message,
            file=self.file,
            section=self.section,
            offset=offset + (self.base or 0),
            decompressed=self.base is None,
            hint=hint,
        )
