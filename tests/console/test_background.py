"""Work in the background, whose result the pages show."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from console.background import BackgroundWork
from console.blueprint import console_blueprint
from console.check_page import CheckPage, CheckRow
from console.sources import BriefCache, ConsoleSources
from hadoop_common.access import AccessControl
from node_state.state import NodeState, as_json
from servlets.application import create_application
from tests.console.console_support import client_of, daemon_state


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
