"""Progress of a command: a bar for each phase on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import click

from hadoop_common.quantities import duration
from hadoop_common.text_layout import byte_count

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_EVERY = 10.0
_TICK = 1.0
# keeps the longest line within 80 columns
_BAR_WIDTH = 13
# units of phases that do not count bytes
_COUNTED = {"replay": "txns", "search": "txns", "dump": "inodes", "compare": "inodes", "compile": "kernels"}


def progress_text(name: str, done: int, total: int | None, seconds: float) -> str:
    """Return the progress of a phase, such as `45 %, 540.0 MB of 1.2 GB, 300.0 MB/s, 2 s left`.

    If `done` exceeds `total`, `done` also replaces `total`, so that the percentage never exceeds 100 %.
    """
    unit = _COUNTED.get(name)
    if total is None or total <= 0:
        return (f"{_count(done)} {unit}, " if unit and done else "") + duration(seconds)
    whole = max(done, total)
    amount, of, rate = (
        byte_count(number) if unit is None else _count(number)
        for number in (done, whole, int(done / seconds) if seconds else 0)
    )
    parts = [f"{100 * done // whole} %", f"{amount} of {of}" + (f" {unit}" if unit else "")]
    if done and seconds:
        parts += [
            f"{rate}/s",
            f"{duration(seconds * (whole - done) / done)} left" if done < whole else duration(seconds),
        ]
    return ", ".join(parts)


def _count(number: int) -> str:
    """Format a number as `9,876`, `12.3 k` or `45.6 M`."""
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e3:.1f} k" if number < 1_000_000 else f"{number / 1e6:.1f} M"


class ProgressObserver:
    """Progress on standard error: an `Observer` of merges and a context manager.

    Args:
        show: if False, nothing is printed.
        clock: returns seconds.
    """

    def __init__(self, *, show: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        on_terminal = show and sys.stderr.isatty()
        self._in_lines = show and not on_terminal
        self._bars = _bars() if on_terminal else None
        self._task: TaskID | None = None
        self._name = ""
        self._total: int | None = None
        self._done = 0
        self._began = self._printed_at = clock()

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._bars is not None:
            if kind is None:
                self._end(self._bars)
            self._bars.stop()

    def phase(self, name: str, total: int | None) -> None:
        """End the current phase and begin the next phase."""
        with self._lock:
            if self._bars is not None:
                self._end(self._bars)
                # Rich hides live lines below the last line of the terminal, so only one line is live
                for task in self._bars.task_ids:
                    finished = self._bars.get_renderable()
                    self._bars.remove_task(task)
                    self._bars.refresh()
                    self._bars.console.print(finished)
                self._task = self._bars.add_task(name, total=total, text="")
            self._name, self._total, self._done, self._began = name, total, 0, self._clock()
            # without a total, the first line would be only "0 s"
            if self._bars is not None or total is not None:
                self._print_progress()

    def advance(self, done: int) -> None:
        with self._lock:
            self._done = done
            self._print_progress()

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Keep the elapsed time of a phase up to date while the phase does not report progress."""
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(_TICK):
                with self._lock:
                    self._print_progress()

        ticker = threading.Thread(target=tick, name="progress", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()

    def saved(self) -> None:
        """Do nothing, because the next phase, or the end, completes the bar of a save."""

    def cancelled(self) -> bool:
        return False

    def _end(self, bars: Progress) -> None:
        if self._task is None:
            return
        whole = max(self._done, self._total or 0)
        text = progress_text(self._name, whole, self._total, self._clock() - self._began)
        bars.update(self._task, completed=whole or 1, total=whole or 1, text=text)
        self._task = None

    def _print_progress(self) -> None:
        now = self._clock()
        if self._bars is not None and self._task is not None:
            total = None if self._total is None else max(self._total, self._done)
            text = progress_text(self._name, self._done, self._total, now - self._began)
            self._bars.update(self._task, completed=self._done, total=total, text=text)
        if self._in_lines and self._name and now - self._printed_at >= _EVERY:
            self._printed_at = now
            click.echo(
                f"{self._name}: {progress_text(self._name, self._done, self._total, now - self._began)}", err=True
            )


def _bars() -> Progress:
    # this import is slow, and needed only on terminals
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
    )
