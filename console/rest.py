"""Panels for the parts of /status that no other panel shows, so that a new field appears without new code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from console.model import UNKNOWN, PageFact, Panel, cell
from console.words import title_of, value_text

_MAX_ROWS = 100


def rest_panels(status: Mapping[str, Any], shown: Set[str], now: float) -> Iterator[Panel]:
    """Yield a panel for each nested part that is not in `shown`, and a folded panel for all plain fields."""
    plain = []
    for key, value in status.items():
        if isinstance(value, Mapping) and value and key not in shown:
            yield _of_mapping(key, value, now)
        elif isinstance(value, list) and value and key not in shown:
            yield _of_list(key, value, now)
        elif not isinstance(value, Mapping | list):
            plain.append(PageFact(title_of(key), value_text(key, value, now)))
    yield Panel("all", "All fields of /status", facts=tuple(plain), folded=True)


def _of_mapping(key: str, value: Mapping[str, Any], now: float) -> Panel:
    rows = [each for each in value.items() if isinstance(each[1], Mapping)]
    facts = tuple(PageFact(title_of(k), _flat(k, v, now)) for k, v in value.items() if not isinstance(v, Mapping))
    if not rows:
        return Panel(key, title_of(key), facts=facts)
    columns = list(dict.fromkeys(name for _, each in rows for name in each))
    return Panel(
        key,
        title_of(key),
        facts=facts,
        columns=("Name", *map(title_of, columns)),
        rows=tuple(
            (cell(name), *(cell(_flat(c, each.get(c), now)) for c in columns)) for name, each in rows[:_MAX_ROWS]
        ),
    )


def _of_list(key: str, value: list[Any], now: float) -> Panel:
    rows = [each if isinstance(each, Mapping) else {key: each} for each in value[:_MAX_ROWS]]
    columns = list(dict.fromkeys(name for each in rows for name in each))
    return Panel(
        key,
        title_of(key),
        columns=tuple(map(title_of, columns)),
        rows=tuple(tuple(cell(_flat(c, each.get(c), now)) for c in columns) for each in rows),
    )


def _flat(key: str, value: Any, now: float) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{title_of(k).lower()} {_flat(k, v, now)}" for k, v in value.items()) or UNKNOWN
    if isinstance(value, list):
        return ", ".join(_flat(key, each, now) for each in value[:_MAX_ROWS]) or UNKNOWN
    return value_text(key, value, now)
