"""The history in the storage directories: what is kept, how it is bounded, and what a page and a command show of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.daemon.blueprints import daemon_blueprints, transfer_options
from checkpointer.daemon.history_file import MAX_BYTES, NAME, HistoryFile
from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.role import Upload
from hadoop_common.access import AccessControl
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from node_state.history import (
    CHECKPOINT,
    FAILURE,
    KEPT_DAYS,
    HistoryEntry,
    HistoryMark,
    as_line,
    events_between,
    read_lines,
    recent,
)
from servlets.application import create_application
from servlets.image_transfer import ServingLimits
from tests.checkpointer.schemas import valid
from tests.checkpointer.service_support import START, TRANSACTIONS, Clock, FakeRole, standby_config
from tests.console.console_support import FAR
from tests.console.test_console_page import text_of

ENTRY = HistoryEntry(
    at=START, kind=CHECKPOINT, txid=7, transactions=5, size=100, reason="txns", seconds={"load": 1.0, "save": 0.5}
)


class StoredRole(FakeRole):
    """A role with a storage directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.folders = [root / "current"]
        self.folders[0].mkdir(parents=True)
        self.info = super().storage_info()

    def image_folders(self) -> list[Path]:
        return self.folders

    def storage_info(self) -> StorageInfo:
        return self.info


def service_of(role: FakeRole, clock: Clock) -> CheckpointService:
    role.wall = clock.wall
    return CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)


def kinds(service: CheckpointService) -> list[str]:
    return [entry.kind for entry in service.history.entries()]


@given(
    st.builds(
        HistoryEntry,
        at=st.floats(0, 1e10),
        kind=st.text(min_size=1),
        text=st.text(max_size=400),
        txid=st.none() | st.integers(),
    )
)
def test_an_entry_survives_its_line(entry: HistoryEntry) -> None:
    assert list(read_lines(as_line(entry).splitlines())) == [entry]


@given(st.integers(0, 200), st.binary(max_size=20))
def test_a_torn_line_costs_only_itself(cut: int, junk: bytes) -> None:
    line = as_line(ENTRY)
    torn = line[: min(cut, len(line) - 2)] + junk.replace(b"\n", b"")
    found = list(read_lines((line + torn + b"\n" + line).splitlines()))
    assert found[0] == found[-1] == ENTRY


def test_a_torn_end_does_not_swallow_the_next_entry(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    (tmp_path / NAME).write_bytes(as_line(ENTRY)[:-9])
    file = HistoryFile(lambda: [tmp_path / "current"])
    file.append(ENTRY)
    assert file.entries() == [ENTRY]


def test_the_files_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    file = HistoryFile(lambda: [tmp_path / "current"], max_bytes=1000)
    for number in range(100):
        file.append(replace(ENTRY, txid=number))
    sizes = [path.stat().st_size for path in tmp_path.glob(f"{NAME}*")]
    assert sum(sizes) < 3000
    assert file.entries()[-1].txid == 99
    assert len(sizes) <= 2
    assert MAX_BYTES * 2 < 10 << 20


def test_several_directories_have_it_once_and_a_broken_one_disturbs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / "current").mkdir(parents=True)
    (roots[1] / NAME).mkdir()
    file = HistoryFile(lambda: [root / "current" for root in roots])
    file.append(ENTRY)
    file.append(replace(ENTRY, txid=8))
    assert [entry.txid for entry in recent(file.entries(), START)] == [7, 8]
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1
    assert recent([ENTRY, ENTRY, replace(ENTRY, at=START - KEPT_DAYS * 86_400 - 1)], START) == [ENTRY]


def test_events_are_what_two_polls_tell_apart() -> None:
    before = HistoryMark("nn1:9870", (-66, 0), 100)
    assert list(events_between(before, before, 1.0)) == []
    assert list(events_between(before, HistoryMark(), 1.0)) == []
    after = HistoryMark("nn2:9870", (-67, 5), 90)
    assert [event.kind for event in events_between(before, after, 1.0)] == ["failover", "upgrade", "set-back"]


def test_a_daemon_keeps_its_history_over_a_restart(tmp_path: Path) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    role.journal = TRANSACTIONS
    service.poll()
    role.journal *= 2
    role.fault = StorageError("disk full")
    clock.now += 1
    service.poll()
    role.uploads = [Upload("http://nn1:9870", "failed", error="HTTP 413")]
    role.fault = None
    clock.now += 100
    service.poll()
    again = service_of(role, clock)
    clock.now += 1
    role.image = 3
    role.info = replace(role.info, c_time=9)
    again.poll()
    role.image = 2
    again.history.observe(2)
    assert kinds(again) == [
        "restart",
        "checkpoint",
        "upload",
        "failure",
        "checkpoint",
        "upload",
        "restart",
        *kinds(again)[7:],
    ]
    assert "set-back" in kinds(again)
    first = next(entry for entry in again.history.entries() if entry.kind == CHECKPOINT)
    assert (first.txid, first.transactions, first.reason, first.seconds["replay"]) == (50, 50, "txns", 2.0)
    assert next(e for e in again.history.entries() if e.kind == FAILURE).text == "disk full"


def test_the_page_and_the_answer_show_it(tmp_path: Path) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    config = standby_config()
    limits = ServingLimits(transfer_options(config), role.counter)
    client = create_application(*daemon_blueprints(role, service, config, limits, AccessControl())).test_client()
    assert "Nothing has happened yet" in client.get("/console/charts").text
    for number in range(1, 200):
        role.journal = number * TRANSACTIONS
        clock.now += 3600
        service.poll()
    told = client.get("/history?days=1").json
    assert told is not None
    assert {entry["kind"] for entry in told["entries"]} == {"checkpoint", "upload"}
    assert len(json.loads(client.get("/history").text)["entries"]) == 2 * 199 + 1
    assert client.get("/history?days=x").status_code == 400
    valid("history.json")(told)
    page = client.get("/console/charts", environ_overrides=FAR).text
    assert page.count("<svg") == 3
    assert "50 transactions, 1 byte, load 1.0 s, replay 2.0 s, save 3.0 s" in text_of(page)
    assert page.count('class="bar-2"') <= 130
    assert 'class="event"' in page
    assert "Checkpoints over time" in client.get("/").text
