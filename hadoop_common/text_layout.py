"""Lays out text for people within a width, without breaking words, or as plain lines if there is no width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import filesize

from hadoop_common.printable import escaped

_GAP = "  "


def byte_count(size: float) -> str:
    """Format a size in powers of 1000: `112.5 MB`."""
    return filesize.decimal(int(size))


def wrapped(start: str, text: str, width: int | None) -> list[str]:
    """Wrap `text` after `start`, with a hanging indent; one line if `width` is None."""
    if width is None:
        return [f"{start}{text}".rstrip()]
    lines = textwrap.wrap(
        text,
        max(width, 2 * len(start)),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start.rstrip()]


def table_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool], width: int | None
) -> list[str]:
    """Lay out a table without borders; do not break cells, and break titles only between words.

    Text columns come last, and the longest text column is at the end. In a row wider than `width`, the last cell is on
    a separate line.

    Args:
        right: whether a column is right-aligned, as numbers are.
        width: width of the terminal, None if unlimited.
    """
    rows = [[escaped(cell) for cell in row] for row in rows]
    longest = [max((len(row[column]) for row in rows), default=0) for column in range(len(titles))]
    order = sorted(range(len(titles)), key=lambda column: (not right[column], 0 if right[column] else longest[column]))
    heads = [_head(titles[column], [row[column] for row in rows], width) for column in order]
    height = max(map(len, heads), default=0)
    sizes = [
        max([*map(len, head), *(len(row[column]) for row in rows)]) for head, column in zip(heads, order, strict=True)
    ]
    aligned = [right[column] for column in order]
    shown = [_row(line, sizes, aligned) for line in zip(*([""] * (height - len(h)) + h for h in heads), strict=True)]
    for row in rows:
        cells = [row[column] for column in order]
        line = _row(cells, sizes, aligned)
        if width is not None and len(line) > width and not aligned[-1] and len(cells) > 1:
            shown += [_row(cells[:-1], sizes, aligned), f"{_GAP}{cells[-1]}"]
        else:
            shown.append(line)
    return shown


def _head(title: str, cells: Sequence[str], width: int | None) -> list[str]:
    """Split a title into lines no wider than its column must be."""
    if width is None:
        return [title]
    least = max([1, *map(len, title.split()), *map(len, cells)])
    return textwrap.wrap(title, least, break_long_words=False, break_on_hyphens=False)


def _row(cells: Sequence[str], sizes: Sequence[int], right: Sequence[bool]) -> str:
    parts = (cell.rjust(size) if at else cell.ljust(size) for cell, size, at in zip(cells, sizes, right, strict=False))
    return _GAP.join(parts).rstrip()
