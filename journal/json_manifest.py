"""`journal.json` of a JSON journal: version of its records, namespace, and ends of segments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hadoop_common.storage_info import StorageInfo
from journal.errors import JournalError, UnsupportedLayoutError

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
    """Facts that the records do not contain.

    Attributes:
        namespace: its layout version applies to records without one.
        ends: last txids of finalized segments that have no END_LOG_SEGMENT.
    """

    namespace: StorageInfo
    ends: frozenset[int] = frozenset()


def encode_manifest(manifest: JsonManifest) -> bytes:
    """Return the content of `journal.json`."""
    namespace = {name: getattr(manifest.namespace, attribute) for name, attribute in _NAMES.items()}
    content = {"version": _VERSION, "namespace": namespace, "ends": sorted(manifest.ends)}
    return (json.dumps(content, indent=1) + "\n").encode()


def decode_manifest(content: bytes, *, file: str = "") -> JsonManifest:
    """Parse the output of `encode_manifest`; ignores other members.

    Raises:
        UnsupportedLayoutError: the version is unknown.
        JournalError: it is damaged.
    """
    try:
        members = json.loads(content)
        version = members["version"]
        if version == _VERSION:
            namespace, ends = members["namespace"], members["ends"]
            values = {attribute: _member(namespace, name) for name, attribute in _NAMES.items()}
            return JsonManifest(StorageInfo(**values), frozenset(map(_txid, ends)))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        hint = "Restore the file from a copy; without it the journal can be read, but not written."
        raise JournalError(f"the file does not describe a JSON journal: {error!r}", file=file, hint=hint) from None
    raise UnsupportedLayoutError(f"unknown version {version!r} of a JSON journal, only {_VERSION} is known", file=file)


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
