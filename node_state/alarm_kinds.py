"""Kinds of alarms: name, title, severity and runbook section. Pages, metrics and alert rules are derived from this
table.

An alarm without a kind counts as `OTHER`, so that a new alarm is visible everywhere before it receives a kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OTHER: Final = "other"
ROLE: Final = "edits"

# a number as a separate word with its unit; numbers in paths and addresses do not match, because they are parts of
# names
_QUANTITY: Final = re.compile(
    r"(?<![^\s(])\d+(?:,\d{3})*(?:\.\d+)?(?![\w/-]|[.:]\d)(?: (?:h|min|s|bytes?|[kMGTP]?i?B)\b)?"
)
# a transaction id in the name of a file
_LONG_NUMBER: Final = re.compile(r"\d{6,}")
_SEVERAL: Final = re.compile(r"#(?: #)+")
_PLURAL: Final = re.compile(r"# ([a-z]+?)s\b")


@dataclass(frozen=True, slots=True)
class AlarmKind:
    """A kind of alarm.

    Attributes:
        title: the problem in a few words.
        section: page and anchor of the section in docs/ that describes the operator's actions.
        pages: whether the alarm requires an operator's attention immediately.
    """

    name: str
    title: str
    section: str
    pages: bool = False

    @property
    def next_step(self) -> str:
        """Default next step, for alarms without a specific next step."""
        return f"See docs/{self.section}."


_KINDS = (
    AlarmKind("archive", "The archive is behind", "operations.md#metrics-and-alarms"),
    AlarmKind("attempts", "Checkpoints fail", "runbook.md#no-checkpoint-for-several-periods"),
    AlarmKind("configuration", "The configuration on disk is invalid", "operations.md#run"),
    AlarmKind("directory", "A storage directory is not used", "runbook.md#disk-full-or-broken"),
    AlarmKind(ROLE, "Edits are not read or applied", "runbook.md#gap-in-the-edits"),
    AlarmKind("healed", "Snapshots were healed", "runbook.md#snapshots-were-healed", pages=True),
    AlarmKind(
        "image",
        "A file with an image's name cannot be used",
        "runbook.md#a-file-named-like-an-image-that-cannot-be-used",
    ),
    AlarmKind("lake", "The lake is behind", "operations.md#metrics-and-alarms"),
    AlarmKind("late", "No checkpoint for several periods", "runbook.md#no-checkpoint-for-several-periods", pages=True),
    AlarmKind("namenode", "A NameNode does not answer", "runbook.md#namenode-down"),
    AlarmKind("report", "The daily report failed", "operations.md#metrics-and-alarms"),
    AlarmKind("shadow", "An image of the NameNode differs from ours", "runbook.md#an-image-differs-in-shadow-mode"),
    AlarmKind("space", "No space for the next image", "runbook.md#disk-full-or-broken"),
    AlarmKind("unreadable", "Storage or journal cannot be read", "runbook.md#namenode-down"),
    AlarmKind(
        "upload", "A NameNode does not receive the image", "runbook.md#the-namenode-refuses-an-image-403-409-410-417"
    ),
    AlarmKind(OTHER, "The daemon has another alarm", "operations.md#metrics-and-alarms"),
)

ALARM_KINDS: Final = {kind.name: kind for kind in _KINDS}


def kind_named(name: str) -> AlarmKind:
    """Return the kind with this name, or `OTHER` if the name is unknown."""
    return ALARM_KINDS.get(name, ALARM_KINDS[OTHER])


def alarm_key(text: str) -> str:
    """Return an alarm's text without counts, times and sizes, so that the key does not change with them."""
    return _PLURAL.sub(r"# \1", _SEVERAL.sub("#", _LONG_NUMBER.sub("#", _QUANTITY.sub("#", text))))


def alarm_keys(kinds: Mapping[str, str], kind: str) -> set[str]:
    """Return the keys of all alarms of `kind`; `kinds` maps alarms to their kinds."""
    return {alarm_key(text) for text, each in kinds.items() if each == kind}
