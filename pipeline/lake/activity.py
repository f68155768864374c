"""Operations by day and by user over the edits of the lake; runs without Spark.

Edits contain the user of an operation only if the operation creates an inode. Audit logs contain all users: each
allowed operation is one line, so a user's lines are the user's operations. Audit logs also contain operations that
change nothing: files opened for reading, and queries about names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from archive.audit import COMMANDS, AuditLine
from pipeline.lake.lake import edits_in, edits_table
from pipeline.lake.ranges import TxidRange, holes
from pipeline.reports.counts.edits import CREATES, KINDS, OTHER, kind_of

_CLOSING = "OP_CLOSE"  # not audited; the audit line belongs to the operation that opened the file
_KIND_OF_COMMAND = {command: kind_of(op) for op, commands in COMMANDS.items() if op != _CLOSING for command in commands}
OPENS, LOOKUPS = "opens", "lookups"
# commands of FSNamesystem's audit lines that change nothing, unlike the commands in `COMMANDS`
_LOOKUP = re.compile(r"(?:get|list|List|is|check)\w+|contentSummary|quotaUsage|computeSnapshotDiff")
_DAY_MS = 86_400_000

ByDay = Mapping[str, Counter[str]]
"""Number of operations of each kind, by day (YYYY-MM-DD, UTC)."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Operations by day, the oldest day first.

    Attributes:
        users: operations of each user by day, the busiest user first.
        missing: transactions of these days that are missing in the lake.
        audited: whether audit logs were read; `OPENS` and `LOOKUPS` are known only then.
    """

    days: ByDay
    users: Mapping[str, ByDay]
    missing: list[TxidRange]
    audited: bool = False

    def users_of(self, day: str) -> int:
        """Return the number of users on a day."""
        return sum(day in days for days in self.users.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the activity for JSON."""
        return {
            "days": [
                {"day": day, "users": self.users_of(day), **self.by_kind(kinds)} for day, kinds in self.days.items()
            ],
            "users": [
                {"name": name, "days": [{"day": day, **self.by_kind(kinds)} for day, kinds in days.items()]}
                for name, days in self.users.items()
            ],
            "missing": [each._asdict() for each in self.missing],
        }

    def by_kind(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the number of all changes, of each kind of change and, with audit logs, of opens and lookups."""
        changes = {kind: counts.get(kind, 0) for kind in (*KINDS, OTHER)}
        reads = {kind: counts.get(kind, 0) for kind in ((OPENS, LOOKUPS) if self.audited else ())}
        return {"operations": sum(changes.values()), **changes, **reads}


def kind_of_command(command: str) -> str:
    """Return the kind of an audit line's command; "" for administration, which does not change the namespace."""
    if command == "open":
        return OPENS
    kind = _KIND_OF_COMMAND.get(command, "")
    return LOOKUPS if not kind and _LOOKUP.fullmatch(command) else kind


def measure_activity(
    root: str, cluster: str, first_day: str, audit: Iterable[AuditLine] | None = None, *, after: int = 0
) -> Activity:
    """Count the transactions of a cluster from a day (UTC, YYYY-MM-DD) on.

    Args:
        after: transaction id up to which the function does not report missing transactions.
        audit: lines of audit logs, to count users, opens and lookups; None to count the users in the edits.

    Raises:
        LakeError: the lake cannot be read.
    """
    table = edits_table(root)
    days: dict[str, Counter[str]] = defaultdict(Counter)
    users: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for file in table.files():
        day = file.partition["day"]
        if file.partition["cluster"] != cluster or day < first_day:
            continue
        rows = table.read(["op", "owner"], [file]).group_by(["op", "owner"]).aggregate([([], "count_all")])
        for row in rows.to_pylist():
            kind, count = kind_of(row["op"]), row["count_all"]
            days[day][kind] += count
            if audit is None and kind == CREATES and row["owner"]:
                users[row["owner"]][day][kind] += count
    for line in audit or ():
        day = _day(line.time // _DAY_MS)
        if day >= first_day and (kind := kind_of_command(line.command)):
            users[line.user][day][kind] += 1
            if kind in (OPENS, LOOKUPS):
                days[day][kind] += 1
    busiest = sorted(users, key=lambda name: (-sum(each.total() for each in users[name].values()), name))
    missing = [each for each in holes(edits_in(table).get(cluster, [])) if each.last > after]
    by_user = {name: dict(sorted(users[name].items())) for name in busiest}
    return Activity(dict(sorted(days.items())), by_user, missing, audit is not None)


@cache
def _day(number: int) -> str:
    return datetime.fromtimestamp(number * _DAY_MS / 1000, UTC).date().isoformat()
