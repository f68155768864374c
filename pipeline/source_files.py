"""The files that a path given to `spark.read` stands for: an image, or the segments of an edit log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from hadoop_common.names import SegmentName, md5_name, parse_image, parse_segment
from pipeline.errors import SourceFileError

_FOLDERS = ("", "current")


class SourceKind(Enum):
    """What is looked for where the path is a directory."""

    IMAGE = "fsimage"
    EDITS = "finalized segment"
    OPEN_EDITS = "segment"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to read, as every process of a job finds it.

    Attributes:
        path: where the driver has it.
        staged: name under which Spark brings it to executors; "" for a path that every host sees itself.
    """

    path: str
    staged: str = ""

    def on_driver(self) -> Path:
        return Path(self.path)

    def in_task(self) -> Path:
        """Where a task on any host finds the file."""
        if not self.staged:
            return Path(self.path)
        from pyspark import SparkFiles

        return Path(SparkFiles.get(self.staged))


def is_local(uri: str) -> bool:
    """Whether a path needs no file system but the operating system's."""
    return urlsplit(uri).scheme in {"", "file"}


def local_files(uri: str, kind: SourceKind) -> list[SourceFile]:
    """What a local path stands for: the file itself, or those that `choose` takes in a directory.

    Raises:
        SourceFileError: there is nothing of this kind.
    """
    parts = urlsplit(uri)
    path = Path(parts.path if parts.scheme == "file" else uri)
    if path.is_dir():
        for folder in _FOLDERS:
            if chosen := choose(_names(path / folder), kind):
                return [SourceFile(str((path / folder / name).resolve())) for name in chosen]
        raise nothing_there(uri, kind)
    if not path.is_file():
        raise SourceFileError(f"{uri} does not exist", hint="Give the path of a file or of a storage directory.")
    return [SourceFile(str(path.resolve()))]


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def nothing_there(uri: str, kind: SourceKind) -> SourceFileError:
    return SourceFileError(
        f"no {kind.value} in {uri}", hint="Give the path of a file, or of a storage directory that holds some."
    )


def choose(names: Iterable[str], kind: SourceKind) -> list[str]:
    """Names in a directory that make up the source: its newest image, or its segments in order of their txids."""
    present = set(names)
    if kind is SourceKind.IMAGE:
        images = [(image.txid, name) for name in present if (image := parse_image(name)) and not image.rollback]
        return [max(images)[1]] if images else []
    segments = [(segment, name) for name in present if (segment := parse_segment(name)) and _wanted(segment, kind)]
    return [name for _, name in sorted(segments, key=lambda item: item[0].first)]


def _wanted(segment: SegmentName, kind: SourceKind) -> bool:
    return kind is SourceKind.OPEN_EDITS or segment.last is not None


def companions(name: str, kind: SourceKind) -> list[str]:
    """Names of the files that belong to `name` and are brought along where they exist."""
    return [md5_name(name)] if kind is SourceKind.IMAGE else []
