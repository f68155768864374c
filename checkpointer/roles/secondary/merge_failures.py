"""Count of consecutive failed merges, and the limit on it (CheckpointStorage.mergeErrorCount)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from checkpointer.errors import RoleGaveUpError
from engine.errors import CheckpointCancelledError


class MergeFailures:
    """The number `count` of merges that failed in a row, and the reason `fault` of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.fault = ""

    @contextmanager
    def counted(self, max_retries: int) -> Iterator[None]:
        """Run a merge: success clears the count, a cancellation leaves it unchanged.

        Raises:
            RoleGaveUpError: the merge failed, and more than `max_retries` have now failed.
        """
        try:
            yield
        except CheckpointCancelledError:
            raise
        except Exception as error:
            self.count += 1
            self.fault = str(error)
            if self.count <= max_retries:
                raise
            raise RoleGaveUpError(
                f"{self.count} merges in a row failed, dfs.namenode.checkpoint.max-retries allows {max_retries}; "
                f"the last one: {error}",
                hint=getattr(error, "hint", "") or "Find the cause, then start the daemon again.",
            ) from error
        self.count = 0

    def alarms(self) -> list[str]:
        """Return what needs an operator, a sentence each."""
        return [f"{self.count} merge(s) in a row failed, the last because: {self.fault}"] if self.count else []
