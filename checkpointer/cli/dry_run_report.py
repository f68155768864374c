"""The report of `checkpointer merge --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hadoop_common.quantities import counted

if TYPE_CHECKING:
    from checkpointer.merging.dry_run import DryRun


def ignored_text(count: int) -> str:
    """Describe `count` operations that change nothing."""
    change = "changes" if count == 1 else "change"
    return (
        f"{counted(count, 'operation')} {change} nothing, neither here nor on a NameNode (docs/opcodes.md lists them)"
    )


def dry_run_content(found: DryRun) -> dict[str, Any]:
    inodes, room = found.inodes, found.room
    return {
        "dryRun": True,
        "merged": False,
        "baseTxid": found.base_txid,
        "txid": found.txid,
        "transactions": found.transactions,
        "ignored": found.ignored,
        "inodes": inodes.total,
        "changes": {"created": inodes.created, "changed": inodes.changed, "deleted": inodes.deleted},
        "size": found.size,
        "layoutVersion": found.layout_version,
        "room": [{"directory": str(room.folder), "needed": room.needed, "free": room.free, "enough": room.enough}],
        "warnings": list(found.warnings),
        "healed": list(found.healed),
    }


def dry_run_text(found: DryRun) -> str:
    inodes = found.inodes
    lines = [
        f"{counted(found.transactions, 'transaction')} to merge onto txid {found.base_txid}",
        *([ignored_text(found.ignored)] if found.ignored else []),
        f"inodes: {inodes.created} created, {inodes.changed} changed, {inodes.deleted} deleted; {inodes.total} now",
        f"new image: {found.size} bytes, layout {found.layout_version}",
        str(found.room),
    ]
    lines += [f"would be healed: {sentence}" for sentence in found.healed] or ["nothing needs healing"]
    return "\n".join([*lines, "nothing was written"])
