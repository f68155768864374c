"""A file operation of the product: its input, the operation, and the checks that follow."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from checkpointer.daemon.service import CheckpointService
from hadoop_common.exit_codes import ExitCode
from hadoop_common.file_faults import as_hdfs_error
from servlets.status import TriggerResult, TriggerState
from tests.cli_runner import fingerprint, run_cli
from tests.faults.child import Outcome

_MORE_ATTEMPTS = 3
# Restore dropped directories, including the last directory.
RESTORING = {"dfs__namenode__num__checkpoints__retained": "1", "dfs__namenode__name__dir__restore": "true"}
READING = frozenset({ExitCode.BAD_IMAGE, ExitCode.BAD_EDITS})


class Scene(ABC):
    """One operation below `root`, where calls are traced; `folder` is for files of other processes.

    Attributes:
        codes: permitted exit codes after a system error, in addition to 0 for an error without consequences.
    """

    codes: ClassVar[frozenset[int]] = frozenset({ExitCode.STORAGE})
    run: ClassVar[Callable[..., Outcome]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Start the servers that the operation calls."""
        yield

    def arguments(self) -> tuple[object, ...]:
        return (str(self.root),)

    @abstractmethod
    def remains(self, outcome: Outcome) -> None:
        """Check the files after the operation, whether it failed or not."""

    @abstractmethod
    def go_on(self) -> None:
        """Repeat the operation without a fault, and check the result."""


def of_command(*arguments: str | Path) -> Outcome:
    reported = run_cli(*arguments)
    return Outcome(reported.code, reported.err)


def of_result(result: TriggerResult) -> Outcome:
    """Return a daemon's report of an attempt, with the targets that failed."""
    if result.state in (TriggerState.DONE, TriggerState.SKIPPED):
        errors = "; ".join(result.details.get("uploadErrors", {}).values())
        return Outcome(ExitCode.TRANSFER if errors else 0, f"{errors}\n  next: it is offered again" if errors else "")
    return Outcome(result.details.get("exitCode", -1), f"{result.message}\n  next: {result.details.get('hint')}")


def of_alarms(alarms: list[str]) -> Outcome:
    """Return the alarms as errors; their next step is the runbook in docs/runbook.md, because they have no hint."""
    return Outcome(ExitCode.STORAGE if alarms else 0, "; ".join([*alarms, ""]) + "\n  next: see the runbook")


def survived(attempt: Callable[[], Outcome], service: CheckpointService) -> Outcome:
    """Return the outcome of the first attempt, after checking that the daemon survives further attempts.

    If the last attempt also fails, `facts["lasting"]` contains its text.
    """
    try:
        outcome = last = attempt()
        for _ in range(_MORE_ATTEMPTS):
            service.status()
            service.ready()
            if not last.code:
                break
            last = attempt()
    except Exception as fault:
        return Outcome(-1, f"the daemon does not survive {fault}", traceback.format_exception(fault))
    if last.code:
        outcome.facts["lasting"] = last.text
    return outcome


def guarded(body: Callable[[], Outcome]) -> Outcome:
    """Convert an error to the output of the main programs."""
    try:
        return body()
    except Exception as fault:
        error = as_hdfs_error(fault)
        if error is None:
            raise
        return Outcome(error.exit_code, f"{error.message}\n  next: {error.hint}")


def kept(before: dict[str, str], folder: Path) -> None:
    """Assert that the earlier files exist unchanged."""
    after = fingerprint(folder)
    assert {name: after.get(name) for name in before} == before
