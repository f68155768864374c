"""Restoration of dropped storage directories (dfs.namenode.name.dir.restore).

`restore` retries dropped directories. A directory is in use again after `restore` has acquired its lock and written a
file to it.

This module prevents these faults:

- Old contents of a returning directory are mistaken for the newest contents. The module compares them with the
directories that
  remained in use (`stale_contents`), which the records name (`directory_history`). If none of these directories can be
  used now, a directory with older images does not replace them.
- A directory is formatted while its file system is not mounted. An empty directory that may have contained images is
  formatted only if the operator creates an empty `current` folder in it.
"""

from __future__ import annotations

from pathlib import Path

from checkpointer.storage.directory_set import DirectorySet
from checkpointer.storage.formatting import format_directory, make_directory, same_namespace
from checkpointer.storage.inspector import (
    MISSING_VERSION_HINT,
    StorageState,
    agree_on_version,
    directory_fault,
    inspect,
)
from checkpointer.storage.stale_contents import bring_up_to_date
from checkpointer.storage.usable_images import newest_usable_path
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import VERSION
from hadoop_common.storage_info import StorageInfo, VersionFileError


def revise(directories: DirectorySet, *, restore_dropped: bool) -> None:
    """Drop unusable directories unless all are unusable; with `restore_dropped`, also retry dropped directories.

    If no directory is in use, always retry dropped directories.

    Raises:
        StorageError: the VERSIONs differ, or other processes use all directories.
    """
    directories.keep_locks()
    if directories.dropped and (restore_dropped or not directories.roots):
        restore(directories)
    broken = {root: fault for root in directories.roots if (fault := directory_fault(root))}
    if len(broken) < len(directories.roots):
        for root, fault in broken.items():
            directories.drop(root, fault)


def restore(directories: DirectorySet) -> list[Path]:
    """Retry dropped directories, and format new directories as the other directories are formatted
    (dfs.namenode.name.dir.restore).

    Return the restored directories; the next saved image completes them.

    Raises:
        StorageError: the VERSIONs differ.
    """
    found = directories.readable()
    back = []
    if all(each.version is None for each in found):
        # no directory is usable, or none is formatted yet
        back = _restore_first(directories)
        found = directories.readable()
    if any(each.version is not None for each in found):
        info = agree_on_version(found)
        seen = max((each.seen_txid or 0 for each in found), default=0)
        back += [root for root in directories.all_roots if _restore_one(directories, root, info, seen)]
    directories.record_use()
    return back


def _restore_first(directories: DirectorySet) -> list[Path]:
    """Restore the usable directories that were in use last; without a record, restore all usable directories."""
    usable: list[Path] = []
    for root in directories.dropped:
        try:
            directories.history.refuse_older(directories.acquire(root), directories.readable())
            usable.append(root)
        except (StorageError, VersionFileError) as fault:
            directories.mark_dropped(root, fault.message, fault.hint)
    newest = [root for root in usable if root in directories.history.last_used] or usable
    agree = [each for root in newest if (each := inspect(root)).version is not None]
    if agree:
        agree_on_version(agree)
    for root in newest:
        directories.use_again(root)
    return newest


def _restore_one(directories: DirectorySet, root: Path, info: StorageInfo, seen: int) -> bool:
    was_dropped = root in directories.dropped
    try:
        found = directories.acquire(root) if was_dropped else inspect(root)
        if found.version is None and found.state in (StorageState.MISSING, StorageState.NOT_FORMATTED):
            make_directory(root, directories.permission)
            format_directory(root, info, seen, directories.permission)
        elif found.version is None:
            raise StorageError(f"{found.current / VERSION} is missing", hint=MISSING_VERSION_HINT)
        elif not same_namespace(found.version, info):
            raise StorageError(
                f"{root} does not belong to {info.colon_string()}",
                hint="The directory belongs to another namespace; specify another directory.",
            )
        elif not was_dropped:
            return False
        else:
            directories.history.refuse_older(found, directories.readable())
            current = directories.readable()
            with_edits = [each for each in current if each.root not in directories.images_only]
            newest = None if root in directories.edits_only else newest_usable_path(current)
            bring_up_to_date(found, current, info, seen, newest, keep_segments=not with_edits)
    except (OSError, HdfsError) as fault:
        directories.mark_dropped(root, error_text(fault), fault.hint if isinstance(fault, HdfsError) else "")
        directories.require_one()
        return False
    directories.use_again(root)
    return True
