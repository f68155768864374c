"""The VERSION file of a storage directory (Storage, NNStorage), which identifies its namespace."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import VERSION
from hadoop_common.properties import format_properties, parse_properties
from hadoop_common.regular_file import read_regular

NAME_NODE = "NAME_NODE"
JOURNAL_NODE = "JOURNAL_NODE"
MAX_VERSION_BYTES = 64 * 1024


class VersionFileError(HdfsError):
    """Failure to read a VERSION file, which lacks a key or has a value of the wrong type."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class ForeignDirectoryError(StorageError):
    """Refusal of a storage directory that belongs to another node, running or not."""


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """The content of a VERSION file. `layout_version` is negative, and lower for newer formats; `c_time` is in ms."""

    layout_version: int
    namespace_id: int
    c_time: int
    cluster_id: str
    blockpool_id: str = ""
    storage_type: str = NAME_NODE

    @property
    def namespace(self) -> tuple[int, str, str]:
        """The ids of the namespace: namespaceID, clusterID and blockpoolID."""
        return self.namespace_id, self.cluster_id, self.blockpool_id

    @property
    def namespace_text(self) -> str:
        return f"namespaceID {self.namespace_id}, clusterID {self.cluster_id}, blockpoolID {self.blockpool_id}"

    def colon_string(self) -> str:
        """Return `layoutVersion:namespaceID:cTime:clusterID`, as in image transfers (StorageInfo)."""
        return f"{self.layout_version}:{self.namespace_id}:{self.c_time}:{self.cluster_id}"


def parse_version(text: bytes, source: str, *, of: Collection[str] = (NAME_NODE,)) -> StorageInfo:
    """Parse the VERSION file of a node whose type is in `of`; `source` names the file in errors.

    Raises:
        ForeignDirectoryError: the VERSION file belongs to another type of node.
        VersionFileError: a key is missing or its value is not a number.
    """
    try:
        values = parse_properties(text)
    except ValueError as fault:
        raise VersionFileError(f"{source}: {fault}", hint=_hint(source)) from fault
    storage_type = _accepted(values, source, of)
    return StorageInfo(
        layout_version=_number(values, "layoutVersion", source, bits=32),
        namespace_id=_number(values, "namespaceID", source, bits=32),
        c_time=_number(values, "cTime", source, bits=64),
        cluster_id=_text(values, "clusterID", source),
        blockpool_id=_text(values, "blockpoolID", source) if storage_type == NAME_NODE else "",
        storage_type=storage_type,
    )


def read_version(path: Path, *, of: Collection[str] = (NAME_NODE,)) -> StorageInfo:
    """Read the VERSION file at `path` of a node whose type is in `of`.

    Raises:
        ForeignDirectoryError: the VERSION file belongs to another type of node.
        VersionFileError: the file is damaged.
        NotRegularError: the path is not a regular file, or the file is larger than 64 KiB.
        OSError: the file cannot be read.
    """
    return parse_version(read_regular(path, MAX_VERSION_BYTES), str(path), of=of)


def refuse_foreign(directory: Path, of: Collection[str] = (NAME_NODE,)) -> None:
    """Refuse a storage directory with the VERSION of another type of node; a damaged or missing VERSION is accepted.

    Raises:
        ForeignDirectoryError: the VERSION file belongs to another type of node.
    """
    path = directory / "current" / VERSION
    with suppress(OSError, ValueError, VersionFileError):
        _accepted(parse_properties(read_regular(path, MAX_VERSION_BYTES)), str(path), of)


def format_version(info: StorageInfo, now: datetime) -> bytes:
    """Format a VERSION file for `info`; `now` is the date in its comment line."""
    values = {
        "namespaceID": str(info.namespace_id),
        "clusterID": info.cluster_id,
        "cTime": str(info.c_time),
        "storageType": info.storage_type,
    }
    if info.storage_type == NAME_NODE:
        values["blockpoolID"] = info.blockpool_id
    values["layoutVersion"] = str(info.layout_version)
    return format_properties(values, now)


def _accepted(values: dict[str, str], source: str, of: Collection[str]) -> str:
    """Return the storage type; refuse a missing type, and a type that is not in `of`."""
    found = values.get("storageType")
    if not found:
        raise VersionFileError(
            f"{source}: storageType is missing",
            hint=f"Find out which node uses the directory. If it is one of these types: {', '.join(sorted(of))}, copy "
            "VERSION there from a healthy storage directory of the same node.",
        )
    if found not in of:
        raise ForeignDirectoryError(
            f"{source} belongs to a {found}, not to a {' or '.join(sorted(of))}",
            hint="Specify another directory. This directory was not changed.",
        )
    return found


def _text(values: dict[str, str], key: str, source: str) -> str:
    if key not in values:
        raise VersionFileError(f"{source}: {key} is missing", hint=_hint(source))
    return values[key]


def _number(values: dict[str, str], key: str, source: str, *, bits: int) -> int:
    text = _text(values, key, source)
    try:
        number = int(text) if text.isascii() and "_" not in text else None
    except ValueError:
        number = None
    limit = 1 << (bits - 1)
    if number is None or not -limit <= number < limit:
        raise VersionFileError(f"{source}: {key}={text!r} is not a {bits}-bit integer", hint=_hint(source))
    return number


def _hint(source: str) -> str:
    return f"Copy VERSION from a healthy storage directory of the same namespace over {source}."
