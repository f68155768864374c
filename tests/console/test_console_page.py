"""Pages of all programs, their content for each kind of caller, and the cost of rendering."""

from __future__ import annotations

import io
import logging
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from console.model import Panel, without_paths
from console.process_panels import watch_log, watch_settings
from console.report_panel import report_panels
from console.server_pages import page_of
from console.words import code_marked
from hadoop_common.configuration import Configuration
from node_state.report_folder import KeptReport, list_reports
from node_state.state import NodeState, as_json
from servlets.change_guard import CSRF_HEADER
from site_config.shown_settings import shown_settings
from tests.console.console_support import FAR, client_of, daemon_state, text_of


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
