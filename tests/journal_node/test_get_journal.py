"""GET /getJournal: parameters, statuses, headers, and the sent part of a segment in progress."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from flask.testing import FlaskClient

from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import JavaIOError
from journal.quorum.address import NO_SEGMENT, segment_url
from journal_node.fetch import HttpFetch
from journal_node.file_disk import below
from journal_node.get_journal import get_journal_blueprint
from journal_node.journal_beans import journal_node_beans
from journal_node.journal_facts import JournalNodeFacts, journal_facts
from journal_node.node import JournalNode
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.jmx import jmx_blueprint
from tests.journal_node.journal_node_support import HEADER, JOURNAL, NAMESPACE, Writer, batch, formatted
from tests.socket_peer import saying, scripted_web

INFO = NAMESPACE.colon_string()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[JournalNode]:
    """A node with the finalized segment 1-10, and with 11 to 15 in progress."""
    node = JournalNode(below(tmp_path))
    writer = formatted(node)
    writer.segment(1, 10)
    writer.start(11)
    writer.write(11, 11, 15)
    yield node
    node.close()


@pytest.fixture
def client(node: JournalNode) -> FlaskClient:
    return create_application(get_journal_blueprint(node)).test_client()


def test_a_finalized_segment_is_sent(client: FlaskClient) -> None:
    answer = client.get("/getJournal", query_string={"jid": JOURNAL, "segmentTxId": "1", "storageInfo": INFO})
    name = "edits_0000000000000000001-0000000000000000010"
    assert answer.status_code == 200
    assert answer.data == HEADER + batch(1, 10)
    assert answer.headers["Content-Length"] == str(len(answer.data))
    assert answer.headers["Content-Disposition"] == f"attachment; filename={name}"
    assert answer.headers["X-Image-Edits-Name"] == name
    assert "X-MD5-Digest" not in answer.headers


@pytest.mark.parametrize(
    ("asked", "status"), [(None, 200), ("true", 200), ("yes", 200), ("false", 404), ("FALSE", 404)]
)
def test_a_segment_in_progress_is_sent_up_to_its_durable_end(
    client: FlaskClient, asked: str | None, status: int
) -> None:
    query = {"jid": JOURNAL, "segmentTxId": "11", **({} if asked is None else {"inProgressOk": asked})}
    answer = client.get("/getJournal", query_string=query)
    assert answer.status_code == status
    if status == 200:
        assert answer.data == HEADER + batch(11, 15)
        assert answer.headers["X-Image-Edits-Name"] == "edits_inprogress_0000000000000000011"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"jid": JOURNAL, "segmentTxId": "5"}, 404, "this JournalNode has no segment that begins with txid 5"),
        ({"jid": JOURNAL, "segmentTxId": "5", "storageInfo": INFO}, 404, "txid 5"),
        (
            {"jid": JOURNAL, "segmentTxId": "1", "storageInfo": "-63:7:0:CID-x"},
            403,
            "another namespace; the caller's is 7 in",
        ),
        ({"jid": JOURNAL, "segmentTxId": "1", "storageInfo": "-63:980837346:0:CID-y"}, 403, "in cluster 'CID-y'"),
        ({"jid": "unknown", "segmentTxId": "1", "storageInfo": INFO}, 403, "not formatted"),
        ({"jid": "unknown", "segmentTxId": "1"}, 500, "not formatted"),
        ({"jid": "../x", "segmentTxId": "1"}, 500, "is not a journal id"),
        ({"jid": JOURNAL, "segmentTxId": "1", "storageInfo": "nonsense"}, 500, "storageInfo is 'nonsense'"),
        ({"jid": JOURNAL, "segmentTxId": "1", "storageInfo": ""}, 500, "storageInfo is ''"),
        ({"jid": JOURNAL, "segmentTxId": "x"}, 500, "segmentTxId is 'x'"),
        ({"jid": JOURNAL}, 500, "segmentTxId is missing"),
        ({"segmentTxId": "1"}, 500, "jid is missing"),
    ],
)
def test_refusals_have_hadoops_status_and_one_sentence(
    client: FlaskClient, query: dict[str, str], status: int, message: str
) -> None:
    answer = client.get("/getJournal", query_string=query)
    assert answer.status_code == status
    assert message in answer.text
    assert answer.text.count("\n") == 1


def test_only_namespace_and_cluster_must_match(client: FlaskClient) -> None:
    other = replace(NAMESPACE, layout_version=-66, c_time=7).colon_string()
    answer = client.get("/getJournal", query_string={"jid": JOURNAL, "segmentTxId": "1", "storageInfo": other})
    assert answer.status_code == 200


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), HdfsError("broken"), ZeroDivisionError()])
def test_any_other_fault_gives_status_500(
    client: FlaskClient, node: JournalNode, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(node, "find_segment", fail)
    answer = client.get("/getJournal", query_string={"jid": JOURNAL, "segmentTxId": "1"})
    assert answer.status_code == 500
    assert "Traceback" not in answer.text


def test_other_methods_are_refused(client: FlaskClient) -> None:
    assert client.post("/getJournal").status_code == 405


# ---- over a connection, with the client that nodes have for each other ----


@pytest.fixture
def url(node: JournalNode) -> Iterator[str]:
    blueprint = get_journal_blueprint(node)
    with HttpServer(create_application(blueprint), "127.0.0.1", 0, threads=4) as server:
        yield f"{server.url}/getJournal"


def fetched(url: str, **settings: Any) -> bytes:
    return b"".join(HttpFetch(**settings)(url, NAMESPACE))


def test_a_request_to_identify_a_journal_logs_no_warning(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    for txid, warnings in ((NO_SEGMENT, 0), (5, 1)):
        assert client.get(segment_url("", JOURNAL, txid, NAMESPACE)).status_code == 404
        assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings


def test_nodes_fetch_segments_from_each_other(url: str) -> None:
    paced: list[int] = []
    found = fetched(f"{url}?jid={JOURNAL}&segmentTxId=1", timeout=600.0, pace=paced.append)
    assert found == HEADER + batch(1, 10)
    assert sum(paced) == len(found)


def test_a_segment_finalized_during_transfer_is_sent_completely(url: str, node: JournalNode) -> None:
    with requests.get(url, params={"jid": JOURNAL, "segmentTxId": "11"}, stream=True, timeout=600) as answer:
        Writer(node, serial=90).end(11, 15)
        assert answer.content == HEADER + batch(11, 15)


@pytest.mark.parametrize(
    ("query", "problem"),
    [("?jid=j1&segmentTxId=5", "status 404$"), ("/x", "expected http:"), ("?jid=j1", "status 500")],
)
def test_a_refusal_gives_its_reason(url: str, query: str, problem: str) -> None:
    with pytest.raises(JavaIOError, match=problem):
        fetched(url + query)


def test_the_error_names_an_unreachable_node() -> None:
    with pytest.raises(JavaIOError, match=r"http://127\.0\.0\.1:9/getJournal cannot be fetched"):
        fetched("http://127.0.0.1:9/getJournal", timeout=600.0)
    with pytest.raises(JavaIOError, match="expected http:"):
        fetched("file:///etc/passwd")
    with pytest.raises(JavaIOError, match="not one of the JournalNodes"):
        fetched("http://192.0.2.7/getJournal", may_ask=lambda host: host == "192.0.2.8")


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        (b"Content-Length: 20\r\n", b"only so much", "ended after 12 of 20 bytes"),
        (b"", b"no length", "without Content-Length"),
        (b"Content-Length: x\r\n", b"", "without Content-Length|cannot be fetched"),
    ],
)
def test_an_incomplete_response_is_an_error(headers: bytes, body: bytes, problem: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + headers + b"Connection: close\r\n\r\n" + body
    with scripted_web(saying(answer)) as url, pytest.raises(JavaIOError, match=problem):
        fetched(f"{url}/getJournal", timeout=600.0)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_only_regular_files_are_sent(client: FlaskClient, tmp_path: Path, kind: str) -> None:
    segment = tmp_path / JOURNAL / "current" / "edits_0000000000000000001-0000000000000000010"
    segment.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    if kind == "link":
        segment.symlink_to(secret)
    else:
        os.mkfifo(segment)
    answer = client.get("/getJournal", query_string={"jid": JOURNAL, "segmentTxId": "1"})
    assert answer.status_code == 500
    assert b"secret" not in answer.data


@pytest.mark.parametrize("jid", ["j1\n2026-01-01 00:00:00,000 ERROR   forged: line", "j\x1b[2J", "j=1,k:*"])
def test_an_invalid_journal_name_is_not_remembered(node, jid):
    client = create_application(get_journal_blueprint(node)).test_client()
    assert client.get("/getJournal", query_string={"jid": jid, "segmentTxId": "1"}).status_code == 500
    facts = JournalNodeFacts("here", "1", 0.0, tuple(map(journal_facts, node.journals())))
    pages = create_application(jmx_blueprint(lambda: journal_node_beans(facts))).test_client()
    assert pages.get("/jmx").status_code == 200
    assert jid not in [journal.journal_id for journal in node.journals()]
