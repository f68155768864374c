"""The history in the storage directories: its content and bounds, and its display on a page and by a command."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.daemon import history_file
from checkpointer.daemon.blueprints import daemon_blueprints, transfer_options
from checkpointer.daemon.history import history_json
from checkpointer.daemon.history_file import MAX_BYTES, NAME, HistoryFile
from checkpointer.daemon.service import CheckpointService
from checkpointer.set_back.start_over import LostPast
from checkpointer.transfer.upload_target import Upload
from hadoop_common.access import AccessControl
from hadoop_common.errors import StorageError
from node_state.history import (
    CHECKPOINT,
    FAILURE,
    KEPT_DAYS,
    RECOVERY,
    HistoryEntry,
    HistoryMark,
    as_entry,
    as_line,
    events_between,
    read_line,
    recent,
)
from servlets.application import create_application
from servlets.image_transfer_servlet import ServingLimits
from servlets.status import TriggerState
from tests.checkpointer.schemas import valid
from tests.checkpointer.service_support import (
    START,
    TRANSACTIONS,
    Clock,
    FakeRole,
    StoredRole,
    service_of,
    standby_config,
)
from tests.console.console_support import FAR, text_of

ENTRY = HistoryEntry(
    at=START, kind=CHECKPOINT, txid=7, transactions=5, size=100, reason="txns", seconds={"load": 1.0, "save": 0.5}
)


def client_of(role: FakeRole, service: CheckpointService) -> FlaskClient:
    config = standby_config()
    limits = ServingLimits(transfer_options(config), role.counter)
    return create_application(*daemon_blueprints(role, service, config, limits, AccessControl())).test_client()


def kinds(service: CheckpointService) -> list[str]:
    return [entry.kind for entry in service.history.entries()]


@given(
    st.builds(
        HistoryEntry,
        at=st.floats(0, 1e10),
        kind=st.text(min_size=1),
        text=st.text(max_size=400),
        txid=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    )
)
def test_entry_round_trip(entry: HistoryEntry) -> None:
    assert read_line(as_line(entry)) == entry


@given(st.integers(0, 200), st.binary(max_size=20))
def test_torn_line_loses_only_itself(cut: int, junk: bytes) -> None:
    line = as_line(ENTRY)
    torn = line[: min(cut, len(line) - 2)] + junk.replace(b"\n", b"")
    found = [read_line(each) for each in (line + torn + b"\n" + line).splitlines()]
    assert found[0] == found[-1] == ENTRY


def test_entry_after_a_torn_line_is_kept(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    (tmp_path / NAME).write_bytes(as_line(ENTRY)[:-9])
    file = HistoryFile(lambda: [tmp_path / "current"])
    file.append(ENTRY)
    assert file.entries() == [ENTRY]


def test_history_size_is_limited_and_newest_entries_are_kept(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    file = HistoryFile(lambda: [tmp_path / "current"], max_bytes=1000)
    for number in range(100):
        file.append(replace(ENTRY, txid=number))
    sizes = [path.stat().st_size for path in tmp_path.glob(f"{NAME}*")]
    assert sum(sizes) < 3000
    assert file.entries()[-1].txid == 99
    assert len(sizes) <= 2
    assert MAX_BYTES * 2 < 10 << 20


def test_entries_of_several_directories_are_shown_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / "current").mkdir(parents=True)
    (roots[1] / NAME).mkdir()
    file = HistoryFile(lambda: [root / "current" for root in roots])
    file.append(ENTRY)
    file.append(replace(ENTRY, txid=8))
    assert [entry.txid for entry in file.entries()] == [7, 8]
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1


def test_only_recent_entries_without_future_ones_are_shown() -> None:
    at = (START - KEPT_DAYS * 86_400 - 1, START, START + 3600, START + 9 * 86_400)
    assert [entry.at for entry in recent([replace(ENTRY, at=each) for each in at], START)] == [START, START + 3600]


@pytest.mark.parametrize(
    "damage", ['"at":1e30', '"at":NaN', '"at":1e999', '"size":1' + "0" * 400, '"latency":Infinity']
)
@pytest.mark.parameters(5)
def test_damaged_number_loses_only_its_line(tmp_path: Path, damage: str) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    line = b'{"kind":"checkpoint","at":1700000000.0,' + damage.encode() + b"}\n"
    (tmp_path / NAME).write_bytes(line + as_line(ENTRY))
    client = client_of(role, service)
    assert client.get("/").status_code == client.get("/console/charts").status_code == 200
    reported = client.get("/history").json
    assert reported is not None
    assert [each["txid"] for each in reported["entries"]] == [7]
    assert as_entry(json.loads(line)) is None


def test_page_parses_only_appended_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / "current").mkdir(parents=True)
    file = HistoryFile(lambda: [root / "current" for root in roots], max_bytes=1000)
    parsed: list[bytes] = []
    monkeypatch.setattr(history_file, "read_line", lambda line: (parsed.append(line), read_line(line))[1])
    for number in range(30):
        entry = replace(ENTRY, at=START + number, txid=number)
        file.append(entry)
        assert file.entries()[-1] == entry
        assert file.entries() is file.entries()
        # each line is parsed only once, even after rotations and in two directories
        assert len(parsed) == number + 1
    assert len(file.entries()) < 20
    (roots[0] / NAME).write_bytes(b"")
    (roots[1] / NAME).unlink()
    assert len(file.entries()) < 10


def test_an_append_does_not_wait_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "current").mkdir()
    file = HistoryFile(lambda: [tmp_path / "current"])
    file.append(ENTRY)

    def read(line: bytes) -> HistoryEntry | None:
        thread = threading.Thread(target=file.append, args=[replace(ENTRY, txid=8)])
        thread.start()
        thread.join(600)
        assert not thread.is_alive()
        return read_line(line)

    monkeypatch.setattr(history_file, "read_line", read)
    assert file.entries() == [ENTRY]
    monkeypatch.undo()
    assert [entry.txid for entry in file.entries()] == [7, 8]


def test_history_error_does_not_affect_a_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "SUCCESS", txid=object())]  # type: ignore[arg-type]
    assert service.poll().state is TriggerState.DONE
    role.storage_info = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    service.poll()
    service.history.note(replace(ENTRY, txid=np.int64(9)))  # type: ignore[arg-type]
    assert service.history.entries()[-1].txid == 9
    assert len([line for line in caplog.messages if "history is incomplete: TypeError" in line]) == 1


def test_start_is_recorded_once_a_directory_is_formatted(tmp_path: Path) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    folders, role.folders = role.folders, []
    service = service_of(role, clock)
    service.history.note(ENTRY)
    role.folders = folders
    clock.now += 60
    service.history.note(replace(ENTRY, at=clock.wall()))
    assert [(entry.kind, entry.at) for entry in service.history.entries()] == [
        ("restart", START),
        ("checkpoint", START + 60),
    ]


def test_events_follow_from_differences_between_two_polls() -> None:
    before = HistoryMark("nn1:9870", (-66, 0), (5.0, "no edit 7"))
    assert list(events_between(before, before, 1.0)) == []
    assert list(events_between(before, HistoryMark(), 1.0)) == []
    after = HistoryMark("nn2:9870", (-67, 5), (6.0, "no edit 9"))
    assert [event.kind for event in events_between(before, after, 1.0)] == ["failover", "upgrade", "set-back"]


def test_history_survives_a_restart_of_the_daemon(tmp_path: Path) -> None:
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
    # a failed directory had the newest image
    again.history.observe()
    role.lost = LostPast("there is no image here", [], clock.wall())
    again.history.observe()
    assert "set-back" not in kinds(again)
    role.lost = LostPast("the NameNode has no edit 3", [tmp_path / "lost_past"], clock.wall())
    again.history.observe()
    assert kinds(again) == [
        "restart",
        "checkpoint",
        "upload",
        "failure",
        "checkpoint",
        "recovery",
        "upload",
        "restart",
        *kinds(again)[8:],
    ]
    assert "set-back" in kinds(again)
    first = next(entry for entry in again.history.entries() if entry.kind == CHECKPOINT)
    assert (first.txid, first.transactions, first.reason, first.seconds["replay"]) == (50, 50, "txns", 2.0)
    assert next(e for e in again.history.entries() if e.kind == FAILURE).text == "disk full"


def test_lasting_failure_has_one_entry_at_its_start_and_one_at_its_end(tmp_path: Path) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    faults = ["nn1:8020: no answer in 20 s", "nn1:8020: connection refused"]
    for number in range(200):
        role.read_fault = StorageError(faults[number % 7 == 6])
        clock.now += 60
        service.poll()
    role.read_fault = None
    service.poll()
    role.read_fault = StorageError(faults[0])
    clock.now += 1e4
    service.poll()
    found = [(entry.kind, entry.text) for entry in service.history.entries() if entry.kind in (FAILURE, RECOVERY)]
    again = "storage and journal can be read again after 3 h 19 min, 200 polls"
    assert found == [("failure", faults[0]), ("failure", faults[1]), ("recovery", again), ("failure", faults[0])]
    assert service.status()["failures"] > 100
    valid("history.json")(history_json(service.history.entries()))


def test_history_is_shown_on_the_page_and_as_json(tmp_path: Path) -> None:
    role, clock = StoredRole(tmp_path), Clock()
    service = service_of(role, clock)
    client = client_of(role, service)
    assert "Nothing has happened yet" in client.get("/console/charts").text
    for number in range(1, 200):
        role.journal = number * TRANSACTIONS
        clock.now += 3600
        service.poll()
    reported = client.get("/history?days=1").json
    assert reported is not None
    assert {entry["kind"] for entry in reported["entries"]} == {"checkpoint", "upload"}
    assert len(json.loads(client.get("/history").text)["entries"]) == 2 * 199 + 1
    assert client.get("/history?days=x").status_code == 400
    valid("history.json")(reported)
    page = client.get("/console/charts", environ_overrides=FAR).text
    assert page.count("<svg") == 3
    assert "50 transactions, 1 byte, load 1.0 s, replay 2.0 s, save 3.0 s" in text_of(page)
    assert page.count('class="bar-2"') <= 130
    assert 'class="event"' in page
    assert "Checkpoints over time" in client.get("/").text
