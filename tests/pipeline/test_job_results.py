"""If Spark loses results, the job fails: incomplete results are neither stored nor reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.direct_parquet import write_parquet
from pipeline.errors import PipelineError
from pipeline.lake import append_edits, append_image, lake_contents
from pipeline.reports.request import ReportOptions
from pipeline.reports.tasks import TxidBounds, count_edits, run_tasks
from pipeline.reports.work import edit_rules
from tests.pipeline.lake_child import InProcess
from tests.recorded_cases import RECORDED

IMAGE = RECORDED / "hadoop-3.4.1" / "snapshots-basic" / "before"
OPTIONS = ReportOptions(datetime(2026, 1, 1, tzinfo=UTC))


class DyingContext(InProcess):
    """A context whose connection ends before the last result, which PySpark does not report."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def parallelize(self, items: Any, count: int) -> DyingContext:
        return self._dying(super().parallelize(items, count))

    def mapPartitions(self, function: Callable[[Any], Any]) -> DyingContext:  # noqa: N802 - Spark's name
        return self._dying(super().mapPartitions(function))

    def _dying(self, items: InProcess) -> DyingContext:
        made = DyingContext()
        made._items = items._items
        return made

    def collect(self) -> list[Any]:
        return self._items[:-1]

    def accumulator(self, value: int) -> Any:
        return SimpleNamespace(value=value, add=lambda _: None)


JOBS: dict[str, Callable[[Any, Path], object]] = {
    "image": lambda context, folder: append_image(context, str(IMAGE), str(folder / "lake")),
    "edits": lambda context, folder: append_edits(context, str(IMAGE), str(folder / "lake")),
    "export": lambda context, folder: write_parquet(context, str(IMAGE), folder / "out"),
    "report": lambda context, _: run_tasks(context, [task(1), task(2)], lambda _: None),
    "report of edits": lambda context, _: count_edits(context, [no_batches()], TxidBounds(), edit_rules(OPTIONS)),
}


def task(result: int) -> Any:
    return SimpleNamespace(name="image", size=1, run=lambda: result)


def no_batches() -> Any:
    return SimpleNamespace(batches=lambda _: iter(()))


@pytest.mark.parametrize("name", JOBS)
def test_a_lost_task_result_fails_the_job(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.sources.fsimage.host_scratch", lambda: tmp_path / "scratch")
    with pytest.raises(PipelineError, match=r"Spark returned the results of \d+ of \d+ tasks"):
        JOBS[name](DyingContext(), tmp_path)
    contents = lake_contents(str(tmp_path / "lake"))
    assert (contents.images, contents.edits) == ([], {})
    assert not (tmp_path / "out").exists()
