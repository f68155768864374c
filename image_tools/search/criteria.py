"""Predicates of a search, evaluated for whole batches of inodes, except predicates that need a record."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import unsigned64
from image_format.inode_columns import InodeColumns
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_tools.dump.values import SerialNames

Mask = npt.NDArray[np.bool_]

KINDS = {"file": FILE, "directory": DIRECTORY, "symlink": SYMLINK}
_MODE_BITS = 16


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Range of numbers from `least` to `most`, both included; None means no limit."""

    least: int | None = None
    most: int | None = None

    def narrow(self, mask: Mask, numbers: npt.NDArray[np.int64]) -> None:
        """Clear the entries of `mask` whose number is outside the range."""
        if self.least is not None:
            mask &= numbers >= self.least
        if self.most is not None:
            mask &= numbers <= self.most

    def __bool__(self) -> bool:
        return self.least is not None or self.most is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """The criteria of a search; unset fields match every inode.

    Attributes:
        name: glob for the local name; `*` matches any characters, `?` one character, and `[...]` one of a set.
        kind: a key of `KINDS`.
        size: size of files, in bytes; other kinds of inodes do not match if a limit is set.
        modified, accessed: times in ms since 1970; directories have no access time.
        replication: replication of files.
        policy: name of the storage policy that is set on the inode itself.
        acl: whether the inode has entries beyond its mode.
    """

    name: str = ""
    kind: str = ""
    owner: str = ""
    group: str = ""
    size: NumberRange = NumberRange()
    modified: NumberRange = NumberRange()
    accessed: NumberRange = NumberRange()
    replication: NumberRange = NumberRange()
    policy: str = ""
    acl: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether the records of the remaining inodes must be decoded."""
        return self.acl or bool(self.policy)


class CriteriaMatcher:
    """Evaluation of criteria for batches of one image; `names` decodes owners and groups."""

    def __init__(self, criteria: Criteria, names: SerialNames) -> None:
        self._criteria = criteria
        self._names = names
        self._owned: dict[int, bool] = {}
        self._fits = _name_test(criteria.name) if criteria.name else None

    def mask(self, columns: InodeColumns) -> Mask:
        """Return a mask of the inodes that may match, by all columns except the name.

        Raises:
            RecordError: the string table lacks an owner or a group.
        """
        wanted = self._criteria
        mask = np.ones(columns.kind.size, np.bool_)
        if wanted.kind:
            mask &= columns.kind == KINDS[wanted.kind]
        if wanted.size or wanted.replication:
            mask &= columns.kind == FILE
        if wanted.accessed:
            mask &= columns.kind != DIRECTORY
        wanted.size.narrow(mask, columns.length)
        wanted.replication.narrow(mask, columns.replication)
        wanted.modified.narrow(mask, columns.mtime)
        wanted.accessed.narrow(mask, columns.atime)
        if wanted.owner or wanted.group:
            pairs, which = np.unique(columns.permission >> _MODE_BITS, return_inverse=True)
            owned = np.fromiter(map(self._is_owned, pairs.tolist()), np.bool_, pairs.size)
            mask &= owned[which]
        return mask

    def named(self, buffer: npt.NDArray[np.uint8], columns: InodeColumns) -> Mask:
        """Return a mask of the inodes with a matching name in the INODE section `buffer`."""
        if self._fits is None:
            return np.ones(columns.kind.size, np.bool_)
        ends = (columns.name_start + columns.name_size).tolist()
        found = map(self._fits, repeat(buffer.data), columns.name_start.tolist(), ends)
        return np.fromiter(found, np.bool_, columns.kind.size)

    def _is_owned(self, pair: int) -> bool:
        """Return whether the serials of an owner and a group match."""
        known = self._owned.get(pair)
        if known is None:
            owner = self._names.owner(unsigned64(pair << _MODE_BITS))
            by_user = not self._criteria.owner or owner.user == self._criteria.owner
            known = self._owned[pair] = by_user and (not self._criteria.group or owner.group == self._criteria.group)
        return known


def _name_test(glob: str) -> Callable[[memoryview, int, int], bool]:
    """Return a predicate for the UTF-8 name between two offsets; `?` and `[...]` match one character."""
    pattern = fnmatch.translate(glob)
    if {"?", "["}.isdisjoint(glob):
        # matching this glob by bytes avoids decoding each name
        by_bytes = re.compile(pattern.encode("utf-8", "surrogateescape")).match
        return lambda content, start, end: by_bytes(content, start, end) is not None
    by_characters = re.compile(pattern).match
    return lambda content, start, end: by_characters(str(content[start:end], "utf-8", "surrogateescape")) is not None
