"""Operations with defaults for the fields that are irrelevant to a test."""

from __future__ import annotations

from journal import ops
from tests.engine.image_builder import MODE, OWNER

LATER = 5000


def mkdir(path: str, inode_id: int, timestamp: int = LATER, **fields: object) -> ops.MkdirOp:
    return ops.MkdirOp(path=path, inode_id=inode_id, timestamp=timestamp, **{"permissions": OWNER, **fields})  # type: ignore[arg-type]


def add(path: str, inode_id: int, mtime: int = LATER, **fields: object) -> ops.AddOp:
    defaults: dict[str, object] = {
        "replication": 3,
        "atime": mtime,
        "block_size": 128,
        "permissions": OWNER._replace(mode=MODE & ~0o111),
        "client_name": "client",
        "client_machine": "host",
    }
    return ops.AddOp(path=path, inode_id=inode_id, mtime=mtime, **{**defaults, **fields})  # type: ignore[arg-type]


def close(path: str, mtime: int = LATER, **fields: object) -> ops.CloseOp:
    defaults: dict[str, object] = {"replication": 3, "atime": mtime, "block_size": 128, "permissions": OWNER}
    return ops.CloseOp(path=path, mtime=mtime, **{**defaults, **fields})  # type: ignore[arg-type]


def delete(path: str, timestamp: int = LATER) -> ops.DeleteOp:
    return ops.DeleteOp(path=path, timestamp=timestamp)


def rename(src: str, dst: str, timestamp: int = LATER, *, overwrite: bool = False) -> ops.RenameOp:
    options = bytes([ops.RENAME_OVERWRITE]) if overwrite else b""
    return ops.RenameOp(src=src, dst=dst, timestamp=timestamp, options=options)


def rename_old(src: str, dst: str, timestamp: int = LATER) -> ops.RenameOldOp:
    return ops.RenameOldOp(src=src, dst=dst, timestamp=timestamp)


def set_permissions(path: str, mode: int) -> ops.SetPermissionsOp:
    return ops.SetPermissionsOp(src=path, mode=mode)


def times(path: str, mtime: int = -1, atime: int = -1) -> ops.TimesOp:
    return ops.TimesOp(path=path, mtime=mtime, atime=atime)
