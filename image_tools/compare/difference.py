"""A difference between two images, and the comparison of tables of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

Attributes = Mapping[str, Any]
"""Attributes of an item by name; values are None, numbers, booleans, strings or lists of strings."""
_K = TypeVar("_K", int, str, tuple[object, ...])


class ChangeKind(Enum):
    """Kind of a change between the first and the second image."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RENAMED = "renamed"


class ItemKind(Enum):
    COUNTER = "counter"
    ERASURE_CODING_POLICY = "erasure coding policy"
    INODE = "inode"
    DIRECTORY_ENTRY = "directory entry"
    REFERENCE = "reference"
    SNAPSHOTTABLE_DIRECTORY = "snapshottable directory"
    SNAPSHOT = "snapshot"
    SNAPSHOT_DIFF = "snapshot diff"
    LEASE = "lease"
    MASTER_KEY = "master key"
    TOKEN = "delegation token"
    CACHE_POOL = "cache pool"
    CACHE_DIRECTIVE = "cache directive"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two images.

    Attributes:
        topic: kind of the item.
        kind: whether the item was added, removed, renamed or changed.
        subject: path, name or number of the item.
        attribute: name of the attribute for CHANGED, otherwise "".
        old, new: values of the attribute, None if absent; for RENAMED the paths.
        inode_id: id of the inode, None if the item has none.
        detail: text that distinguishes differences with the same subject, or "".
    """

    topic: ItemKind
    kind: ChangeKind
    subject: str
    attribute: str = ""
    old: Any = None
    new: Any = None
    inode_id: int | None = None
    detail: str = ""


def changed_attributes(
    topic: ItemKind, subject: str, old: Attributes, new: Attributes, *, inode_id: int | None = None, detail: str = ""
) -> Iterator[Difference]:
    """Yield a difference for each attribute with different values; an absent attribute is None."""
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield Difference(topic, ChangeKind.CHANGED, subject, name, old.get(name), new.get(name), inode_id, detail)


def _as_subject(key: object) -> tuple[str, str]:
    return str(key), ""


def compare_tables(
    topic: ItemKind,
    old: Mapping[_K, Attributes],
    new: Mapping[_K, Attributes],
    named: Callable[[_K], tuple[str, str]] = _as_subject,
) -> Iterator[Difference]:
    """Yield the differences between two tables of items, in key order; the `inode` attribute is the inode id.

    Args:
        named: returns the subject and the detail of an item by its key.
    """
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        inode_id = (after or before or {}).get("inode")
        subject, detail = named(key)
        if before is None:
            text = _text(after or {})
            yield Difference(topic, ChangeKind.ADDED, subject, new=text, inode_id=inode_id, detail=detail)
        elif after is None:
            text = _text(before)
            yield Difference(topic, ChangeKind.REMOVED, subject, old=text, inode_id=inode_id, detail=detail)
        else:
            yield from changed_attributes(topic, subject, before, after, inode_id=inode_id, detail=detail)


def _text(attributes: Attributes) -> str:
    return ", ".join(f"{name}={value}" for name, value in attributes.items() if value not in (None, "", []))
