"""Operations that a NameNode replays without effect, each on the namespace of `SCENE`. Tests check that replay
counts them and changes nothing, and that a real NameNode changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from journal import ops
from journal.ops import EditOp, XAttr
from tests.engine.image_builder import HADOOP2, HADOOP3, LAYOUTS, OWNER, UNLIMITED, ImageBuilder
from tests.engine.op_makers import add, close, delete, mkdir, rename_old, times
from tests.engine.snapshot_support import allow, create

_FIRST = 16386
_NEW = 16500


def _symlink(path: str, target: str, inode_id: int) -> EditOp:
    return ops.SymlinkOp(path=path, inode_id=inode_id, target=target, mtime=1, atime=1, permissions=OWNER)


def _token(number: int, key: int = 1) -> ops.DelegationTokenIdent:
    return ops.DelegationTokenIdent("eve", "yarn", "", 1, UNLIMITED // 2, number, key)


SCENE: tuple[EditOp, ...] = (
    *(mkdir(path, number) for number, path in enumerate(("/d", "/d/sub", "/d/sub/sub", "/z", "/s"), _FIRST)),
    add("/d/f", _FIRST + 5),
    close("/d/f"),
    add("/open", _FIRST + 6),
    _symlink("/l", "/d/new", _FIRST + 7),
    allow("/s"),
    create("s1", "/s"),
    ops.SetQuotaOp(src="/z", ns_quota=100, ds_quota=UNLIMITED - 1),
    ops.SetQuotaByStorageTypeOp(src="/z", storage_type=1, ds_quota=1 << 40),
)


@dataclass(frozen=True)
class Ignored:
    """An operation without effect.

    Attributes:
        before: the preceding operations.
        layouts: layouts in which the operation has no effect.
        keeps_header: whether the last inode id also stays unchanged; some operations always raise it.
    """

    why: str
    op: EditOp
    before: tuple[EditOp, ...] = ()
    layouts: tuple[int, ...] = LAYOUTS
    keeps_header: bool = True

    def __str__(self) -> str:
        return f"{self.op.name.removeprefix('OP_')} {self.why}"


def _rename(why: str, src: str, dst: str, layouts: tuple[int, ...] = LAYOUTS) -> Ignored:
    return Ignored(why, rename_old(src, dst), layouts=layouts)


_2, _3 = (HADOOP2,), (HADOOP3,)
IGNORED: Sequence[Ignored] = (
    _rename("of nothing", "/none", "/z/n"),
    _rename("of the root", "/", "/z/n"),
    _rename("of the root into a directory", "//", "/z"),
    _rename("onto a file", "/d/f", "/open"),
    _rename("onto itself", "/d/f", "/d/f"),
    _rename("onto itself but for slashes", "/d/f", "/d/f//"),
    _rename("onto itself but for slashes of the source", "/d/f/", "/d/f"),
    _rename("into its own directory", "/d/f", "/d"),
    _rename("below itself", "/d", "/d/sub/x"),
    _rename("below itself, as a directory", "/d", "/d/sub"),
    _rename("below a file of itself", "/d/f", "/d/f/x", _2),
    _rename("into a directory that has the name", "/d/sub", "/d/sub/sub/.."),
    _rename("without a parent", "/d/f", "/none/f"),
    _rename("without a parent, two levels", "/d/f", "/none/sub/f"),
    _rename("below a file, two levels", "/d/f", "/open/x/y", _2),
    _rename("into a directory with a slash at its end", "/d/f", "/z/", _2),
    _rename("into the root", "/d/f", "/", _2),
    _rename("with an empty component", "/d/f", "/z//n", _2),
    _rename("from an empty component", "/d//f", "/z/n", _2),
    _rename("into reserved paths", "/d/f", "/.reserved/raw/n"),
    _rename("of a reserved path", "/.reserved/raw/d/f", "/z/n"),
    _rename("of a link to its target", "/l", "/d/new"),
    Ignored("of nothing", delete("/none")),
    Ignored("below nothing", delete("/none/x/y")),
    Ignored("of the root", delete("/")),
    Ignored("of the root with slashes", delete("//")),
    Ignored("with an empty component", delete("/d//f"), layouts=_2),
    Ignored("with an empty component at the start", delete("//d"), layouts=_2),
    Ignored("below a file", delete("/d/f/x"), layouts=_2),
    Ignored("of a dot", delete("/d/.")),
    Ignored("of two dots", delete("/d/..")),
    Ignored("of .snapshot where there are none", delete("/d/.snapshot/x")),
    Ignored("of a reserved path", delete("/.reserved/raw/d")),
    Ignored("of an inode by its id", delete(f"/.reserved/.inodes/{_FIRST}")),
    Ignored("of a directory that exists", mkdir("/d/sub", _NEW), keeps_header=False),
    Ignored("of a directory that exists, with a slash", mkdir("/d/sub/", _NEW), keeps_header=False),
    Ignored("of a file's name", mkdir("/d/f", _NEW), keeps_header=False),
    Ignored("of a link's name", mkdir("/l", _NEW), keeps_header=False),
    Ignored("inside a directory that has the name", _symlink("/d/sub", "x", _NEW), keeps_header=False),
    Ignored("of nothing", ops.SetReplicationOp(path="/none", replication=2)),
    Ignored("of a directory", ops.SetReplicationOp(path="/d", replication=2)),
    Ignored("without names", ops.SetOwnerOp(src="/d")),
    Ignored("without times", times("/d/f")),
    Ignored("without times, of nothing", times("/none"), layouts=_2),
    Ignored("as it is", ops.SetQuotaOp(src="/z", ns_quota=100, ds_quota=UNLIMITED - 1)),
    Ignored("that sets nothing", ops.SetQuotaOp(src="/z", ns_quota=UNLIMITED, ds_quota=UNLIMITED)),
    Ignored("as it is", ops.SetNsQuotaOp(src="/z", ns_quota=100)),
    Ignored("of a directory without", ops.ClearNsQuotaOp(src="/d")),
    Ignored("as it is", ops.SetQuotaByStorageTypeOp(src="/z", storage_type=1, ds_quota=1 << 40)),
    Ignored("of a directory without", ops.SetQuotaByStorageTypeOp(src="/d", storage_type=1, ds_quota=-1)),
    Ignored("of an open file", ops.AppendOp(path="/open", client_name="c", client_machine="m", new_block=False)),
    Ignored("under an unknown key", ops.GetDelegationTokenOp(token=_token(1, key=9), expiry_time=5)),
    Ignored("that nobody got", ops.RenewDelegationTokenOp(token=_token(2), expiry_time=5)),
    Ignored("that nobody got", ops.CancelDelegationTokenOp(token=_token(2))),
    Ignored("again", allow("/s")),
    Ignored("where it is not allowed", ops.DisallowSnapshotOp(snapshot_root="/d")),
    Ignored("of the root, where it is not allowed", ops.DisallowSnapshotOp(snapshot_root="/")),
    Ignored(
        "to the same name", ops.RenameSnapshotOp(snapshot_root="/s", snapshot_old_name="s1", snapshot_new_name="s1")
    ),
    Ignored(
        "of nothing to the same name",
        ops.RenameSnapshotOp(snapshot_root="/s", snapshot_old_name="none", snapshot_new_name="none"),
        layouts=_2,
    ),
    Ignored(
        "of nothing of the root, where it is not allowed, to the same name",
        ops.RenameSnapshotOp(snapshot_root="/", snapshot_old_name="none", snapshot_new_name="none"),
        layouts=_2,
    ),
    Ignored("without entries", ops.SetAclOp(src="/d", acl_entries=())),
    Ignored("of a directory without", ops.SetXAttrOp(src="/d", xattrs=())),
    Ignored("that is not there", ops.RemoveXAttrOp(src="/d", xattrs=(XAttr(0, "none", None),))),
    Ignored("without an upgrade", ops.RollingUpgradeFinalizeOp(time=5)),
    Ignored("0 of a directory without", ops.SetStoragePolicyOp(path="/d", policy_id=0), layouts=_3),
    Ignored(
        "again",
        ops.AddErasureCodingPolicyOp(codec_name="rs", data_units=4, parity_units=2, cell_size=1 << 20),
        (ops.AddErasureCodingPolicyOp(codec_name="rs", data_units=4, parity_units=2, cell_size=1 << 20),),
        _3,
    ),
)


def scene(folder: Path, layout: int) -> Path:
    """Return an empty image of a layout, for `SCENE`."""
    return ImageBuilder(layout).save(folder)
