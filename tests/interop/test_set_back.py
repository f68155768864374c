"""No change is lost when a real NameNode is set back, in any way, with a daemon in each of our roles.

A row takes 10 to 25 seconds. The quick tier plays one row, caused by Hadoop's own procedures or file backups.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.depth import chosen
from tests.interop.clients import ClientJvm
from tests.interop.hadoop_home import NEWEST, OLDEST, SERVER
from tests.interop.set_back import EVENTS, Row, play, play_purge, play_two_upgrades
from tests.interop.sites import LOST, ROLES

pytestmark = [pytest.mark.interop]

QUICK = [
    Row("standby", "rolling_rollback"),
    # the restore of docs/operations.md, while the daemon has a newer image than the restored NameNode
    Row("standby", "older_image", down=True, imaged=True),
    # the new transactions have the txids of the lost transactions, and the new segments have the same bounds
    *(Row(role, "older_files", anew=LOST) for role in ("secondary", "standby", "quorum")),
]
# events that create another namespace, after which an operator has to decide how to continue
ALARMS = ("formatted_anew",)
# events after which txids and segments may repeat
NASTY = ("rolling_rollback", "older_files")
ASKED_FOR_OPEN_EDITS = ("rolling_rollback", "older_files", "dropped_tail")


def rows() -> Iterator[Row]:
    """Yield every role with every event that concerns it, in several ways."""
    for role in ROLES:
        for event in EVENTS:
            if _concerns(role, event):
                yield from _ways(role, event)


def _concerns(role: str, event: str) -> bool:
    if event == "dropped_tail":
        # Recovery never drops transactions that two of three JournalNodes have; it would fail instead.
        return role in ("backup", "standby-open")
    if role.endswith("-open"):
        return event in ASKED_FOR_OPEN_EDITS
    if event == "imported_checkpoint":
        # Hadoop refuses -importCheckpoint with shared edits; in such clusters, a restore from an image serves the same
        # purpose.
        return ROLES[role].command != "standby"
    return True


def _ways(role: str, event: str) -> Iterator[Row]:
    if event in ALARMS:
        started = "alarms" if role == "secondary" else "ends"
        yield Row(role, event, "alarms")
        yield Row(role, event, started, down=True)
        yield Row(role, event, started, down=True, anew=LOST, imaged=True)
        return
    expected = "heals"
    if event == "cloned":
        yield Row(role, event, expected, down=True, imaged=True)
        yield Row(role, event, expected, down=True, imaged=True, anew=LOST)
        return
    yield Row(role, event, expected)
    if role == "quorum-open":
        # this role reads the edits of "standby-open" from the JournalNodes of "quorum"
        return
    yield Row(role, event, expected, down=True)
    if event != "dropped_tail":
        # an image ends the segment whose tail the event loses
        yield Row(role, event, expected, down=True, anew=LOST, imaged=True)
    yield Row(role, event, expected, anew=LOST)
    yield Row(role, event, expected, anew=LOST // 4)
    yield Row(role, event, expected, periodic=True)
    yield Row(role, event, expected, down=True, periodic=True)
    if event in NASTY:
        yield Row(role, event, expected, anew=LOST, alike=True)
        yield Row(role, event, expected, anew=LOST, purged=True)
        yield Row(role, event, expected, anew=LOST, imaged=True, purged=True)
        yield Row(role, event, expected, down=True, anew=LOST, imaged=True, purged=True)
        yield Row(role, event, expected, down=True, anew=LOST, rolled=True)


def deep_rows() -> list[Row]:
    """Return all rows for the oldest and the newest release, which differ most, and three rows for each other
    release.
    """
    deep = [row for row in rows() if row not in QUICK]
    return deep if SERVER in (OLDEST, NEWEST) else list(chosen(deep, 3, "set back"))


@pytest.mark.parametrize("row", QUICK, ids=str)
def test_nothing_is_lost_after_a_set_back(row: Row, client_jvm: ClientJvm, tmp_path: Path) -> None:
    play(row, client_jvm, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("role", list(ROLES))
def test_the_rollback_image_of_an_earlier_upgrade_is_not_offered(
    role: str, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    play_two_upgrades(ROLES[role], client_jvm, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("row", deep_rows(), ids=str)
def test_nothing_is_lost_after_any_way_of_setting_back(row: Row, client_jvm: ClientJvm, tmp_path: Path) -> None:
    play(row, client_jvm, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("role", ["backup", "standby", "quorum"])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_image_that_the_namenode_purged_is_kept(
    role: str, restarted: bool, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    play_purge(ROLES[role], client_jvm, tmp_path, restarted=restarted)
