"""Alarm silences and acknowledgements: permissions, duration, end and visibility."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import threading
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from checkpointer.cli.run_command import _checks, _verify
from checkpointer.daemon import alarm_marks, child_process
from checkpointer.daemon.alarm_marks import ACKNOWLEDGEMENTS, SILENCES, AlarmAcknowledgements, AlarmSilences
from checkpointer.daemon.blueprints import ConsoleQuestions, daemon_blueprints, transfer_options
from checkpointer.daemon.service import CheckpointService
from console.check_page import CheckRow
from hadoop_common.access import AccessControl
from hadoop_common.errors import StorageError
from node_state.alarm_kinds import alarm_key
from node_state.history import HistoryEntry
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_transfer_servlet import ServingLimits
from site_config.checkpoint_config import Role
from tests.checkpointer.service_support import START, Clock, StoredRole, service_of, standby_config
from tests.cli_runner import run_cli
from tests.console.console_support import FAR, text_of
from tests.site_files import write_site

LATE = "/silence?kind=late&minutes=60&reason=we+know&by=ann"


@pytest.fixture
def role(tmp_path: Path) -> StoredRole:
    return StoredRole(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(role: StoredRole, clock: Clock) -> CheckpointService:
    made = service_of(role, clock)
    role.journal, role.written_at = 5, START - 1000
    return made


def client_of(role: StoredRole, service: CheckpointService) -> FlaskClient:
    config = standby_config()
    limits = ServingLimits(transfer_options(config), role.counter)
    verified = [CheckRow("storage", "OK", "intact")]
    questions = ConsoleQuestions(checks=list, peers=list, verify=lambda: verified)
    blueprints = daemon_blueprints(role, service, config, limits, AccessControl(), questions=questions)
    return create_application(*blueprints).test_client()


@pytest.mark.parametrize(
    ("code", "out", "err", "why"),
    [
        (-9, "", "", "code -9 and no result: no message"),
        (1, "", "Traceback\\nMemoryError\\n", "code 1 and no result: MemoryError"),
        (2, '{"error": "hdfs-site.xml is no XML", "code": 2}', "", "code 2 and no result: hdfs-site.xml is no XML"),
    ],
)
@pytest.mark.parameters(3)
def test_verification_without_a_result_gives_the_reason(
    code: int, out: str, err: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[int] = []
    monkeypatch.setattr(child_process, "lower_session_priority", lambda _, niceness: lowered.append(niceness))
    end = f"exit {code}" if code >= 0 else f"kill {code} $$"
    (interpreter := tmp_path / "interpreter").write_text(f"#!/bin/sh\nprintf '{out}'; printf '{err}' >&2; {end}\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    (row,) = _verify(tmp_path, Role.STANDBY)
    assert (row.state, row.summary) == ("UNKNOWN", f"the verification exited with {why}")
    assert f"check --conf {tmp_path}" in row.hint
    assert lowered == [10]


def test_silence_survives_a_restart_and_expires(role: StoredRole, service: CheckpointService, clock: Clock) -> None:
    client = client_of(role, service)
    assert 'hdfs_checkpointer_alarm_silenced{kind="late"} 0.0' in client.get("/metrics").text
    answer = client.post(LATE)
    assert (answer.status_code, answer.json) == (
        200,
        {"state": "done", "message": "alarms of the kind late are silenced for 60 minutes"},
    )
    again = client_of(role, service_of(role, clock))
    status = again.get("/status").json
    assert status is not None
    silence = status["silences"].pop("late")
    assert silence.pop("alarms")[0].startswith("no checkpoint for #, # transaction without an image")
    assert silence == {"by": "ann", "since": START, "until": START + 3600, "reason": "we know"}
    assert status["ready"] is False
    assert 'hdfs_checkpointer_alarm_silenced{kind="late"} 1.0' in again.get("/metrics").text
    assert "Silenced by ann until 2023-11-14 23:13 UTC: we know" in text_of(again.get("/").text)
    clock.now += 3601
    status = again.get("/status").json
    assert status is not None
    assert status["silences"] == {}


def test_acknowledgement_survives_a_restart_and_ends_with_its_alarm(
    role: StoredRole, service: CheckpointService, clock: Clock
) -> None:
    client = client_of(role, service)
    answer = client.post("/acknowledge?kind=late&reason=we+know&by=ann")
    assert answer.json == {"state": "done", "message": "alarms of the kind late are acknowledged until they end"}
    service = service_of(role, clock)
    client = client_of(role, service)
    status = client.get("/status").json
    assert status is not None
    ((alarm, known),) = status["acknowledgements"].items()
    assert [alarm] == status["alarms"]
    assert (known["by"], known["since"], known["until"], known["reason"]) == ("ann", START, None, "we know")
    assert (status["ready"], status["silences"]) == (False, {})
    assert 'hdfs_checkpointer_alarm_acknowledged{kind="late"} 1.0' in client.get("/metrics").text
    assert "Acknowledged by ann until it ends: we know" in text_of(client.get("/").text)
    (job,) = (job for job in service.jobs() if job.name == "acknowledgements")
    job.run()
    # an alarm that returns within an hour counts as the same alarm
    role.journal, left = 0, clock.now + 3599
    assert 'hdfs_checkpointer_alarm_acknowledged{kind="late"} 0.0' in client.get("/metrics").text
    clock.now = left
    job.run()
    role.journal = 5
    assert len(service.state().acknowledgements) == 1
    job.run()
    role.journal, clock.now = 0, clock.now + 3600
    job.run()
    role.journal = 5
    for again in (service, service_of(role, clock)):
        assert len(again.state().alarms) == 1
        assert again.state().acknowledgements == {}


def test_acknowledgement_expires_and_requires_an_alarm(
    role: StoredRole, service: CheckpointService, clock: Clock
) -> None:
    client = client_of(role, service)
    answer = client.post("/acknowledge?kind=space&reason=known")
    assert (answer.status_code, answer.json) == (
        409,
        {
            "state": "nothing raised",
            "message": "no alarm of the kind space is active: an alarm can be silenced in advance, but not "
            "acknowledged",
        },
    )
    for end in ("minutes=0", ""):
        made = client.post("/acknowledge?kind=late&minutes=60&reason=known").json
        assert made is not None
        assert made["message"] == "alarms of the kind late are acknowledged for 60 minutes"
        (known,) = service.state().acknowledgements.values()
        assert str(known) == "acknowledged by 127.0.0.1 until 2023-11-14 23:13 UTC: known"
        if end:
            assert client.post(f"/acknowledge?kind=late&{end}").status_code == 200
        else:
            clock.now += 3600
        assert service.state().acknowledgements == {}


def test_another_alarm_of_the_kind_is_not_acknowledged(role: StoredRole, service: CheckpointService) -> None:
    client, dropped = client_of(role, service), {"/data/2": "No space left on device"}
    role.storage = lambda: dropped  # type: ignore[method-assign]
    client.post("/acknowledge?kind=directory&reason=ordered")
    dropped["/data/1"] = "No space left on device"
    (alarm,) = service.state().acknowledgements
    assert "/data/2" in alarm
    assert 'hdfs_checkpointer_alarm_acknowledged{kind="directory"} 0.0' in client.get("/metrics").text
    assert text_of(client.get("/").text).count("until it ends: ordered") == 1


def test_a_new_alarm_of_the_kind_is_not_silenced(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    # while there are no alarms, a silence applies to the whole kind
    client.post("/silence?kind=edits&reason=maintenance")
    dropped = {"/data/2": "No space left on device"}
    role.storage = lambda: dropped  # type: ignore[method-assign]
    role.raised = ["a gap"]
    client.post("/silence?kind=directory&reason=ordered")
    assert service.state().silences.keys() == {"edits", "directory"}
    dropped["/data/1"] = "No space left on device"
    assert service.state().silences.keys() == {"edits"}
    assert 'hdfs_checkpointer_alarm_silenced{kind="directory"} 0.0' in client.get("/metrics").text
    del dropped["/data/1"]
    assert service.state().silences.keys() == {"edits", "directory"}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            "no checkpoint for 59 min 3 s, 1 transaction is",
            "no checkpoint for 26 h 0 min, 12,345 transactions is",
            True,
        ),
        ("fails (2 attempts in a row, in 40 s)", "fails (31 attempts in a row, in 3 min 4 s)", True),
        ("needs 900.0 MB, 12 bytes are free", "needs 1.1 GB, 3.0 kB are free", True),
        ("http://nn1:9870 lacks txid 7: 5 failed", "http://nn1:9870 lacks txid 120: 6 failed", True),
        ("/data/1/fsimage_0000000000000000007 differs", "/data/1/fsimage_0000000000000000009 differs", True),
        ("directory /data/1 is full", "directory /data/2 is full", False),
        ("10.0.0.1:9870 refuses", "10.0.0.2:9870 refuses", False),
        ("http://nn1:9870 refuses", "http://nn2:9870 refuses", False),
    ],
)
@pytest.mark.parameters(8)
def test_alarm_key_ignores_changing_quantities(first: str, second: str, same: bool) -> None:
    assert (alarm_key(first) == alarm_key(second)) is same


def test_operator_ends_a_silence(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    client.post(LATE)
    assert client.post("/silence?kind=late&minutes=0").status_code == 200
    assert service.silences.current() == {}
    assert AlarmSilences(role.image_folders, service.wall).current() == {}


@pytest.mark.parametrize(
    "query",
    [
        "kind=x&reason=r",
        "kind=late&reason=",
        "kind=late&reason=r&minutes=x",
        "kind=late&reason=r&minutes=1e9",
        "kind=late&reason=r&minutes=inf",
        "kind=late&reason=r&minutes=nan",
    ],
)
@pytest.mark.parameters(6)
def test_incomplete_silence_request_is_rejected(role: StoredRole, service: CheckpointService, query: str) -> None:
    assert client_of(role, service).post(f"/silence?{query}").status_code == 400
    assert service.silences.current() == {}


def test_remote_hosts_and_foreign_pages_may_not_change_marks(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    assert client.post(LATE, environ_overrides=FAR).status_code == 403
    browser = {"User-Agent": "Mozilla/5.0", "Origin": "http://evil.example.org"}
    for path in (LATE, LATE.replace("silence", "acknowledge"), "/console/verify"):
        assert client.post(path, headers=browser).status_code == 403
        assert client.get(path).status_code in (404, 405)
    own = {"User-Agent": "Mozilla/5.0", "X-XSRF-HEADER": "console", "Origin": "http://localhost"}
    assert client.post(LATE, headers=own).status_code == 200


def test_hanging_disk_delays_no_reader_of_silences(
    role: StoredRole, service: CheckpointService, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def write(path: Path, content: bytes) -> None:
        thread = threading.Thread(target=lambda: seen.append(service.silences.current()))
        thread.start()
        thread.join(600)
        assert not thread.is_alive()

    monkeypatch.setattr(alarm_marks, "write_atomically", write)
    service.silences.silence("late", "ann", 60, "known")
    assert seen == [{}]
    assert service.silences.current()["late"].by == "ann"


def test_silence_without_a_directory_is_an_error_and_keeps_others(
    role: StoredRole, service: CheckpointService, clock: Clock
) -> None:
    AlarmSilences(role.image_folders, clock.wall).silence("space", "bob", 60, "known")
    client, folders, role.folders = client_of(role, service), role.folders, []
    answer = client.post(LATE)
    assert answer.status_code == 500
    assert "no storage directory can store checkpointer-silences.json" in answer.text
    assert service.silences.current() == {}
    role.folders = folders
    assert client.post(LATE).status_code == 200
    assert service.silences.current().keys() == {"late", "space"}
    assert AlarmSilences(role.image_folders, clock.wall).current().keys() == {"late", "space"}


def test_newest_silence_file_wins_and_a_damaged_one_is_empty(
    role: StoredRole, service: CheckpointService, tmp_path: Path, clock: Clock
) -> None:
    service.silences.silence("late", "ann", 60, "first")
    other = tmp_path / "b" / "current"
    other.mkdir(parents=True)
    role.folders.append(other)
    clock.now += 1
    service.silences.silence("late", "bob", 60, "second")
    (tmp_path / SILENCES).write_bytes(b"{")
    found = AlarmSilences(role.image_folders, clock.wall).current()
    assert found["late"].by == "bob"
    os.truncate(tmp_path / "b" / SILENCES, 0)
    assert AlarmSilences(role.image_folders, clock.wall).current() == {}


@pytest.mark.parametrize(
    ("until", "silences", "acknowledgements"),
    [
        (math.inf, False, False),
        (math.nan, False, False),
        (START + 30 * 86400, True, True),
        (START + 30 * 86400 + 1, False, True),
    ],
)
@pytest.mark.parameters(4)
def test_stored_mark_with_an_invalid_end_is_ignored(
    until: float, silences: bool, acknowledgements: bool, role: StoredRole, clock: Clock, tmp_path: Path
) -> None:
    mark = {"by": "ann", "since": START, "until": START + 60, "reason": "known", "alarms": []}
    text = json.dumps({"space": mark, "late": {**mark, "until": until}})
    (tmp_path / SILENCES).write_text(text)
    (tmp_path / ACKNOWLEDGEMENTS).write_text(text)
    both = {"space", "late"}
    found = AlarmSilences(role.image_folders, clock.wall).current().keys()
    assert found == (both if silences else {"space"})
    known = AlarmAcknowledgements(role.image_folders, clock.wall).current().keys()
    assert known == (both if acknowledgements else {"space"})


def test_an_acknowledgement_ends_in_memory_without_a_directory(role: StoredRole, clock: Clock) -> None:
    made = AlarmAcknowledgements(role.image_folders, clock.wall, clock.wall)
    made.acknowledge("late", "ann", None, "known", alarms=["late"])
    made.observe({})
    clock.now, role.folders = clock.now + 3600, []
    with pytest.raises(StorageError, match="no storage directory can store"):
        made.observe({})
    assert made.current() == {}
    made.observe({})


def test_end_of_a_mark_is_logged(role: StoredRole, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    AlarmSilences(role.image_folders, clock.wall).silence("late", "ann", 0, "")
    AlarmAcknowledgements(role.image_folders, clock.wall).acknowledge("late", "bob", 0, "", alarms=[])
    assert caplog.messages == [
        "alarms of the kind late are no longer silenced: ended by ann",
        "alarms of the kind late are no longer acknowledged: ended by bob",
    ]


def test_only_administrators_see_actions(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    near, far = client.get("/").text, client.get("/", environ_overrides=FAR).text
    for action in ("checkpoint?force=true", "cancel", "console/verify", "silence", "acknowledge"):
        assert f'data-address="{action}' in near
        assert f'data-address="{action}' not in far
    assert client.get("/console/confirm?action=cancel").status_code == 200
    assert client.get("/console/confirm?action=cancel", environ_overrides=FAR).status_code == 403
    assert client.get("/console/confirm?action=shutdown").status_code == 404
    assert "</h1>" in client.get('/console/confirm?action=cancel&reason="><script>x</script>').text
    assert "<script>" not in client.get('/console/confirm?action=cancel&reason="><script>x</script>').text


def test_response_to_a_form_is_a_page(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    token = re.findall(r'name="token" value="([^"]+)"', client.get("/console/confirm?action=silence").text)[0]
    fields = {"token": token, "kind": "late", "minutes": "60", "by": "ann"}
    refused = client.post("/silence", data=fields)
    assert (refused.status_code, text_of(refused.text).endswith("Back to the console")) == (400, True)
    assert "Fault: a reason is required" in text_of(refused.text)
    done = client.post("/silence", data={**fields, "reason": "we know"})
    assert (done.status_code, "Good: alarms of the kind late" in text_of(done.text)) == (200, True)
    assert "default-src 'none'" in done.headers["Content-Security-Policy"]
    assert service.silences.current()["late"].by == "ann"
    assert 'href="../"' in client.post("/console/verify", data={"token": token}).text


def test_newest_image_is_verified_on_request(role: StoredRole, service: CheckpointService) -> None:
    client = client_of(role, service)
    answer = client.post("/console/verify").json
    assert answer is not None
    assert answer["state"] == "started"
    for thread in threading.enumerate():
        if thread.name == "console-verify":
            thread.join(600)
            assert not thread.is_alive()
    assert "storage Good: OK intact" in text_of(client.get("/?").text)


def test_commands_show_the_history_and_silence_an_alarm(
    role: StoredRole, service: CheckpointService, tmp_path: Path
) -> None:
    service.history.note(HistoryEntry(at=START, kind="checkpoint", txid=7, transactions=5, size=10))
    with HttpServer(client_of(role, service).application, "127.0.0.1", 0) as server:
        address = server.url.partition("://")[2]
        conf = tmp_path / "conf"
        conf.mkdir()
        write_site(conf, {"dfs.namenode.secondary.http-address": address, "dfs.namenode.http-address": "127.0.0.1:1"})
        shown = run_cli("history", "--conf", conf, "--role", "secondary")
        as_json = run_cli("history", "--conf", conf, "--role", "secondary", "--json", "--days", "90")
        silenced = run_cli("silence", "late", "--conf", conf, "--role", "secondary", "--reason", "we know")
        here = ("--conf", conf, "--role", "secondary", "--json")
        acknowledged = run_cli("acknowledge", "late", *here, "--reason", "ours")
        checked = run_cli("check", *here, "--only", "daemon")
        without = run_cli("silence", "late", "--conf", conf, "--role", "secondary")
    assert "5 transactions, 10 bytes" in shown.out
    assert [each["kind"] for each in json.loads(as_json.out)["entries"]] == ["restart", "checkpoint"]
    assert (silenced.code, silenced.out.strip()) == (0, "alarms of the kind late are silenced for 60 minutes")
    assert without.code == 2
    assert json.loads(acknowledged.out)["message"] == "alarms of the kind late are acknowledged until they end"
    details = json.loads(checked.out)["checks"][0]["details"]
    assert [each.partition(" by ")[0].rpartition(": ")[2] for each in details[-2:]] == ["silenced", "acknowledged"]
    assert service.silences.current()["late"].reason == "we know"


def test_the_page_runs_no_check_that_reads_whole_images(tmp_path: Path) -> None:
    """A check of the test's image, which has no content, would report damage."""
    write_site(tmp_path, {"fs.defaultFS": "hdfs://127.0.0.1:1", "dfs.namenode.http-address": "127.0.0.1:1"})
    names = [row.name for row in _checks(tmp_path, Role.SECONDARY)]
    assert "storage" not in names
    assert {"namenode", "age", "daemon", "space"} <= set(names)
