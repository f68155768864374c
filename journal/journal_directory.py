"""Common parts of journals in a directory: the writer's lock, errors, and the removal of old files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.storage_info import JOURNAL_NODE, NAME_NODE, StorageInfo
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from journal.errors import JournalError, JournalInUseError, JournalStorageError

_SAME_NAMESPACE = ("namespace_id", "cluster_id")


class WriterLock:
    """The writer's lock of a journal: in_use.lock of its directory.

    Args:
        directory: the directory that the lock protects.
        lock: a lock that the caller of the journal already holds; this class does not release it.
    """

    def __init__(self, directory: Path, lock: StorageLock | None) -> None:
        self._lock = StorageLock(directory, of=(JOURNAL_NODE, NAME_NODE)) if lock is None else lock
        self._owned = lock is None

    def take(self) -> None:
        """Acquire the lock, unless it is already held.

        Raises:
            StorageError: the lock cannot be acquired.
            JournalError: the caller released its lock.
        """
        if self._lock.held:
            return
        if not self._owned:
            hint = "Acquire the lock before using the journal, or do not pass a lock to the journal."
            raise JournalError("the caller released in_use.lock", file=str(self._lock.path), hint=hint)
        self._lock.acquire()

    @contextmanager
    def held_for_now(self) -> Iterator[None]:
        """Hold the lock within the context; do not release a lock that was held before.

        Raises the same errors as `take`.
        """
        held_before = self._lock.held
        self.take()
        try:
            yield
        finally:
            if not held_before:
                self._lock.release()

    def release(self) -> None:
        """Release the lock, unless the caller owns it."""
        if self._owned:
            self._lock.release()


@contextmanager
def journal_faults(folder: Path, what: str) -> Iterator[None]:
    """Convert system errors and lock errors to the package's errors; `what` completes the sentence "the journal …"."""
    try:
        yield
    except JournalError:
        raise
    except StorageInUseError as error:
        raise JournalInUseError(error.message, hint=error.hint) from error
    except StorageError as error:
        raise JournalStorageError(error.message, hint=error.hint) from error
    except HdfsError as error:
        raise JournalError(f"the journal {what}: {error.message}", file=str(folder), hint=error.hint) from error
    except OSError as error:
        problem = f"the journal {what}: {error_text(error, folder)}"
        raise JournalStorageError(problem, file=str(folder), hint=hint_for(error, "")) from error


def check_same_namespace(ours: StorageInfo, theirs: StorageInfo, file: Path | str) -> None:
    """Raise JournalError if `file` names a different namespace."""
    for name in _SAME_NAMESPACE:
        wanted, found = getattr(ours, name), getattr(theirs, name)
        if wanted != found:
            hint = "Specify the directory or journal that belongs to this namespace; nothing was changed."
            raise JournalError(f"{name} is {found}, not {wanted}", file=str(file), hint=hint)


def remove_files(folder: Path, paths: Sequence[Path], kind: str) -> None:
    """Remove as many files as possible, in order; raise JournalStorageError if some files remain."""
    failures = []
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failures.append(error)
    if failures:
        problem = f"{len(failures)} of {len(paths)} old {kind} cannot be removed: {error_text(failures[0])}"
        raise JournalStorageError(problem, file=str(folder)) from failures[0]
