"""The directory of a JSON journal: listing of its files, and durable writes of these files and of `journal.json`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import SEEK_END, BufferedReader
from pathlib import Path
from typing import Any

from hadoop_common.durable import fsync_directory, remove_durably, write_atomically, written_atomically
from hadoop_common.storage_info import StorageInfo
from journal.errors import EditsTextError, JournalError, UnsupportedEditsLayoutError
from journal.json_records import decode_record, encode_record
from journal.json_segments import MANIFEST, JsonFile, is_temporary, json_file_name, parse_json_file
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp

_MARKER = 512  # bytes; longer than a line of START_LOG_SEGMENT or END_LOG_SEGMENT
_Key = tuple[str, int]  # file name and inode number


class JsonFolder:
    """Repeated listing of a directory, which reads the first and last line of each file only once; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        self._known: dict[_Key, JsonFile] = {}

    def manifest(self) -> JsonManifest | None:
        """Return the manifest in `journal.json`; None if the file is missing.

        Raises:
            JournalError: the file is damaged.
            OSError: the file cannot be read.
        """
        path = self.path / MANIFEST
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        return decode_manifest(content, file=str(path))

    def files(self) -> list[JsonFile]:
        """Return the files of transactions, in any order.

        Raises:
            SegmentError: a file does not belong to the journal.
            OSError: the directory cannot be read.
        """
        with os.scandir(self.path) as entries:
            listed = [(entry.name, entry.inode()) for entry in entries]
        with self._guard:
            found = [(key, self._load(key)) for key in listed]
            self._known = {key: file for key, file in found if file is not None}
            return list(self._known.values())

    def _load(self, key: _Key) -> JsonFile | None:
        if key in self._known:
            return self._known[key]
        path = self.path / key[0]
        txids = parse_json_file(path)
        if txids is None:
            return None
        try:
            with path.open("rb") as source:
                opens, closes = _is_line(_head(source), StartLogSegmentOp), _is_line(_tail(source), EndLogSegmentOp)
        except FileNotFoundError:
            # The file was purged since the listing.
            return None
        return JsonFile(*txids, path, opens, closes)

    def write_manifest(self, manifest: JsonManifest) -> None:
        """Replace `journal.json` atomically and durably.

        Raises:
            OSError: the replacement failed; the file has either the old or the new content.
        """
        write_atomically(self.path / MANIFEST, encode_manifest(manifest))

    def write_ops(self, ops: Iterable[EditOp], first: int, last: int, layout_version: int) -> JsonFile:
        """Write a complete and durable file of transactions `first` to `last`.

        Raises:
            OSError: the file may exist without being durable.
        """
        path = self.path / json_file_name(first, last)
        kinds = []
        named: int | None = layout_version
        with written_atomically(path) as out:
            for op in ops:
                out.write(encode_record(op, named).encode() + b"\n")
                kinds.append(type(op))
                named = None
        return JsonFile(first, last, path, kinds[0] is StartLogSegmentOp, kinds[-1] is EndLogSegmentOp)

    def remove_temporary(self) -> None:
        """Remove temporary files left by a killed process, and make all names durable.

        Raises:
            OSError: a file cannot be removed, or the sync failed.
        """
        for path in list(self.path.iterdir()):
            if is_temporary(path.name):
                path.unlink(missing_ok=True)
        fsync_directory(self.path)

    def remove_journal(self) -> None:
        """Remove the journal's files, `journal.json` first, so that files left by a failure do not count as a journal.

        Raises:
            SegmentError: a file does not belong to the journal; nothing is changed.
            OSError: the removal failed; some files may have been removed.
        """
        files = self.files()
        remove_durably(self.path / MANIFEST)
        for each in files:
            each.path.unlink(missing_ok=True)
        self.remove_temporary()


def _head(source: BufferedReader) -> bytes:
    return source.read(_MARKER).lstrip().partition(b"\n")[0]


def _tail(source: BufferedReader) -> bytes:
    size = source.seek(0, SEEK_END)
    source.seek(max(0, size - _MARKER))
    return source.read().rstrip().rpartition(b"\n")[2]


def _is_line(line: bytes, kind: type[EditOp]) -> bool:
    """Return whether a line is a marker of this kind. Return False for a damaged line, which the reader reports."""
    if b"LOG_SEGMENT" not in line.upper():
        return False
    try:
        return type(decode_record(line.decode("utf-8")).op) is kind
    except (UnicodeDecodeError, EditsTextError):
        return False


_VERSION = 1
_NAMES = {
    "layoutVersion": "layout_version",
    "namespaceID": "namespace_id",
    "cTime": "c_time",
    "clusterID": "cluster_id",
    "blockpoolID": "blockpool_id",
    "storageType": "storage_type",
}
_NUMBERS = {"layoutVersion", "namespaceID", "cTime"}


@dataclass(frozen=True, slots=True)
class JsonManifest:
    """The content of `journal.json`, which the records do not contain.

    Attributes:
        namespace: namespace of the transactions; its layout version applies to records without a layout version.
        ends: last txids of finalized segments that have no END_LOG_SEGMENT.
    """

    namespace: StorageInfo
    ends: frozenset[int] = frozenset()


def encode_manifest(manifest: JsonManifest) -> bytes:
    """Encode `manifest` as the content of `journal.json`."""
    namespace = {name: getattr(manifest.namespace, attribute) for name, attribute in _NAMES.items()}
    content = {"version": _VERSION, "namespace": namespace, "ends": sorted(manifest.ends)}
    return (json.dumps(content, indent=1) + "\n").encode()


def decode_manifest(content: bytes, *, file: str = "") -> JsonManifest:
    """Parse the output of `encode_manifest`, ignoring other members.

    Raises:
        UnsupportedEditsLayoutError: the version is unknown.
        JournalError: the content is damaged.
    """
    try:
        members = json.loads(content)
        version = members["version"]
        if version == _VERSION:
            namespace, ends = members["namespace"], members["ends"]
            values = {attribute: _member(namespace, name) for name, attribute in _NAMES.items()}
            return JsonManifest(StorageInfo(**values), frozenset(map(_txid, ends)))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        hint = "Restore the file from a copy; without it, the journal can be read, but not written."
        raise JournalError(f"the file does not describe a JSON journal: {error!r}", file=file, hint=hint) from None
    raise UnsupportedEditsLayoutError(
        f"unknown version {version!r} of a JSON journal; only version {_VERSION} is known", file=file
    )


def _member(namespace: Mapping[str, Any], name: str) -> Any:
    value = namespace[name]
    expected = int if name in _NUMBERS else str
    if type(value) is not expected:
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    return value


def _txid(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{str(value)[:40]!r} is not a transaction id")
    return value
