"""Operations with paths that Java clients never send, each on the namespace of `ignored_ops.SCENE`, and the results of
Hadoop 2.7.3 and 3.4.2 NameNodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import OWNER
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.snapshot_support import allow, create

NEW = 17000
REFUSED = "refused"

Change = tuple[set[str], set[str]] | str
"""Removed paths and added paths, or `REFUSED`."""


def symlink(path: str, inode_id: int = NEW) -> EditOp:
    return ops.SymlinkOp(path=path, inode_id=inode_id, target="t", mtime=1, atime=1, permissions=OWNER)


def moved(source: str, target: str) -> Change:
    return {source}, {target}


def came(*paths: str) -> Change:
    return set(), set(paths)


def gone(*paths: str) -> Change:
    return set(paths), set()


NOTHING: Change = (set(), set())
_DOTS = (mkdir("/d/.", NEW), mkdir("/d/..", NEW + 1), mkdir("/d/../x", NEW + 2))

Case = tuple[tuple[EditOp, ...], Change, Change]
"""Operations, and the changes of the tree in Hadoop 2.7 and in Hadoop 3."""

CASES: Sequence[Case] = (
    ((rename_old("/d/f", "/z/n/"),), moved("/d/f", "/z/n"), moved("/d/f", "/z/n")),
    ((rename_old("/d/f", "/z/n//"),), moved("/d/f", "/z/n"), moved("/d/f", "/z/n")),
    ((rename_old("/d/f/", "/z/n"),), moved("/d/f", "/z/n"), moved("/d/f", "/z/n")),
    ((rename_old("/d/f/", "/z"),), moved("/d/f", "/z/f"), moved("/d/f", "/z/f")),
    ((rename_old("/d/f", "/z/"),), NOTHING, moved("/d/f", "/z/f")),
    ((rename_old("/d/f", "/"),), NOTHING, moved("/d/f", "/f")),
    ((rename_old("/d/f", "//n"),), NOTHING, moved("/d/f", "/n")),
    ((rename_old("//d/f", "/z/n"),), NOTHING, moved("/d/f", "/z/n")),
    ((rename_old("/d/f", "/open/x"),), REFUSED, REFUSED),
    ((rename_old("/d/f", "/open/x/y"),), NOTHING, REFUSED),
    ((rename_old("/d/f", "/l/x"),), REFUSED, REFUSED),
    ((rename_old("/l", "/z/l/"),), moved("/l", "/z/l"), moved("/l", "/z/l")),
    ((rename_old("/s", "/none/s"),), REFUSED, REFUSED),
    ((rename_old("/d/f", "/.reserved"),), REFUSED, REFUSED),
    ((rename_old("/d/f", "/z/.reserved"),), moved("/d/f", "/z/.reserved"), moved("/d/f", "/z/.reserved")),
    ((rename_old("/d/f", "/z/.snapshot"),), REFUSED, REFUSED),
    ((rename_old("/d/f", "/s/.snapshot/s1"),), REFUSED, REFUSED),
    ((rename_old("d/f", "/z/n"),), REFUSED, REFUSED),
    ((rename_old("/d/f", ""),), REFUSED, REFUSED),
    ((*_DOTS, rename_old("/d/../x", "/z")), came("/d/.", "/d/..", "/z/x"), came("/d/.", "/d/..", "/z/x")),
    ((*_DOTS, rename_old("/d/..", "/z")), came("/d/.", "/d/..", "/d/../x"), came("/d/.", "/z/..", "/z/../x")),
    ((rename("/d/f", "/z/n/"),), moved("/d/f", "/z/n"), moved("/d/f", "/z/n")),
    ((rename("/d/f/", "/z/n"),), moved("/d/f", "/z/n"), moved("/d/f", "/z/n")),
    ((rename("/d/f", "/z//n"),), REFUSED, moved("/d/f", "/z/n")),
    ((rename("/d/f", "/z/.snapshot"),), REFUSED, REFUSED),
    ((rename("/d/f/", "/d/f", overwrite=True),), NOTHING, REFUSED),
    ((rename("/d/f", "/d/f/", overwrite=True),), REFUSED, REFUSED),
    ((rename("/z/", "/z", overwrite=True),), NOTHING, REFUSED),
    ((rename("/l", "/d/new"),), REFUSED, REFUSED),
    ((mkdir("/z/n/", NEW),), came("/z/n"), came("/z/n")),
    ((mkdir("/z//n", NEW),), REFUSED, came("/z/n")),
    (_DOTS, came("/d/.", "/d/..", "/d/../x"), came("/d/.", "/d/..", "/d/../x")),
    ((mkdir("/z/.snapshot", NEW),), REFUSED, REFUSED),
    ((mkdir("/s/.snapshot", NEW),), REFUSED, REFUSED),
    ((mkdir("/.reserved", NEW),), REFUSED, REFUSED),
    ((mkdir("/z/.reserved", NEW),), came("/z/.reserved"), came("/z/.reserved")),
    ((mkdir("/.reserved/raw/z/n", NEW),), REFUSED, REFUSED),
    ((mkdir("/l/n", NEW),), REFUSED, REFUSED),
    ((mkdir("/", NEW),), REFUSED, REFUSED),
    ((add("/z/n/", NEW), close("/z/n/")), came("/z/n"), came("/z/n")),
    ((add("/z//n", NEW),), REFUSED, came("/z/n")),
    ((add("/z/n//", NEW), close("/z/n")), came("/z/n"), came("/z/n")),
    ((add("/l", NEW),), REFUSED, REFUSED),
    ((add("/z/.snapshot", NEW),), REFUSED, REFUSED),
    ((add("/none/n", NEW),), REFUSED, REFUSED),
    ((symlink("/z/n/"),), came("/z/n"), came("/z/n")),
    ((symlink("/z//n"),), came("/z/n"), came("/z/n")),
    ((symlink("/none/x/n"),), came("/n"), came("/n")),
    ((symlink("/z"),), came("/z/z"), came("/z/z")),
    ((symlink("/d/f"),), REFUSED, REFUSED),
    ((symlink("/"),), REFUSED, REFUSED),
    ((delete("/d/f//"),), gone("/d/f"), gone("/d/f")),
    ((delete("/d//f"),), NOTHING, gone("/d/f")),
    ((delete("//d/f"),), NOTHING, gone("/d/f")),
    ((delete("/l/"),), gone("/l"), gone("/l")),
    ((delete("/l/x"),), REFUSED, REFUSED),
    ((delete("/d/f/x"),), NOTHING, REFUSED),
    ((delete("d/f"),), REFUSED, REFUSED),
    ((delete(""),), REFUSED, REFUSED),
    ((delete("/s/.snapshot/s1"),), REFUSED, REFUSED),
    ((delete("/.snapshot"),), REFUSED, REFUSED),
    ((set_permissions("/d/f/", 0o600),), NOTHING, NOTHING),
    ((set_permissions("/d//f", 0o600),), REFUSED, NOTHING),
    ((set_permissions("/l", 0o600),), REFUSED, REFUSED),
    ((ops.SetReplicationOp(path="/l", replication=1),), REFUSED, REFUSED),
    ((times("/s/.snapshot/s1", 5),), REFUSED, REFUSED),
    ((create("s2", "/s/"),), NOTHING, NOTHING),
    ((create("s2", "/.reserved/raw/s"),), REFUSED, NOTHING),
    ((create("s2", "/.reserved/raw/s/.snapshot/s1"),), REFUSED, REFUSED),
    ((allow("/.reserved/raw/d"),), REFUSED, REFUSED),
)


def reported(given: Sequence[EditOp]) -> str:
    """Return the last operation and its paths, as the name of a test."""
    op = given[-1]
    where = [str(getattr(op, name)) for name in ("src", "dst", "path", "snapshot_root") if hasattr(op, name)]
    return f"{op.name.removeprefix('OP_')} {' '.join(where)}".replace("/", "|")


OPEN = 16386 + 6


def append(path: str) -> EditOp:
    return ops.AppendOp(path=path, client_name="c", client_machine="m", new_block=False)


LEASES: Sequence[tuple[tuple[EditOp, ...], set[tuple[int, str]]]] = (
    ((add("/d/n/", NEW),), {(OPEN, "/open"), (NEW, "/d/n/")}),
    ((add("/d/n/", NEW), rename_old("/d", "/e")), {(OPEN, "/open"), (NEW, "/e/n/")}),
    ((add("/d/n", NEW), rename_old("/d", "/e/")), {(OPEN, "/open")}),
    ((add("/d/n", NEW), rename_old("/d/", "/e")), {(OPEN, "/open")}),
    ((add("/d/n", NEW), rename_old("/d", "/e/"), rename_old("/e/", "/x")), {(OPEN, "/open"), (NEW, "/x/n")}),
    ((rename_old("/open", "/d/o/"),), {(OPEN, "/d/o/")}),
    ((rename_old("/open/", "/d/o"),), set()),
    ((append("/d/f/"),), {(OPEN, "/open"), (16386 + 5, "/d/f/")}),
    ((ops.ReassignLeaseOp(lease_holder="client", path="/open/", new_holder="x"),), {(OPEN, "/open"), (OPEN, "/open/")}),
    ((add("/d/n/", NEW), close("/d/n"), append("/d/n")), {(OPEN, "/open"), (NEW, "/d/n")}),
    ((add("/d/n", NEW), close("/d/n/"), append("/d/n/")), {(OPEN, "/open"), (NEW, "/d/n"), (NEW, "/d/n/")}),
    ((add("/d/n/", NEW), delete("/d/n"), add("/d/n", NEW + 1)), {(OPEN, "/open"), (NEW + 1, "/d/n")}),
    ((add("/open/", NEW, overwrite=True),), {(NEW, "/open"), (NEW, "/open/")}),
    ((delete("/open//"), add("/open/", NEW)), {(NEW, "/open"), (NEW, "/open/")}),
    (
        (add("/d/n", NEW), delete("/d/"), mkdir("/d", NEW + 1), add("/d/n", NEW + 2)),
        {(OPEN, "/open"), (NEW + 2, "/d/n")},
    ),
    (
        (add("/d/n", NEW), delete("/d//"), mkdir("/d", NEW + 1), add("/d/n/", NEW + 2)),
        {(OPEN, "/open"), (NEW + 2, "/d/n"), (NEW + 2, "/d/n/")},
    ),
    ((add("/d/n/", NEW, overwrite=True), add("/d/n", NEW + 1, overwrite=True)), {(OPEN, "/open"), (NEW + 1, "/d/n")}),
    ((add("/d/n", NEW), rename("/open//", "/d/n", overwrite=True)), {(OPEN, "/d/n")}),
    ((add("/d/n\ud800//", NEW),), {(OPEN, "/open"), (NEW, "/d/n?//")}),
)
"""Operations, and the leases of Hadoop 2.7 after them."""
