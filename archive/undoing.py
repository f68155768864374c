"""Replay without some operations: they are left out, and everything that does not depend on them stays.

An operation that is left out is replaced by one that changes nothing, at the same transaction id. What a deletion or a
rename would have removed is *restored*. Later operations are then adapted, one by one, to the namespace they meet:

| later operation | what happens |
|---|---|
| creates or renames to a path that is restored | the path gets `.undo-TXID` at its end; later operations follow |
| deletes something restored, or a directory above it | left out |
| names a path that exists only with an operation that was left out | left out |
| everything else | applied unchanged |

So nothing that was written later is lost, and nothing restored is overwritten or deleted. Every operation that is left
out or changed is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import NamespaceError
from engine.namespace.namespace import Namespace
from image_format.inode_table import DIRECTORY, NO_ROW
from journal.op_times import clean_path, op_paths
from journal.operation import EditOp
from journal.ops import AddOp, ConcatDeleteOp, DeleteOp, MkdirOp, RenameOldOp, RenameOp, SymlinkOp
from journal.skipping import neutral_op

_PATH_FIELDS = ("path", "src", "dst", "trg", "snapshot_root")
_CREATIONS = (AddOp, MkdirOp, SymlinkOp)
_RENAMES = (RenameOldOp, RenameOp)


@dataclass(frozen=True, slots=True)
class UndoChange:
    """An operation that was left out (`new_path` is "") or got another path."""

    txid: int
    operation: str
    path: str
    reason: str
    new_path: str = ""

    def __str__(self) -> str:
        what = f"{self.path} became {self.new_path}" if self.new_path else f"{self.path} left out"
        return f"transaction {self.txid}, {self.operation}: {what}: {self.reason}"


class Undo:
    """Adapts operations to a namespace from which `txids` are left out.

    Args:
        namespace: the namespace before the first of `txids`; each operation of `adapted` has to be applied to it before
            the next one is requested.
        txids: operations to leave out.
    """

    def __init__(self, namespace: Namespace, txids: Collection[int]) -> None:
        self._namespace = namespace
        self._txids = txids
        self._redirects: dict[str, str] = {}
        # rows of the inodes that operations left out would have removed, and the last inode id at that moment
        self._restored: list[tuple[int, int]] = []
        self.changes: list[UndoChange] = []

    def adapted(self, ops: Iterable[EditOp]) -> Iterator[EditOp]:
        """Yield what is to be applied in place of each operation."""
        for op in ops:
            yield self._adapt(op)

    def _adapt(self, op: EditOp) -> EditOp:
        redirected = self._follow_redirects(op)
        if op.txid in self._txids:
            self._restore(redirected)
            if isinstance(redirected, _RENAMES):
                # what was to move stays where it was, and later operations find it there
                self._redirects[clean_path(redirected.dst)] = clean_path(redirected.src)
            return self._leave_out(op, "requested")
        if not self._restored and not self._redirects and not self.changes:
            return op
        if isinstance(redirected, _CREATIONS):
            return self._create(op, redirected)
        if isinstance(redirected, _RENAMES):
            return self._rename(op, redirected)
        if isinstance(redirected, DeleteOp):
            return self._delete(op, redirected)
        for path in op_paths(redirected):
            if self._row(path) == NO_ROW and clean_path(path) != "/":
                return self._leave_out(op, f"{path} does not exist without an operation that was left out")
        return self._kept(op, redirected)

    # ---- kinds of operations -----------------------------------------------------------------------------------

    def _create(self, op: EditOp, redirected: Any) -> EditOp:
        path = clean_path(redirected.path)
        if self._row(path.rpartition("/")[0] or "/") == NO_ROW:
            return self._leave_out(op, "its directory does not exist without an operation that was left out")
        row = self._row(path)
        same = row != NO_ROW and int(self._namespace.table.id[row]) == redirected.inode_id
        if same or not self._is_restored(row):
            return self._kept(op, redirected)
        return self._replaced(redirected, path, {"path": self._redirect(path, op.txid)})

    def _rename(self, op: EditOp, redirected: Any) -> EditOp:
        if self._row(redirected.src) == NO_ROW:
            return self._leave_out(op, f"{redirected.src} does not exist without an operation that was left out")
        target = clean_path(redirected.dst)
        row = self._row(target)
        if (
            isinstance(redirected, RenameOldOp)
            and row != NO_ROW
            and not self._is_restored(row)
            and self._is_folder(row)
        ):
            # it moves the source into the directory
            target = f"{target.rstrip('/')}/{clean_path(redirected.src).rpartition('/')[2]}"
            row = self._row(target)
        self._move_redirects(clean_path(redirected.src), clean_path(redirected.dst))
        if self._is_restored(row):
            return self._replaced(redirected, target, {"dst": self._redirect(target, op.txid)})
        return self._kept(op, redirected)

    def _delete(self, op: EditOp, redirected: DeleteOp) -> EditOp:
        row = self._row(redirected.path)
        if row == NO_ROW:
            return self._leave_out(op, "it does not exist without an operation that was left out")
        tree = self._namespace.tree
        if any(tree.is_ancestor(row, restored) for restored, _ in self._restored) or self._is_restored(row):
            return self._leave_out(op, "it would delete what is restored")
        self._redirects.pop(clean_path(getattr(op, "path", "")), None)
        return self._kept(op, redirected)

    # ---- what is restored --------------------------------------------------------------------------------------

    def _restore(self, op: EditOp) -> None:
        """Remember what `op`, which is left out, would have removed."""
        gone = [op.path] if isinstance(op, DeleteOp) else [op.dst] if isinstance(op, _RENAMES) else []
        gone += [op.src] if isinstance(op, _RENAMES) else list(op.srcs) if isinstance(op, ConcatDeleteOp) else []
        last_id = self._namespace.last_inode_id
        for path in gone:
            if (row := self._row(path)) != NO_ROW:
                self._restored.append((row, last_id))

    def _is_restored(self, row: int) -> bool:
        """Return whether an inode exists only because an operation was left out."""
        if row == NO_ROW:
            return False
        inode_id, tree = int(self._namespace.table.id[row]), self._namespace.tree
        return any(inode_id <= last_id and tree.is_ancestor(root, row) for root, last_id in self._restored)

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
        if not self._redirects:
            return path
        clean = clean_path(path)
        for cut in range(len(clean), 0, -1):
            if (cut == len(clean) or clean[cut] == "/") and clean[:cut] in self._redirects:
                return self._redirects[clean[:cut]] + clean[cut:]
        return path

    def _redirect(self, path: str, txid: int) -> str:
        """Choose a free path next to `path`, to which later operations are redirected."""
        new = f"{path}.undo-{txid}"
        self._redirects[path] = new
        return new

    def _move_redirects(self, src: str, dst: str) -> None:
        """A rename takes along the redirects below its source."""
        for path in [each for each in self._redirects if each.startswith(f"{src}/")]:
            self._redirects[dst + path[len(src) :]] = dst + self._redirects.pop(path)[len(src) :]

    def _row(self, path: str) -> int:
        try:
            return self._namespace.tree.paths.find(clean_path(path))
        except NamespaceError:
            return NO_ROW

    def _is_folder(self, row: int) -> bool:
        return bool(self._namespace.table.kind[row] == DIRECTORY)

    # ---- records -----------------------------------------------------------------------------------------------

    def _kept(self, op: EditOp, redirected: EditOp) -> EditOp:
        if redirected is not op:
            for old, new in zip(op_paths(op), op_paths(redirected), strict=True):
                if old != new:
                    reason = "an earlier operation got another path"
                    self.changes.append(UndoChange(op.txid, op.name, old, reason, new))
        return redirected

    def _replaced(self, op: Any, path: str, changes: dict[str, str]) -> EditOp:
        (new,) = changes.values()
        self.changes.append(UndoChange(op.txid, op.name, path, "something restored has this path", new))
        adapted: EditOp = replace(op, **changes)
        return adapted

    def _leave_out(self, op: EditOp, reason: str) -> EditOp:
        self.changes.append(UndoChange(op.txid, op.name, ", ".join(op_paths(op)), reason))
        return neutral_op(op.txid)
