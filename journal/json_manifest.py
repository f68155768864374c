"""`journal.json` of a JSON journal: the version of its records, whose namespace it is, and where segments ended."""

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
    """What the records do not say.

    Attributes:
        namespace: its layout version is that of records that name none.
        ends: last txids of finalized segments that have no END_LOG_SEGMENT.
    """

    namespace: StorageInfo
    ends: frozenset[int] = frozenset()


def encode_manifest(manifest: JsonManifest) -> bytes:
    """The content of `journal.json`."""
    namespace = {name: getattr(manifest.namespace, attribute) for name, attribute in _NAMES.items()}
    content = {"version": _VERSION, "namespace": namespace, "ends": sorted(manifest.ends)}
    return (json.dumps(content, indent=1) + "\n").encode()


def decode_manifest(content: bytes, *, file: str = "") -> JsonManifest:
    """What `encode_manifest` wrote; members of other names are passed over.

    Raises:
        UnsupportedLayoutError: it is of a version that is not known.
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
        hint = "Restore it from a copy; without it the journal can be read, but not written."
        raise JournalError(f"it does not describe a JSON journal: {error!r}", file=file, hint=hint) from None
    raise UnsupportedLayoutError(f"version {version!r} of JSON journals is not known, only {_VERSION}", file=file)


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
