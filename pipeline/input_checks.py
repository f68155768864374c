"""Checks of inputs that take milliseconds, for commands that would start Spark first. Only local paths are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from image_format.reader import ImageFile
from journal.segment import HEADER_SIZE, decode_header
from pipeline.errors import SourceFileError
from pipeline.source_files import SourceKind, is_local, local_files, the_only

LAKE_COMMITS = "_commits"
"""The folder that makes a directory a lake."""

_SMALL_BYTES = 16 << 20


def check_image(uri: str) -> None:
    """Check that a local path is an image, or a storage directory with one, or a lake.

    Raises:
        HdfsError: what the job would fail with.
    """
    if not is_local(uri) or _is_in_lake(uri):
        return
    file = the_only(local_files(uri, SourceKind.IMAGE), uri)
    ImageFile.open(file.on_driver(), verify_md5=False).close()


def check_edits(uri: str) -> None:
    """The same of a segment or a directory of finalized segments; their headers are read.

    Raises:
        HdfsError: what the job would fail with.
    """
    if not is_local(uri) or is_local_lake(uri):
        return
    for file in local_files(uri, SourceKind.EDITS):
        try:
            with file.on_driver().open("rb") as stream:
                header = stream.read(HEADER_SIZE)
        except OSError as error:
            raise SourceFileError(f"{uri} cannot be read: {error}", hint="Check its disk and permissions.") from error
        decode_header(header, file=file.on_driver().name)


def is_small(images: Iterable[str], edits: str) -> bool:
    """Whether all sources are local files, of some MB together; "" stands for no source."""
    sources = [(uri, SourceKind.IMAGE) for uri in images] + [(edits, SourceKind.EDITS)]
    if any(not is_local(uri) or _is_in_lake(uri) for uri, _ in sources):
        return False
    return are_small(file.on_driver() for uri, kind in sources if uri for file in local_files(uri, kind))


def are_small(files: Iterable[Path]) -> bool:
    """Whether files have some MB together.

    Raises:
        OSError: one cannot be read.
    """
    return sum(file.stat().st_size for file in files) <= _SMALL_BYTES


def _is_in_lake(uri: str) -> bool:
    """A lake, or one of its images as LAKE@TXID."""
    root, _, number = uri.rpartition("@")
    return is_local_lake(uri) or (number.isdecimal() and is_local_lake(root))


def is_local_lake(uri: str) -> bool:
    """Whether a path is a lake on this host."""
    parts = urlsplit(uri)
    return is_local(uri) and (Path(parts.path if parts.scheme == "file" else uri) / LAKE_COMMITS).is_dir()
