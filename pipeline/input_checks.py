"""Fast checks of local inputs that commands make before they start Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from image_format.reader import ImageFile
from journal.segment_format import HEADER_SIZE, decode_header
from pipeline.errors import SourceFileError
from pipeline.source_files import SourceKind, is_local, local_files, local_path, only_file

_SMALL_BYTES = 16 << 20


def check_image(uri: str) -> None:
    """Check that a local path is an image, a storage directory with an image, or a lake.

    Raises:
        HdfsError: the error with which the job would fail.
    """
    if not is_local(uri) or _is_in_lake(uri):
        return
    file = only_file(local_files(uri, SourceKind.IMAGE), uri)
    ImageFile.open(file.on_driver(), verify_md5=False).close()


def check_edits(uri: str) -> None:
    """Check that a local path is a segment, a directory of finalized segments, or a lake; read the segments' headers.

    Raises:
        HdfsError: the error with which the job would fail.
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
    """Return whether all sources are local files of at most 16 MiB in total; "" means no source."""
    sources = [(uri, SourceKind.IMAGE) for uri in images] + [(edits, SourceKind.EDITS)]
    if any(not is_local(uri) or _is_in_lake(uri) for uri, _ in sources):
        return False
    return are_small(file.on_driver() for uri, kind in sources if uri for file in local_files(uri, kind))


def are_small(files: Iterable[Path]) -> bool:
    """Return whether the total size of files is at most 16 MiB.

    Raises:
        OSError: a file cannot be read.
    """
    return sum(file.stat().st_size for file in files) <= _SMALL_BYTES


def _is_in_lake(uri: str) -> bool:
    """Return whether a URI is a local lake, or one of its images, such as LAKE@TXID."""
    parts = uri.split("@")
    return any(is_local_lake("@".join(parts[: len(parts) - count])) for count in range(min(3, len(parts))))


def is_local_lake(uri: str) -> bool:
    """Return whether a URI is a lake on this host, without importing the library of Delta tables."""
    folders = (local_path(uri) / name / "_delta_log" for name in ("images", "edits"))
    return is_local(uri) and any(folder.is_dir() for folder in folders)
