"""Results that this process remembers about image files, so that an unchanged file is not read twice.

The results are a file's digest, and whether a NameNode can load the file.

A file is identified by device, inode, size, mtime and ctime. Every write, rename or replacement changes one of these
values, so results never become stale. `checkpointer image verify` always reads the bytes, so it detects a disk that
corrupts them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
FileIdentity = tuple[int, int, int, int, int]
_MAX_KNOWN = 64

_digests: OrderedDict[FileIdentity, bytes] = OrderedDict()
_loadable: OrderedDict[FileIdentity, bool] = OrderedDict()
_guard = threading.Lock()


def identity_of(found: os.stat_result) -> FileIdentity:
    """Return the identity of a file, which changes whenever the file changes."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def identity_at(path: Path) -> FileIdentity | None:
    """Return the identity of the file at `path`, or None if it cannot be read."""
    try:
        return identity_of(path.stat())
    except OSError:
        return None


def remember_digest(path: Path, md5: bytes) -> None:
    """Remember a digest that was computed from the bytes of a file, which already has its final name.

    Nothing is remembered if the identity cannot be read.
    """
    if (identity := identity_at(path)) is not None:
        _remember(_digests, identity, md5)


def _remember(known: OrderedDict[FileIdentity, T], identity: FileIdentity, value: T) -> None:
    with _guard:
        known[identity] = value
        known.move_to_end(identity)
        while len(known) > _MAX_KNOWN:
            known.popitem(last=False)


def known_digest(identity: FileIdentity) -> bytes | None:
    """Return the MD5 (16 bytes) of the file with this identity, or None if this process has not computed it."""
    with _guard:
        return _digests.get(identity)


def remember_loadable(identity: FileIdentity | None, *, whole: bool) -> None:
    """Remember that a NameNode can load a file that was checked, or was derived from a checked file.

    Args:
        whole: whether the links between records were also checked.
    """
    if identity is not None:
        _remember(_loadable, identity, whole)


def is_known_loadable(identity: FileIdentity | None, *, whole: bool) -> bool:
    """Return whether the file with this identity was checked to the extent that `whole` requires."""
    with _guard:
        known = None if identity is None else _loadable.get(identity)
    return known is not None and (known or not whole)
