"""A writer of a lake in a separate process, which prints each completed append. The parent may kill it at any time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipeline.lake import append_edits


class InProcess:
    """A substitute for a Spark context, which runs tasks in this process."""

    def __init__(self) -> None:
        self._items: list[Any] = []

    def parallelize(self, items: Iterable[Any], _count: int) -> InProcess:
        made = InProcess()
        made._items = list(items)
        return made

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> InProcess:  # noqa: N802 - Spark's name
        made = InProcess()
        made._items = [each for item in self._items for each in function([item])]
        return made

    def collect(self) -> list[Any]:
        return self._items


def main(folder: Path, root: str, cluster: str) -> None:
    """Append the segments of a folder, each separately."""
    context: Any = InProcess()
    print("ready", flush=True)
    for segment in sorted(folder.iterdir()):
        for each in append_edits(context, str(segment), root, cluster).ranges:
            print(each.first, each.last, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
