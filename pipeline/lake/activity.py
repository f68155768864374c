"""Operations by day and by user over the edits of the lake; runs without Spark.

Edits contain the user of an operation only if it creates an inode. Audit logs contain all users: each allowed operation
is one line, so the lines of a user are that user's operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from archive.audit import COMMANDS, AuditLine
from pipeline.lake.lake import edits_in, edits_table
from pipeline.lake.ranges import TxidRange, holes
from pipeline.reports.counts.edits import CREATES, KINDS, OTHER, kind_of

_CLOSING = "OP_CLOSE"  # the line of its file is the one that opened the file
_KIND_OF_COMMAND = {command: kind_of(op) for op, commands in COMMANDS.items() if op != _CLOSING for command in commands}

ByDay = Mapping[str, Counter[str]]
"""Numbers of operations by kind, by day (UTC) as YYYY-MM-DD."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Operations over days, the oldest first.

    Attributes:
        users: the same by user, the busiest first.
        missing: transactions of that time that the lake lacks.
    """

    days: ByDay
    users: Mapping[str, ByDay]
    missing: list[TxidRange]

    def users_of(self, day: str) -> int:
        """Return the number of users on a day."""
        return sum(day in days for days in self.users.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the activity for JSON."""
        return {
            "days": [{"day": day, "users": self.users_of(day), **by_kind(kinds)} for day, kinds in self.days.items()],
            "users": [
                {"name": name, "days": [{"day": day, **by_kind(kinds)} for day, kinds in days.items()]}
                for name, days in self.users.items()
            ],
            "missing": [each._asdict() for each in self.missing],
        }


def by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of all operations, and that of every kind."""
    return {"operations": sum(counts.values()), **{kind: counts.get(kind, 0) for kind in (*KINDS, OTHER)}}


def measure_activity(
    root: str, cluster: str, first_day: str, audit: Iterable[AuditLine] | None = None, *, after: int = 0
) -> Activity:
    """Count the transactions of a cluster from a day (UTC, YYYY-MM-DD) on.

    Args:
        after: a transaction; missing ones up to it are not reported.
        audit: lines of audit logs, from which users are counted instead; None for the users in the edits.

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
        day = datetime.fromtimestamp(line.time / 1000, UTC).date().isoformat()
        if day >= first_day and (kind := _KIND_OF_COMMAND.get(line.command, "")):
            users[line.user][day][kind] += 1
    busiest = sorted(users, key=lambda name: (-sum(each.total() for each in users[name].values()), name))
    missing = [each for each in holes(edits_in(table).get(cluster, [])) if each.last > after]
    return Activity(dict(sorted(days.items())), {name: dict(sorted(users[name].items())) for name in busiest}, missing)
