"""Upgrade and rollback in the folder of a journal, and their recovery (NNUpgradeUtil, Storage.analyzeStorage).

Possible names next to `current`, and the action of `recover` after a kill:

    `previous`                                    an upgrade that can be rolled back or finalized: no action.
    `previous.tmp`, `current` without VERSION     an upgrade that has begun: it is undone.
    `previous.tmp`, `current` with VERSION        an upgrade that lacks its last rename: it is completed.
    `removed.tmp` and `previous`, no `current`    a rollback that has begun: it is undone.
    `removed.tmp` and `current`                   a completed rollback: `removed.tmp` is removed.
    `finalized.tmp`                               a finalization: it is completed.

The next writer's first call also undoes an incomplete upgrade; otherwise, the next start would remove the writer's
edits and this node's promise to the writer.

A kill cannot leave any other state, because each change begins or ends with a rename. In any other state, `recover`
raises an error that names the state.
"""

from __future__ import annotations

import logging
from typing import Final

from hadoop_common.file_faults import error_text
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalStateError, InconsistentStorageError, JavaIOError
from journal_node.disk import JournalDisk
from journal_node.names import CURRENT, PAXOS, VERSION_FILE

_LOG = logging.getLogger(__name__)

PREVIOUS: Final = "previous"
PREVIOUS_TMP: Final = "previous.tmp"
_REMOVED_TMP: Final = "removed.tmp"
_FINALIZED_TMP: Final = "finalized.tmp"


def recover(disk: JournalDisk) -> None:
    """Complete or undo an interrupted step (Storage.StorageDirectory.doRecover).

    Raises:
        InconsistentStorageError: the folder is in a state that an interrupted step cannot leave.
    """
    leftovers = _leftovers(disk)
    has_current, has_previous = disk.exists(VERSION_FILE), disk.exists(PREVIOUS)
    if len(leftovers) > 1:
        raise _inconsistent(disk, f"{' and '.join(leftovers)} cannot both exist")
    if not leftovers:
        if has_previous and not has_current:
            raise _inconsistent(disk, f"{PREVIOUS} exists, but not {VERSION_FILE}")
        return
    found = leftovers[0]
    _LOG.warning("%s: an upgrade, a rollback or its end was interrupted; recovering from %s", disk.location, found)
    if found == _REMOVED_TMP:
        if has_current == has_previous:
            raise _inconsistent(disk, f"one of {VERSION_FILE} and {PREVIOUS} must exist with {found}")
        _undo_or_drop(disk, found, keep=not has_current)
        return
    if has_previous:
        raise _inconsistent(disk, f"{PREVIOUS} and {found} cannot both exist")
    if found == _FINALIZED_TMP:
        disk.remove_tree(found)
    elif has_current:
        disk.rename(found, PREVIOUS)
    else:
        _undo_or_drop(disk, found, keep=True)


def is_unfinished(disk: JournalDisk) -> bool:
    """Return whether an upgrade, a rollback or a finalization is in progress or was interrupted."""
    return bool(_leftovers(disk))


def pre_upgrade(disk: JournalDisk) -> None:
    """Rename `current` to `previous.tmp`, and begin a new `current` with the same segments."""
    _remove_leftovers(disk)
    for name in (PREVIOUS, PREVIOUS_TMP):
        _require(not disk.exists(name), f"{name} already exists; finish or undo that upgrade first")
    _require(disk.exists(CURRENT), f"{CURRENT} does not exist")
    disk.rename(CURRENT, PREVIOUS_TMP)
    disk.make_directory(CURRENT)
    for name in disk.names(PREVIOUS_TMP):
        if name.startswith("edits"):
            disk.link(f"{PREVIOUS_TMP}/{name}", f"{CURRENT}/{name}")


def upgrade(disk: JournalDisk, files: dict[str, bytes], version: bytes) -> None:
    """Complete the new `current` with `files` (by name) and VERSION; the old `current` becomes `previous`."""
    _require(not disk.exists(PREVIOUS), f"{PREVIOUS} already exists")
    _require(disk.exists(PREVIOUS_TMP), f"{PREVIOUS_TMP} does not exist: the upgrade was not prepared")
    disk.make_directory(PAXOS)
    for name, data in files.items():
        disk.write(f"{CURRENT}/{name}", data)
    disk.write(VERSION_FILE, version)
    disk.rename(PREVIOUS_TMP, PREVIOUS)


def finalize(disk: JournalDisk) -> None:
    """Remove `previous`, if it exists."""
    _remove_leftovers(disk)
    if disk.exists(PREVIOUS):
        _require(disk.exists(CURRENT), f"{CURRENT} does not exist")
        disk.rename(PREVIOUS, _FINALIZED_TMP)
        disk.remove_tree(_FINALIZED_TMP)


def can_roll_back(previous: StorageInfo, asked: StorageInfo, target_layout_version: int, location: str) -> bool:
    """Return whether the release of `target_layout_version` can use the state before the upgrade.

    Raises:
        JavaIOError: the state has a different layout version.
        InconsistentStorageError: the state belongs to a namespace other than `asked`.
    """
    check_same(previous, asked, location)
    if previous.layout_version != target_layout_version:
        problem = f"the state before the upgrade has layout {previous.layout_version}, not {target_layout_version}"
        raise JavaIOError(f"{location} cannot be rolled back: {problem}; use the release that wrote it")
    return True


def check_same(own: StorageInfo, other: StorageInfo, location: str) -> None:
    """Raise InconsistentStorageError if both name a namespace or cluster, but the names differ."""
    pairs = (("namespaceID", own.namespace_id, other.namespace_id), ("clusterID", own.cluster_id, other.cluster_id))
    for name, ours, theirs in pairs:
        if ours and theirs and ours != theirs:
            raise InconsistentStorageError(f"the {name} of {location} is {ours}, but the caller's is {theirs}")


def roll_back(disk: JournalDisk) -> None:
    """Restore the state before the upgrade."""
    _remove_leftovers(disk)
    _require(not disk.exists(_REMOVED_TMP), f"{_REMOVED_TMP} already exists; restart this JournalNode to recover")
    _require(disk.exists(CURRENT), f"{CURRENT} does not exist")
    disk.rename(CURRENT, _REMOVED_TMP)
    disk.rename(PREVIOUS, CURRENT)
    try:
        disk.remove_tree(_REMOVED_TMP)
    except OSError as fault:
        # The rollback is complete, so the caller must use the restored state.
        _LOG.warning("%s: %s cannot be removed: %s", disk.location, _REMOVED_TMP, error_text(fault))


def _remove_leftovers(disk: JournalDisk) -> None:
    """Remove leftovers of an earlier finalization or rollback; together with `previous`, they would prevent a start."""
    for name in (_FINALIZED_TMP, _REMOVED_TMP):
        if disk.exists(name) and disk.exists(VERSION_FILE):
            disk.remove_tree(name)


def _undo_or_drop(disk: JournalDisk, found: str, *, keep: bool) -> None:
    if keep:
        disk.remove_tree(CURRENT)
        disk.rename(found, CURRENT)
    else:
        disk.remove_tree(found)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise IllegalStateError(problem)


def _inconsistent(disk: JournalDisk, problem: str) -> InconsistentStorageError:
    return InconsistentStorageError(f"{disk.location}: {problem}")


def _leftovers(disk: JournalDisk) -> list[str]:
    return [name for name in (PREVIOUS_TMP, _REMOVED_TMP, _FINALIZED_TMP) if disk.exists(name)]
