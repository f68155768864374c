"""The errors of the fsimage: one small tree, each error naming file, section and byte offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from hadoop_common.errors import EXIT_BAD_IMAGE, EXIT_STORAGE, EXIT_UNSUPPORTED, HdfsError

_OTHER_COPY = "Use an intact copy of the image, for example one from another name directory or from the NameNode."


class ImageFormatError(HdfsError):
    """An fsimage, or a side file of it, that cannot be used.

    `file` and `section` are "" and `offset` is None where they do not apply. `offset` counts bytes from the
    start of the file, or of the decompressed section when `decompressed` is set. `detail` is the message
    without them.
    """

    exit_code: ClassVar[int] = EXIT_BAD_IMAGE
    default_hint: ClassVar[str] = _OTHER_COPY

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
        super().__init__(": ".join(filter(None, (", ".join(where), message))), hint=hint or self.default_hint)
        self.detail = message
        self.file = file
        self.section = section
        self.offset = offset
        self.decompressed = decompressed


class BadMagicError(ImageFormatError):
    """The file does not start with HDFSIMG1: not an fsimage in protobuf format."""


class TruncatedImageError(ImageFormatError):
    """The file is too short for what it says it holds."""


class SummaryError(ImageFormatError):
    """The FileSummary at the end of the file cannot be parsed or contradicts the file."""


class DigestMismatchError(ImageFormatError):
    """The file's MD5 is not the one its side file names, or the side file is unusable."""


class MissingDigestError(DigestMismatchError):
    """No `.md5` file lies beside the image."""


class MissingSectionError(ImageFormatError):
    """A section that every image has is not in the FileSummary."""


class TransactionIdError(ImageFormatError):
    """NS_INFO's transactionId is not the txid in the file's name."""


class RecordError(ImageFormatError):
    """A record of a section is cut, cannot be parsed or holds an impossible value."""


class InconsistentHistoryError(RecordError):
    """What snapshots keep leads to what is missing, as NameNodes themselves leave it; each record is whole."""


class CodecError(ImageFormatError):
    """The compressed bytes of a section are damaged or do not end with the section."""


class UnsupportedLayoutError(ImageFormatError):
    """A layout version this software does not know."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED
    default_hint: ClassVar[str] = "Let a NameNode of the release that wrote the image make the checkpoint."


class UnsupportedConversionError(ImageFormatError):
    """An image holds what the layout it is to be converted to has no place for."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED
    default_hint: ClassVar[str] = (
        "Keep the image at its own layout, or name a layout that has a place for what is named."
    )


class UnsupportedCodecError(ImageFormatError):
    """A compression codec this software does not know."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED
    default_hint: ClassVar[str] = (
        "Set dfs.image.compression.codec of the NameNode to a known codec, or dfs.image.compress to false: its next "
        "image can be read."
    )


class ImageStorageError(HdfsError):
    """The operating system refused to read or write an image or a spool file."""

    exit_code: ClassVar[int] = EXIT_STORAGE


_E = TypeVar("_E", bound=ImageFormatError)


@dataclass(frozen=True, slots=True)
class BufferOrigin:
    """Where a buffer comes from, so that its decoder can say where a fault lies.

    `base` is the absolute offset of the buffer's first byte; None when the buffer is a decompressed section.
    """

    file: str = ""
    section: str = ""
    base: int | None = 0

    def error(self, kind: type[_E], message: str, offset: int, hint: str = "") -> _E:
        """An error of `kind` for the byte at `offset` of the buffer."""
        return kind(
            message,
            file=self.file,
            section=self.section,
            offset=offset + (self.base or 0),
            decompressed=self.base is None,
            hint=hint,
        )
