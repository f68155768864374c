"""Merges that failed in a row, and when there were too many (CheckpointStorage.mergeErrorCount)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from checkpointer.errors import RoleGaveUpError
from engine.errors import CheckpointCancelledError


class MergeFailures:
    """`count` merges in a row failed, the last one for the reason `fault`."""

    def __init__(self) -> None:
        self.count = 0
        self.fault = ""

    @contextmanager
    def counted(self, max_retries: int) -> Iterator[None]:
        """Make a merge: its success clears the count, a cancellation leaves it.

        Raises:
            RoleGaveUpError: it failed, and now more than `max_retries` have.
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
        """What an operator has to see to, a sentence each."""
        return [f"{self.count} merge(s) in a row failed, at the last: {self.fault}"] if self.count else []
