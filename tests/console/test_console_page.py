"""Pages of all programs, their content for each kind of caller, and the cost of rendering."""

from __future__ import annotations

import importlib
import io
import logging
import re
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from console.background import BackgroundWork
from console.blueprint import console_blueprint
from console.charts import ChartBar, bar_chart
from console.check_page import CheckPage, CheckRow
from console.daemon_page import restart_cost
from console.model import Panel, without_paths
from console.process_panels import process_panels, watch_log, watch_settings
from console.report_panel import report_panels
from console.runbook import document
from console.server_pages import page_of
from console.sources import BriefCache, ConsoleSources
from console.warning_log import WarningLog
from console.words import code_marked
from hadoop_common.access import AccessControl
from hadoop_common.configuration import Configuration
from node_state.alarm_kinds import ALARM_KINDS
from node_state.report_folder import KeptReport, list_reports
from node_state.state import NodeState, TargetState, as_json
from servlets.application import create_application
from servlets.change_guard import CSRF_HEADER
from site_config.shown_settings import shown_settings
from tests.console.console_support import FAR, FULL, client_of, daemon_state, text_of
from tests.tools.hints import PACKAGES

ROOT = Path(__file__).parents[2]


def test_page_of_a_daemon_shows_state_and_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("console.blueprint.page_of", lambda status, _: page_of(status, now))
    text = text_of(client_of(daemon_state(now)).get("/").text)
    for shown in (
        "Checkpointer, role standby · CID-1",
        "Active NameNode nn1",
        "save: 400.0 MB of 1.0 GB, about 1 min 0 s left",
        "would replay 6,000,030 transactions at http://nn1:9870, about 1 min 0 s",
        FULL,
        "Next: Free space on that disk.",
        "Failures since the last success: 4; last error: HTTP 413",
        "jn3:8485: cannot connect",
        "nn1 http://nn1:9870 active 100 6,000,030 16 min 30 s ago accepted 16 min 30 s ago",
        "/data/1 in use 100.0 GB 1.0 TB",
        "disk full (33 min 20 s ago)",
    ):
        assert shown in text.replace("Good: ", ""), shown


def target(address: str, **values: Any) -> TargetState:
    return TargetState(address=address, **values)


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        ((), None),
        # a refused image is not offered again, but the NameNode does not have it
        ((target("nn1", txid=90, result="OLD_TRANSACTION_ID_FAILURE", error="too recent"),), "unknown"),
        ((target("nn1", txid=90, held_txid=0, error="too recent"),), "would replay 100 transactions, "),
        ((target("nn1", held_txid=90), target("nn2", held_txid=40)), "would replay 60 transactions at nn2"),
        ((target("nn1", held_txid=90), target("nn2", result="standby")), "would replay 10 transactions at nn1"),
    ],
)
@pytest.mark.parameters(5)
def test_restart_cost_depends_on_the_oldest_image(targets: tuple[TargetState, ...], shown: str | None) -> None:
    state = NodeState(role="standby", image_txid=100, journal_txid=100, targets=targets)
    fact = restart_cost(as_json(state))
    assert (fact is None) is (shown is None)
    assert fact is None or fact.text.startswith(shown or "")


def test_attention_items_link_to_their_runbook_sections() -> None:
    page = client_of(daemon_state()).get("/").text
    links = re.findall(r'href="docs/runbook\.md#([\w-]+)">Runbook<span', page)
    assert links == [
        "disk-full-or-broken",
        "a-journalnode-does-not-answer",
        "the-namenode-refuses-an-image-403-409-410-417",
    ]
    client = client_of(daemon_state())
    runbook = client.get("/docs/runbook.md").text
    assert all(f'id="{link}"' in runbook for link in links)


def test_every_alarm_kind_has_a_section_and_every_alarm_a_known_kind() -> None:
    def exists(section: str) -> bool:
        page, _, anchor = section.partition("#")
        found = document(page)
        return found is not None and f'id="{anchor}"' in found.body

    assert [kind.name for kind in ALARM_KINDS.values() if not exists(kind.section)] == []
    sources = "".join(path.read_text() for path in (ROOT / "console").rglob("*_page*.py"))
    named = set(re.findall(r'"([a-z]+\.md#[\w-]+)"\)?,?$', sources, re.MULTILINE))
    assert named
    assert {each for each in named if not exists(each)} == set()
    code = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    kinds = set(re.findall(r'\bAlarm\([^()]*, "(\w+)"\)', code))
    assert {"late", "space", "configuration"} <= kinds <= set(ALARM_KINDS)


def test_unknown_status_fields_are_shown() -> None:
    status = as_json(daemon_state(alarms=("it is odd",), alarm_kinds={"it is odd": "strange"}))
    status |= {"archive": {"lagTransactions": 7, "location": "s3://bucket"}, "moonPhase": "full"}
    text = text_of(client_of(status).get("/").text)
    assert "Archive Lag transactions 7 Location s3://bucket" in text
    assert "Moon phase full" in text
    assert "The daemon has another alarm it is odd" in text


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (
            {"role": "journalnode", "address": "jn1:8485", "journals": {}, "failing": {}},
            "no journal is formatted on this JournalNode",
        ),
        (
            {
                "role": "journalnode",
                "address": "jn1:8485",
                "failing": {"ns": "Input/output error"},
                "journals": {"ns": {"formatted": True, "namespace": "-63:1:0:CID-1", "highestTxid": 12345}},
            },
            "Journal ns is not served Input/output error",
        ),
        (
            {
                "namenode": "nn1",
                "nameservice": "ns",
                "state": "active",
                "health": "healthy",
                "takesPart": True,
                "ready": True,
                "readyReason": "nn1 is active, and takes part in the election",
                "election": {"state": "active", "holder": "nn1"},
            },
            "Lock in ZooKeeper active",
        ),
        ({"role": "active", "checkpointTxid": 7, "failure": "disk full", "images": []}, "It stopped serving disk full"),
        ({"odd": 1}, "this program has no page of its own"),
    ],
    ids=["empty-journalnode", "journalnode", "controller", "stub", "unknown"],
)
@pytest.mark.parameters(5)
def test_page_of_each_program(status: dict[str, Any], shown: str) -> None:
    assert shown in text_of(client_of(status).get("/").text)


def test_only_administrators_see_log_configuration_and_paths() -> None:
    watch_settings(
        shown_settings(
            Configuration.from_mapping({"dfs.nameservices": "ns1", "dfs.x.password": "p4ss", "io.file": "1"}, {})
        )
    )
    watch_log()
    logging.getLogger("tests.console").warning("a warning about %s", "/data/1")
    client = client_of(daemon_state())
    near = text_of(client.get("/").text)
    assert "a warning about /data/1" in near
    assert "dfs.nameservices ns1" in near
    assert "p4ss" not in near
    assert "io.file" not in near
    far = text_of(client.get("/", environ_overrides=FAR).text)
    proxied = text_of(client.get("/", headers={"X-Forwarded-For": "192.0.2.7"}).text)
    foreign = text_of(client.get("/", headers={"Host": "rebound.example.org"}).text)
    for page in (far, proxied, foreign):
        assert "a warning about" not in page
        assert "dfs.nameservices" not in page
        assert "/data/" not in page
        assert "storage directory (path) is not used: No space left on device" in page
        assert "http://nn1:9870" in page


def test_log_record_that_cannot_be_formatted_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log = WarningLog()
    log.handle(logging.LogRecord("x", logging.WARNING, "x.py", 1, "%d files", ("some",), None))
    assert log.lines() == []


@pytest.mark.parametrize("command", ["checkpointer.cli.run_command", "checkpointer.cli.journalnode_run_command"])
@pytest.mark.parameters(2)
def test_configuration_warnings_are_kept(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(command)
    monkeypatch.setattr(module, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(module.os, "umask", lambda _: 0)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def warn(_: Path, *, warns: bool = True) -> None:
        logging.getLogger("tests.console").warning("deprecated key of %s", command)
        raise OSError("no configuration")

    monkeypatch.setattr(module, "load_configuration", warn)
    CliRunner().invoke(module.command, ["--conf", str(tmp_path)])
    assert f"deprecated key of {command}" in [row[2].text for row in process_panels()[0].rows]


def test_only_administrators_see_the_last_reports(tmp_path: Path) -> None:
    for day in range(1, 10):
        report = KeptReport.named(tmp_path, datetime(2026, 11, day, 12, tzinfo=UTC), 100 + day)
        report.page.write_text(f"<script>report {day}</script>")
        report.data.write_text("{}")
    report.data.unlink()
    reports = partial(list_reports, tmp_path)
    client = client_of(daemon_state(), private_panels=lambda: report_panels(reports), reports=reports)
    near = client.get("/").text
    links = re.findall(r'href="(console/reports/[^"]+html)"', near)
    assert len(links) == 7
    assert links[0].endswith("report_20261108T120000Z_0000000000000000108.html")
    page = client.get(f"/{links[0]}")
    assert page.text == "<script>report 8</script>"
    assert page.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none';")
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"/{links[0].replace('html', 'json')}").json == {}
    assert client.get(f"/console/reports/{report.page.name}").status_code == 404
    assert client.get("/console/reports/..%2Fpyproject.toml").status_code == 404
    # a report that is deleted after it was listed
    known = list_reports(tmp_path)
    known[0].data.unlink()
    client = client_of(daemon_state(), reports=lambda: known)
    assert client.get(f"/console/reports/{known[0].data.name}").status_code == 404
    assert "console/reports" not in client.get("/", environ_overrides=FAR).text
    assert client.get(f"/{links[0]}", environ_overrides=FAR).status_code == 403


def test_pages_use_only_relative_addresses() -> None:
    client = client_of(daemon_state())
    for path in ("/", "/docs/runbook.md"):
        answer = client.get(path)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
        assert addresses
        assert [each for each in addresses if each.startswith(("/", "http", "//"))] == []
        assert not re.search(r"<style|style=|<script(?! src=)|\son\w+=", answer.text)
    for asset, kind in (("console.css", "text/css"), ("console.js", "text/javascript")):
        assert client.get(f"/console/{asset}").headers["Content-Type"].startswith(kind)
    assert client.get("/console/other.css").status_code == 404
    assert client.get("/docs/..%2FMakefile").status_code == 404
    assert client.get("/docs/nothing.md").status_code == 404


def test_status_texts_are_escaped() -> None:
    state = daemon_state(message="<script>alert(1)</script>", alarms=('"><img src=x onerror=alert(1)>',))
    page = client_of(state).get("/").text
    assert "<script>alert" not in page
    assert "<img" not in page


def test_page_reloads_without_scripts_until_it_is_stopped() -> None:
    client = client_of(daemon_state())
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in client.get("/").text
    assert 'http-equiv="refresh"' not in client.get("/?refresh=off").text


def test_status_is_computed_on_request_and_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    # long enough for all requests
    monkeypatch.setattr("console.blueprint._CACHE_SECONDS", 3600.0)
    asked: list[int] = []

    def status() -> dict[str, Any]:
        asked.append(1)
        return dict(as_json(NodeState(role="standby")))

    client = create_application(console_blueprint(ConsoleSources(status), AccessControl())).test_client()
    assert asked == []
    clock = [0.0]
    cache: BriefCache[int] = BriefCache(1.0, clock=lambda: clock[0])
    made = [cache.get("k", lambda: len(asked)) for _ in range(50)]
    assert made == [0] * 50
    for _ in range(50):
        assert client.get("/").status_code == 200
    assert len(asked) < 50
    asked.clear()
    asked.append(1)
    assert cache.get("k", lambda: len(asked)) == 0
    clock[0] = 1.5
    assert cache.get("k", lambda: len(asked)) == 1


def test_hanging_page_blocks_no_other_page_and_shows_its_last_state() -> None:
    clock, begun, may_end = [0.0], threading.Event(), threading.Event()
    cache: BriefCache[str] = BriefCache(1.0, stale=10.0, patience=0.0, clock=lambda: clock[0])

    def stuck() -> str:
        begun.set()
        may_end.wait(600)
        raise OSError("stale file handle")

    assert cache.get("/", lambda: "old") == "old"
    clock[0] = 5.0
    failed: list[str] = []

    def ask() -> None:
        try:
            cache.get("/", stuck)
        except OSError as fault:
            failed.append(str(fault))

    thread = threading.Thread(target=ask)
    thread.start()
    begun.wait(600)
    assert cache.get("/console/charts", lambda: "charts") == "charts"
    assert cache.get("/", lambda: "never made") == "old"
    clock[0] = 20.0
    assert cache.get("/", lambda: "never made") is None
    may_end.set()
    thread.join()
    assert failed == ["stale file handle"]
    assert cache.get("/", lambda: "new") == "new"


def test_checks_run_once_in_the_background() -> None:
    ran, may_end = [], threading.Event()

    def run() -> list[CheckRow]:
        ran.append(1)
        may_end.wait(600)
        return [CheckRow("age", "WARNING", "late", ("by far",), "Look.")]

    page = CheckPage(run)
    client = client_of(daemon_state(), pages={"checks": ("Checks", page.panels)})
    assert "The checks are running" in client.get("/console/checks").text
    page.panels()
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "console-checks":
            thread.join()
    (panel,) = page.panels()
    assert [cell.text for cell in panel.rows[0]] == ["age", "WARNING", "late; by far", "Look."]
    assert ran == [1]


def test_failed_work_is_reported_and_repeated_after_the_interval() -> None:
    clock, ran = [0.0], []

    def fail() -> int:
        ran.append(1)
        raise OSError("no route")

    work = BackgroundWork("failing", fail, 60.0, wall=lambda: clock[0])

    def results(count: int) -> None:
        for _ in range(count):
            work.result()
            for thread in threading.enumerate():
                if thread.name == "console-failing":
                    thread.join()

    results(3)
    assert (work.result().fault, ran) == ("no route", [1])
    # the host's clock is set back
    clock[0] -= 1
    results(3)
    assert ran == [1, 1]


def test_background_work_starts_again_after_a_thread_start_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = BackgroundWork("late", lambda: 7, 60.0)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", no_thread)
        for begin in (work.result, work.begin):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                begin()
    assert not work.running
    assert work.begin()


def test_paths_are_hidden_but_addresses_are_shown() -> None:
    found = without_paths(("file:/data/a: full", "see /a/b, /c", "http://nn1:9870/x", "5 / 6", "and/or"))
    assert found == ("(path): full", "see (path), (path)", "http://nn1:9870/x", "5 / 6", "and/or")
    colons = ("hdfs-site.xml:/etc/x: bad", "nn1:/data/x", "hdfs://ns1/x", "file:///data/a")
    assert without_paths(colons) == ("hdfs-site.xml:(path): bad", "nn1:(path)", "hdfs://ns1/x", "(path)")
    chart = '<svg aria-label="x"><path d="M1 2/3"/><title>nn1:/data/1 and &#39;/data/2&#39; full</title></svg>'
    (shown,) = without_paths(Panel("a", "A", svg=(chart,))).svg
    assert "/data" not in shown
    assert shown.startswith('<svg aria-label="x"><path d="M1 2/3"/><title>nn1:(path) and ')


def test_directory_with_a_space_is_hidden_completely() -> None:
    full = "storage directory /data/my disk/1 is not used: No space left on device"
    state = daemon_state(alarms=(full,), storage={"/data/my disk": "in use", "/data/my disk/1": "No space left"})
    far = text_of(client_of(state).get("/", environ_overrides=FAR).text)
    assert "storage directory (path) is not used" in far
    assert "disk/1" not in far
    assert "/data/my disk/1" in text_of(client_of(state).get("/").text)


def test_commands_are_marked_and_other_text_is_escaped() -> None:
    assert code_marked("run `a <b>`, then <c>") == "run <code>a &lt;b&gt;</code>, then &lt;c&gt;"


@pytest.mark.parametrize(
    ("highest", "labels"),
    [(15.03, "0 5 10 15 20"), (985.5, "0 200 400 600 800 1000"), (0.0, "0.0 0.2 0.4 0.6 0.8 1.0")],
)
@pytest.mark.parameters(3)
def test_chart_lines_are_at_round_numbers(highest: float, labels: str) -> None:
    bars = [ChartBar(1.0, (highest,))]
    shown: list[float] = []

    def label(value: float) -> str:
        shown.append(value)
        return str(value)

    bar_chart("t", bars, ("a",), since=0, until=2, label=label, when=str)
    assert shown == pytest.approx([float(each) for each in labels.split()])


def test_empty_journal_node_hint_names_the_mount_before_formatting() -> None:
    (found,) = page_of({"journals": {}, "failing": {}}, 0.0).attention
    assert "mounted" in found.next_step
    assert "journalnode format" not in found.next_step
    assert found.section == "runbook.md#a-journalnode-does-not-answer"


def test_lost_majority_of_journal_nodes_needs_attention() -> None:
    nodes = [{"address": f"jn{n}", "answers": n == 1} for n in (1, 2, 3)]
    page = page_of({**as_json(NodeState(role="standby")), "journalNodes": nodes}, 0.0)
    assert {each.section for each in page.attention} == {"runbook.md#no-majority-of-journalnodes"}


class CutBody(io.RawIOBase):
    """The body of a request whose sender has disconnected."""

    reads = 0

    def readinto(self, buffer: object) -> int:
        self.reads += 1
        return 0

    def readable(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("origin", "header", "status", "read"),
    [("http://evil.example", {}, 403, False), ("http://localhost", {CSRF_HEADER: ""}, 404, True)],
)
def test_body_of_a_rejected_request_is_not_read(origin: str, header: dict[str, str], status: int, read: bool) -> None:
    body = CutBody()
    answer = client_of(daemon_state()).post(
        "/missing",
        content_type="application/x-www-form-urlencoded",
        headers={"User-Agent": "Mozilla/5.0", "Origin": origin, **header},
        environ_overrides={"CONTENT_LENGTH": "20", "wsgi.input": body},
    )
    assert answer.status_code == status
    assert bool(body.reads) is read
