"""Resolves a path of `spark.read` to files: an image, or the segments of an edit log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from glob import glob
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from hadoop_common.names import MD5_SUFFIX, SegmentName, md5_name, newest_image, parse_image, parse_segment
from hadoop_common.quantities import counted
from pipeline.errors import SourceFileError

_FILE_SCHEME = re.compile(r"^file:(//[^/]*)?", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}]*)\}")


class SourceKind(Enum):
    """Kind of files to find in a directory."""

    IMAGE = "fsimage"
    EDITS = "finalized segment"
    OPEN_EDITS = "segment"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read, with the information that every process of a job needs to find the file.

    Attributes:
        path: path on the driver.
        staged: name under which Spark sends the file to executors; "" for a path that all hosts share.
        version: size and modification time in seconds of a shared image when the query was planned; None if the file
            does not change.
    """

    path: str
    staged: str = ""
    version: tuple[int, int] | None = None

    def on_driver(self) -> Path:
        return Path(self.path)

    def in_task(self) -> Path:
        """Return the path of the file for a task on any host."""
        if not self.staged:
            return Path(self.path)
        from pyspark import SparkFiles

        return Path(SparkFiles.get(self.staged))

    def check_version(self) -> None:
        """Check in a task that the opened file has not been replaced since the query was planned.

        Raises:
            SourceFileError: the file was replaced, so tasks would return rows of different images.
        """
        if self.version is not None and _version(self.in_task()) != self.version:
            hint = "Run the query again. Give each image its own name, such as fsimage_TXID."
            raise SourceFileError(f"{self.path} was replaced while it was read", hint=hint)


def _version(path: Path) -> tuple[int, int]:
    try:
        at = path.stat()
    except OSError as error:
        raise SourceFileError(f"{path} cannot be read: {error}", hint="Check its disk and permissions.") from error
    return at.st_size, int(at.st_mtime)


def is_local(uri: str) -> bool:
    """Return whether a path is on the operating system's file system."""
    return urlsplit(uri).scheme in {"", "file"}


class FileLister(Protocol):
    """Interface that lists the files of one file system."""

    def is_folder(self, uri: str) -> bool | None:
        """Return whether a path is a directory; None if the path does not exist."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a directory; none if the directory does not exist."""

    def matches(self, pattern: str) -> list[tuple[str, bool]]:
        """Return the paths that a pattern matches, and whether each is a directory."""


def find_files(uri: str, kind: SourceKind, lister: FileLister) -> list[str]:
    """Resolve a path: the file itself, the files of a directory that `choose` selects (possibly none), or the matches
    of a pattern.

    Raises:
        SourceFileError: the path does not exist.
    """
    folder = lister.is_folder(uri)
    if folder is not None:
        return in_folder(uri, kind, lister) if folder else [uri]
    if not is_pattern(uri):
        raise SourceFileError(f"{uri} does not exist", hint="Check the path: a file or a storage directory is needed.")
    matches = lister.matches(uri)
    wanted = set(matched((name_of(path) for path, is_folder in matches if not is_folder), kind))
    found: list[str] = []
    for path, is_folder in matches:
        if is_folder:
            found += in_folder(path, kind, lister)
        elif name_of(path) in wanted:
            found.append(path)
    return list(dict.fromkeys(found))


def in_folder(uri: str, kind: SourceKind, lister: FileLister) -> list[str]:
    """Return the files of a directory's `current` folder, or of the directory itself, that `choose` selects."""
    for place in (uri.rstrip("/") + "/current", uri.rstrip("/")):
        if chosen := choose(lister.names(place), kind):
            return [f"{place}/{name}" for name in chosen]
    return []


def name_of(path: str) -> str:
    """Return the last component of a path."""
    return path.rsplit("/", 1)[-1]


class LocalLister:
    """`FileLister` for the operating system's files."""

    def is_folder(self, uri: str) -> bool | None:
        path = local_path(uri)
        return path.is_dir() if path.exists() else None

    def names(self, folder: str) -> list[str]:
        path = local_path(folder)
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def matches(self, pattern: str) -> list[tuple[str, bool]]:
        texts = _without_braces(str(local_path(pattern)))
        paths = sorted({Path(each) for text in texts for each in glob(text)})  # noqa: PTH207 - absolute paths
        return [(str(path), path.is_dir()) for path in paths]


def local_files(uri: str, kind: SourceKind) -> list[SourceFile]:
    """Resolve a local path; see `find_files`.

    Raises:
        SourceFileError: no file of this kind was found.
    """
    found = find_files(uri, kind, LocalLister())
    if not found:
        raise not_found(uri, kind)
    paths = dict.fromkeys(local_path(each).resolve() for each in found)
    if kind is SourceKind.IMAGE:
        return [SourceFile(str(path), version=_version(path)) for path in paths]
    return [SourceFile(str(path)) for path in paths]


def only_file(files: Sequence[SourceFile], uri: str) -> SourceFile:
    """Return the only file that a path matches.

    Raises:
        SourceFileError: a pattern matches several files.
    """
    if len(files) > 1:
        raise SourceFileError(f"{uri} matches {counted(len(files), 'file')}", hint="Specify one of them.")
    return files[0]


def is_pattern(uri: str) -> bool:
    """Return whether a path is a pattern, as Hadoop's globs are; an existing local path is not a pattern."""
    return any(sign in uri for sign in "*?[{") and not (is_local(uri) and local_path(uri).exists())


def local_path(uri: str) -> Path:
    # the characters ? and # are part of a path, as in Hadoop
    return Path(_FILE_SCHEME.sub("", uri))


def _without_braces(pattern: str) -> Iterator[str]:
    """Expand alternatives, `{a,b}`, to separate patterns."""
    found = _BRACES.search(pattern)
    if found is None:
        yield pattern
        return
    for part in found[1].split(","):
        yield from _without_braces(pattern[: found.start()] + part + pattern[found.end() :])


def matched(names: Iterable[str], kind: SourceKind) -> list[str]:
    """Select the sources among matches of a pattern: files with valid names, or else all files except digest files."""
    present = list(names)
    if kind is SourceKind.IMAGE:
        chosen = [name for name in present if (image := parse_image(name)) and not image.rollback]
    else:
        chosen = [name for name in present if (segment := parse_segment(name)) and _wanted(segment, kind)]
    return chosen or [name for name in present if not name.endswith(MD5_SUFFIX)]


def not_found(uri: str, kind: SourceKind) -> SourceFileError:
    return SourceFileError(f"no {kind.value} in {uri}", hint="Check the path: a file or a storage directory is needed.")


def choose(names: Iterable[str], kind: SourceKind) -> list[str]:
    """Select the source in a directory: the newest image, or the segments in order of their txids."""
    present = set(names)
    if kind is SourceKind.IMAGE:
        newest = newest_image(present)
        return [newest] if newest else []
    segments = [(segment, name) for name in present if (segment := parse_segment(name)) and _wanted(segment, kind)]
    return [name for _, name in sorted(segments, key=lambda item: item[0].first)]


def _wanted(segment: SegmentName, kind: SourceKind) -> bool:
    return kind is SourceKind.OPEN_EDITS or segment.last is not None


def companions(name: str, kind: SourceKind) -> list[str]:
    """Return the names of files that accompany `name` if they exist."""
    return [md5_name(name)] if kind is SourceKind.IMAGE else []
