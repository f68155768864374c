"""What this process knows of image files that it wrote or verified: nothing is read twice while nobody touches a file.

That is the digest of a file, and whether a NameNode loads it.

A file is known by device, inode, size and both times of change. Whoever writes to it, renames it or puts another in its
place changes one of these, so there is nothing to forget; a disk that changes bytes by itself is found by
`checkpointer image verify`, which always reads them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

FileIdentity = tuple[int, int, int, int, int]
_MAX_KNOWN = 64

_digests: OrderedDict[FileIdentity, bytes] = OrderedDict()
_loadable: OrderedDict[FileIdentity, bool] = OrderedDict()
_guard = threading.Lock()


def identity_of(found: os.stat_result) -> FileIdentity:
    """What tells a file, as it is now, from others and from itself before a change."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def identity_at(path: Path) -> FileIdentity | None:
    """The identity of the file at `path`, None where it cannot be looked at."""
    try:
        return identity_of(path.stat())
    except OSError:
        return None


def remember_digest(path: Path, md5: bytes) -> None:
    """A file under its final name has this digest: it was taken of the bytes, not read from a `.md5` file.

    One that cannot be looked at is not remembered.
    """
    identity = identity_at(path)
    if identity is None:
        return
    with _guard:
        _digests[identity] = md5
        _digests.move_to_end(identity)
        while len(_digests) > _MAX_KNOWN:
            _digests.popitem(last=False)


def known_digest(identity: FileIdentity) -> bytes | None:
    """MD5 (16 bytes) of a file of this identity, None where this process has not taken it."""
    with _guard:
        return _digests.get(identity)


def remember_loadable(identity: FileIdentity | None, *, whole: bool) -> None:
    """A file was checked to load, or was written of one that was; one without an identity is not remembered.

    Args:
        whole: whether what leads from one record to another was checked too.
    """
    if identity is None:
        return
    with _guard:
        _loadable[identity] = whole
        _loadable.move_to_end(identity)
        while len(_loadable) > _MAX_KNOWN:
            _loadable.popitem(last=False)


def is_known_loadable(identity: FileIdentity | None, *, whole: bool) -> bool:
    """Whether the file of this identity was checked as far as `whole` says; see `remember_loadable`."""
    with _guard:
        known = None if identity is None else _loadable.get(identity)
    return known is not None and (known or not whole)
