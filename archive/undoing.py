"""Replays edits without some operations, and keeps everything that does not depend on these operations.

An omitted operation is replaced by an operation that changes nothing, with the same transaction id. Inodes that a
deletion or a rename would have removed are *restored*. Later operations are then adapted, one by one, to the resulting
namespace:

| later operation | what happens |
|---|---|
| creates something at, or renames something to, a restored path | `.undo-TXID` is appended to its path from here on |
| deletes a restored inode, or a directory above it | omitted |
| names a path that does not exist because an operation was omitted | omitted |
| everything else | applied unchanged |

Therefore, a later change is never lost, and a restored inode is never overwritten or deleted. Every omitted or changed
operation is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from archive.errors import NotOmittableError
from engine.errors import NamespaceError
from engine.namespace.namespace import Namespace
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY
from journal.dependents import ATTRIBUTE_OPS
from journal.op_times import clean_path, covers, op_paths
from journal.operation import EditOp
from journal.ops import AddOp, DeleteOp, MkdirOp, RenameOldOp, RenameOp, SymlinkOp
from journal.skipping import neutral_op

_PATH_FIELDS = ("path", "src", "dst", "trg", "snapshot_root")
_CREATIONS = (AddOp, MkdirOp, SymlinkOp)
_RENAMES = (RenameOldOp, RenameOp)
_CAN_BE_LEFT_OUT = (*_CREATIONS, *_RENAMES, DeleteOp, *ATTRIBUTE_OPS)
_MISSING = "does not exist without an omitted operation"


@dataclass(frozen=True, slots=True)
class UndoChange:
    """An operation that was omitted (`new_path` is "") or received another path."""

    txid: int
    operation: str
    path: str
    reason: str
    new_path: str = ""

    def __str__(self) -> str:
        what = f"{self.path} became {self.new_path}" if self.new_path else f"{self.path} omitted"
        return f"transaction {self.txid}, {self.operation}: {what}: {self.reason}"


class Undo:
    """Adaptation of operations to a namespace whose edits omit `txids`.

    Args:
        namespace: the namespace before the first of `txids`; the caller must apply each operation of `adapted` to this
            namespace before it requests the next operation.
        txids: operations to omit.
    """

    def __init__(self, namespace: Namespace, txids: Collection[int]) -> None:
        self._namespace = namespace
        self._txids = txids
        self._redirects: dict[str, str] = {}
        # rows of inodes that the omitted operations would have removed, and the last inode id at that moment
        self._restored: list[tuple[int, int]] = []
        self.changes: list[UndoChange] = []

    def adapted(self, ops: Iterable[EditOp]) -> Iterator[EditOp]:
        """Yield the operations to apply instead of `ops`."""
        for op in ops:
            yield self._adapt(op)

    def _adapt(self, op: EditOp) -> EditOp:
        redirected = self._follow_redirects(op)
        if op.txid in self._txids:
            self._restore(op, redirected)
            return self._leave_out(op, "requested")
        if not self.changes:
            return op
        if isinstance(redirected, _CREATIONS):
            return self._create(op, redirected)
        if isinstance(redirected, _RENAMES):
            return self._rename(op, redirected)
        if isinstance(redirected, DeleteOp):
            return self._delete(op, redirected)
        for path in op_paths(redirected):
            if self._row(path) == NO_ROW and clean_path(path) != "/":
                return self._leave_out(op, f"{path} {_MISSING}")
        return self._kept(op, redirected)

    # ---- kinds of operations -----------------------------------------------------------------------------------

    def _create(self, op: Any, redirected: Any) -> EditOp:
        path = clean_path(redirected.path)
        if self._row(_parent(path)) == NO_ROW:
            return self._leave_out(op, f"its directory {_MISSING}")
        row = self._row(path)
        same = row != NO_ROW and int(self._namespace.table.id[row]) == redirected.inode_id
        if same or not self._is_restored(row):
            return self._kept(op, redirected)
        free = self._redirects[clean_path(op.path)] = self._free(path, op.txid)
        return self._replaced(redirected, path, {"path": free})

    def _rename(self, op: Any, redirected: Any) -> EditOp:
        source = clean_path(redirected.src)
        if self._row(source) == NO_ROW:
            return self._leave_out(op, f"{redirected.src} {_MISSING}")
        recorded_text, target = self._target(op, redirected)
        if self._row(_parent(target)) == NO_ROW:
            self._moved(clean_path(op.src), source, recorded_text, source)
            return self._leave_out(op, f"the directory of its target {_MISSING}; the source stays at {source}")
        row = self._row(target)
        if self._is_restored(row) or self._holds_restored(row):
            free = self._free(target, op.txid)
            self._moved(clean_path(op.src), source, recorded_text, free)
            return self._replaced(redirected, target, {"dst": free})
        self._moved(clean_path(op.src), source, recorded_text, target)
        return self._kept(op, redirected)

    def _delete(self, op: Any, redirected: DeleteOp) -> EditOp:
        row = self._row(redirected.path)
        if row == NO_ROW:
            return self._leave_out(op, f"it {_MISSING}")
        path = clean_path(op.path)
        self._redirects = {old: new for old, new in self._redirects.items() if not covers(path, old)}
        if self._holds_restored(row) or self._is_restored(row):
            # from now on, the whole subtree exists only because this deletion is omitted
            self._restored.append((row, self._namespace.last_inode_id))
            return self._leave_out(op, "it would delete a restored path")
        return self._kept(op, redirected)

    # ---- restored inodes ---------------------------------------------------------------------------------------

    def _restore(self, op: Any, redirected: Any) -> None:
        """Mark the inodes that an omitted operation would have removed.

        Raises:
            NotOmittableError: the operation cannot be omitted.
        """
        if not isinstance(op, _CAN_BE_LEFT_OUT):
            raise NotOmittableError(
                f"transaction {op.txid} is {op.name}, which cannot be omitted",
                hint="Omit the deletion, rename, creation or change of attributes that was the mistake.",
            )
        given: Any = op
        if isinstance(redirected, _RENAMES):
            source = clean_path(redirected.src)
            recorded_text, target = self._target(op, redirected)
            self._mark(source)
            self._mark(target)
            # the inode stays where it was, and later operations find it there
            self._moved(clean_path(given.src), source, recorded_text, source)
        elif isinstance(redirected, DeleteOp):
            self._mark(redirected.path)
        elif isinstance(redirected, AddOp) and (row := self._row(redirected.path)) != NO_ROW:
            if int(self._namespace.table.id[row]) == redirected.inode_id or not redirected.overwrite:
                raise NotOmittableError(
                    f"transaction {op.txid}, an append to {given.path}, cannot be omitted",
                    hint="Restore the state before the append with --txid, or omit the deletion of the file.",
                )
            self._mark(redirected.path)
            # otherwise, operations on blocks and the close of the new file would find no file
            self._redirects[clean_path(given.path)] = self._free(clean_path(redirected.path), op.txid)

    def _mark(self, path: str) -> None:
        if (row := self._row(path)) != NO_ROW:
            self._restored.append((row, self._namespace.last_inode_id))

    def _is_restored(self, row: int) -> bool:
        """Return whether an inode exists only because an operation was omitted."""
        if row == NO_ROW:
            return False
        inode_id, tree = int(self._namespace.table.id[row]), self._namespace.tree
        return any(inode_id <= last_id and tree.is_ancestor(root, row) for root, last_id in self._restored)

    def _holds_restored(self, row: int) -> bool:
        """Return whether a restored inode is at or below `row`."""
        tree = self._namespace.tree
        return row != NO_ROW and any(tree.is_ancestor(row, restored) for restored, _ in self._restored)

    # ---- paths -------------------------------------------------------------------------------------------------

    def _follow_redirects(self, op: EditOp) -> EditOp:
        changes: dict[str, Any] = {}
        for name in _PATH_FIELDS:
            path = getattr(op, name, None)
            if isinstance(path, str) and (new := self._redirected(path)) != path:
                changes[name] = new
        sources = getattr(op, "srcs", ())
        if any(self._redirected(path) != path for path in sources):
            changes["srcs"] = tuple(self._redirected(path) for path in sources)
        return replace(op, **changes) if changes else op

    def _redirected(self, path: str) -> str:
        """Return the present path of an inode, given its path in the history."""
        if not self._redirects:
            return path
        clean = clean_path(path)
        for cut in range(len(clean), 0, -1):
            if (cut == len(clean) or clean[cut] == "/") and clean[:cut] in self._redirects:
                return self._redirects[clean[:cut]] + clean[cut:]
        return path

    def _target(self, op: Any, redirected: Any) -> tuple[str, str]:
        """Return the target of a rename, in the history and at present; OP_RENAME_OLD may move into a directory."""
        recorded_text, target = clean_path(op.dst), clean_path(redirected.dst)
        row = self._row(target)
        into = isinstance(op, RenameOldOp) and row != NO_ROW and clean_path(redirected.src) != target
        if into and self._namespace.table.kind[row] == DIRECTORY and not self._is_restored(row):
            name = clean_path(op.src).rpartition("/")[2]
            return f"{recorded_text.rstrip('/')}/{name}", f"{target.rstrip('/')}/{name}"
        return recorded_text, target

    def _moved(self, src: str, src_now: str, dst: str, dst_now: str) -> None:
        """Record that a move from `src` to `dst` in the history is performed as a move from `src_now` to `dst_now`.

        The keys of redirects are paths in the history, and the values are present paths.
        """
        known = {old: new for old, new in self._redirects.items() if not covers(src, old) and not covers(dst, old)}
        known |= {dst + old[len(src) :]: new for old, new in self._redirects.items() if covers(src, old)}
        self._redirects = {
            old: dst_now + new[len(src_now) :] if covers(src_now, new) else new for old, new in known.items()
        }
        if self._redirected(dst) != dst_now:
            self._redirects[dst] = dst_now

    def _free(self, path: str, txid: int) -> str:
        """Return a free path next to `path`."""
        free = f"{path}.undo-{txid}"
        while self._row(free) != NO_ROW:
            free += "-"
        return free

    def _row(self, path: str) -> int:
        try:
            return self._namespace.tree.paths.find(clean_path(path))
        except NamespaceError:
            return NO_ROW

    # ---- records -----------------------------------------------------------------------------------------------

    def _kept(self, op: EditOp, redirected: EditOp) -> EditOp:
        if redirected is not op:
            for old, new in zip(op_paths(op), op_paths(redirected), strict=True):
                if old != new:
                    reason = "the path of an earlier operation was changed"
                    self.changes.append(UndoChange(op.txid, op.name, old, reason, new))
        return redirected

    def _replaced(self, op: Any, path: str, changes: dict[str, str]) -> EditOp:
        (new,) = changes.values()
        self.changes.append(UndoChange(op.txid, op.name, path, "a restored file or directory has this path", new))
        adapted: EditOp = replace(op, **changes)
        return adapted

    def _leave_out(self, op: EditOp, reason: str) -> EditOp:
        self.changes.append(UndoChange(op.txid, op.name, ", ".join(op_paths(op)), reason))
        return neutral_op(op.txid)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
