"""Events of Spark's scheduler for an application, from its event log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEFAULTS = "spark-defaults.conf"


def event_log_conf(folder: Path) -> dict[str, str]:
    """Return settings with which an application writes its events below `folder`."""
    (folder / "events").mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def write_defaults(folder: Path, conf: dict[str, str]) -> None:
    """Write the settings as a file of Spark's defaults."""
    (folder / DEFAULTS).write_text("".join(f"{key} {value}\n" for key, value in conf.items()))


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of all applications below `folder`."""
    for log in sorted((folder / "events").iterdir()):
        with log.open() as lines:
            for line in lines:
                yield json.loads(line)


def _ended_well(folder: Path) -> Iterator[dict[str, Any]]:
    for event in read_events(folder):
        if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            yield event


def tasks_by_executor(folder: Path) -> dict[str, int]:
    """Return the number of successful tasks on each executor."""
    counts: dict[str, int] = {}
    for event in _ended_well(folder):
        executor = event["Task Info"]["Executor ID"]
        counts[executor] = counts.get(executor, 0) + 1
    return counts


def bytes_to_driver(folder: Path) -> dict[int, int]:
    """Return, by stage, the bytes of its tasks' serialized results: all rows that reach the driver, collected or
    broadcast.

    A task that returns nothing has a few kilobytes of metrics.
    """
    sizes: dict[int, int] = {}
    for event in _ended_well(folder):
        stage = event["Stage ID"]
        sizes[stage] = sizes.get(stage, 0) + event["Task Metrics"]["Result Size"]
    return sizes
