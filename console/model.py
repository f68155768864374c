"""The content of a page of the console, as values: attention, tiles and panels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar, cast

from node_state.alarm_kinds import alarm_key

T = TypeVar("T")

UNKNOWN: Final = "-"
RUNBOOK: Final = "runbook.md"

# matches an absolute path (also after a file or host name and a colon) or a file URI, but not the path of an http URL
_PATH = re.compile(r"(?<![\w/.-])(?:file:/{1,3}|(?<!:)/{1,3}|/(?!/))[^\s/<,;:)\"'][^\s<,;:)\"']*")
_SVG_TEXT = re.compile(r">[^<]+<")


class Level(StrEnum):
    """Severity of a value, shown as colour, shape and word."""

    NEUTRAL = ""
    GOOD = "good"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class PageCell:
    """Table cell with its level; `link` is the URL that the cell links to, or ""."""

    text: str
    level: Level = Level.NEUTRAL
    link: str = ""


@dataclass(frozen=True, slots=True)
class PageFact:
    """A titled value; `share` is the percentage that a meter shows, or None if there is no meter."""

    title: str
    text: str
    level: Level = Level.NEUTRAL
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """A condition that needs an operator's attention.

    Attributes:
        next_step: next step, "" if unknown.
        section: name of the page of docs/, and anchor of its section.
        kind: name of the alarm's kind, "" if it is not an alarm.
        marks: acknowledgement and silence of the alarm, with user, end and reason.
        silenced: whether `marks` contains a silence.
    """

    level: Level
    title: str
    text: str
    next_step: str = ""
    section: str = RUNBOOK
    kind: str = ""
    marks: tuple[str, ...] = ()
    silenced: bool = False

    @property
    def key(self) -> str:
        """Condition without quantities; the page announces a condition again only when its key changes."""
        return alarm_key(f"{self.title}: {self.text}")


@dataclass(frozen=True, slots=True)
class Panel:
    """Section of a page with optional facts, charts and a table; a folded section opens on request.

    Attributes:
        svg: charts made by `console.charts`; they need no escaping.
        links: addresses, relative to the page, with their link texts.
        actions: shown to administrators only.
    """

    id: str
    title: str
    text: str = ""
    facts: tuple[PageFact, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[PageCell, ...], ...] = ()
    svg: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    actions: tuple[ConsoleAction, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class ActionField:
    """An input of an action, sent as a parameter; `kind` is text, number or hidden."""

    name: str
    title: str
    value: str = ""
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """A change that an administrator requests by POST to `address`, relative to the overview.

    Attributes:
        name: the parameter of the page that asks for confirmation.
        confirmation: the question that the administrator must confirm first.
        on_alarm: whether the action is shown below each alarm.
    """

    name: str
    title: str
    address: str
    confirmation: str
    fields: tuple[ActionField, ...] = ()
    on_alarm: bool = False


@dataclass(frozen=True, slots=True)
class NodePage:
    """The page of one node.

    Attributes:
        paths: known paths; only this list identifies paths that contain a blank.
    """

    role: str
    cluster: str
    headline: str
    level: Level
    attention: tuple[Attention, ...] = ()
    facts: tuple[PageFact, ...] = ()
    panels: tuple[Panel, ...] = ()
    paths: tuple[str, ...] = ()


def cell(text: object, level: Level = Level.NEUTRAL) -> PageCell:
    """Return a cell; None is shown as a dash."""
    return PageCell(UNKNOWN if text is None or text == "" else str(text), level)


def without_paths(value: T, known: Sequence[str] = ()) -> T:
    """Return `value` with every file path replaced, for readers who are not administrators.

    Args:
        known: paths that contain a blank, the longest first.
    """
    content: Any = value
    if isinstance(content, str) and not isinstance(content, Level):
        for path in known:
            content = content.replace(path, "(path)")
        return cast(T, _PATH.sub("(path)", content))
    if isinstance(content, tuple):
        return cast(T, tuple(without_paths(each, known) for each in content))
    if is_dataclass(content) and not isinstance(content, type):
        if isinstance(content, NodePage):
            known = sorted((each for each in content.paths if " " in each), key=len, reverse=True)
        kept = ("svg", "links", "link", "id", "section", "kind")
        changed = {
            f.name: without_paths(getattr(content, f.name), known) for f in fields(content) if f.name not in kept
        }
        if isinstance(content, Panel):
            clean = partial(_SVG_TEXT.sub, lambda found: without_paths(found[0], known))
            changed["svg"] = tuple(map(clean, content.svg))
        return cast(T, replace(content, **changed))
    return value
