"""Later operations that depend on a skipped operation because they name the same path, inode, block or other object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from journal.file_ops import RenameOldOp, RenameOp
from journal.op_times import clean_path, op_paths
from journal.operation import EditOp
from journal.ops import (
    RemoveXAttrOp,
    SetAclOp,
    SetOwnerOp,
    SetPermissionsOp,
    SetQuotaByStorageTypeOp,
    SetQuotaOp,
    SetReplicationOp,
    SetStoragePolicyOp,
    SetXAttrOp,
    TimesOp,
)
from journal.values import Block

# These operations do not affect the paths below their own path.
ATTRIBUTE_OPS = (
    RemoveXAttrOp,
    SetAclOp,
    SetOwnerOp,
    SetPermissionsOp,
    SetQuotaByStorageTypeOp,
    SetQuotaOp,
    SetReplicationOp,
    SetStoragePolicyOp,
    SetXAttrOp,
    TimesOp,
)
_SNAPSHOTS = ("snapshot_name", "snapshot_old_name", "snapshot_new_name")
# field, and its name in messages
_OTHERS = (("id", "cache directive"), ("pool_name", "cache pool"), ("policy_name", "erasure coding policy"))
_ROOT = "/"


class Dependent(NamedTuple):
    """An operation, and the object that it shares with a skipped operation."""

    txid: int
    operation: str
    because: str


def dependents(ops: Iterable[EditOp], left_out: Collection[int]) -> Iterator[Dependent]:
    """Yield the operations that depend on an earlier operation of `ops` with a txid in `left_out`.

    Renames are followed: operations that name the new path of an object also depend on it.
    """
    scope = _Scope()
    for op in ops:
        if op.txid in left_out:
            scope.add(op)
            continue
        if because := scope.shared(op):
            yield Dependent(op.txid, op.name, because)
        scope.follow(op)


class _Scope:
    """The objects that the skipped operations name."""

    def __init__(self) -> None:
        # value: whether paths below are included
        self._paths: dict[str, bool] = {}
        self._things: set[tuple[str, object]] = set()

    def add(self, op: EditOp) -> None:
        below = not isinstance(op, ATTRIBUTE_OPS)
        for path in _paths(op):
            self._paths[path] = self._paths.get(path, False) or (below and path != _ROOT)
        self._things.update(_things(op))

    def shared(self, op: EditOp) -> str:
        for path in _paths(op):
            if (found := self._covering(path)) is not None:
                return f"path {path}" if found == path else f"path {path}, which is below {found}"
        for kind, value in _things(op):
            if (kind, value) in self._things:
                return f"{kind} {value}"
        return ""

    def follow(self, op: EditOp) -> None:
        """Add the new paths of objects that a rename moves."""
        if not isinstance(op, RenameOldOp | RenameOp):
            return
        src, dst = clean_path(op.src), clean_path(op.dst)
        for path, below in list(self._paths.items()):
            if path == src or path.startswith(f"{src}/"):
                self._paths[dst + path[len(src) :]] = below

    def _covering(self, path: str) -> str | None:
        if path in self._paths:
            return path
        parents = (path[:cut] for cut in range(len(path) - 1, 0, -1) if path[cut] == "/")
        return next((each for each in parents if self._paths.get(each)), None)


def _paths(op: EditOp) -> list[str]:
    return [clean_path(path) for path in op_paths(op)]


def _things(op: EditOp) -> Iterator[tuple[str, object]]:
    if inode_id := getattr(op, "inode_id", 0):
        yield "inode", inode_id
    for block in _blocks(op):
        yield "block", block.block_id
        yield "generation stamp", block.genstamp
    if block_id := getattr(op, "block_id", 0):
        yield "block", block_id
    if genstamp := getattr(op, "genstamp", 0):
        yield "generation stamp", genstamp
    root = getattr(op, "snapshot_root", "")
    for field in _SNAPSHOTS:
        if name := getattr(op, field, ""):
            yield "snapshot", f"{clean_path(root)}/.snapshot/{name}"
    for field, kind in _OTHERS:
        if value := getattr(op, field, None):
            yield kind, value
    if (directive := getattr(op, "directive", None)) is not None:
        yield "cache directive", directive.id
    if (pool := getattr(op, "pool", None)) is not None:
        yield "cache pool", pool.pool_name
    if (token := getattr(op, "token", None)) is not None:
        yield "delegation token", token.sequence_number


def _blocks(op: EditOp) -> tuple[Block, ...]:
    one = getattr(op, "truncate_block", None)
    return (*getattr(op, "blocks", ()), *((one,) if one is not None else ()))
