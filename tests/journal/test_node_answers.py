"""Meaning of a JournalNode's answers about its namespace, as recorded from Hadoop 2.7.3 and 3.5.0."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from journal.quorum.node_answers import NodeAnswer, _of_namespace, leftover_segment

_WHO = "Only Namenode and another JournalNode may access this servlet"
_PAGE = f"<html><head><title>Error 403 {_WHO}</title></head><body>{_WHO}</body></html>"


class _Server(ThreadingHTTPServer):
    answer = (404, "Not Found", "")


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, reason, body = self.server.answer
        self.send_response(status, reason)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Drop the message."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.mark.parameters(5)
@pytest.mark.parametrize(
    ("answer", "same", "fault"),
    [
        ((404, "Not Found", ""), True, ""),
        ((403, "This node has storage info '-63:1:0:x'", ""), False, ""),
        ((403, _WHO, ""), None, f"HTTP 403: {_WHO}"),
        ((403, "Forbidden", _PAGE), None, f"HTTP 403: {_WHO}"),
        ((500, "Server Error", "getedit failed"), None, "HTTP 500, expected 404"),
    ],
)
def test_a_refusal_of_the_caller_is_no_other_namespace(
    server: _Server, answer: tuple[int, str, str], same: bool | None, fault: str
) -> None:
    server.answer = answer
    found = _of_namespace(NodeAnswer("jn1:8485"), f"http://127.0.0.1:{server.server_address[1]}/getJournal", 60)
    assert (found.same_namespace, found.http_fault) == (same, fault)


def test_the_leftover_is_the_open_segment_within_a_finalized_one() -> None:
    said = "IllegalStateException: Invalid log manifest (log [4-? (in-progress)] overlaps [7-? (in-progress)])"
    assert leftover_segment(f"{said} [[1,3], [4,6], [7-? (in-progress)], [4-? (in-progress)]]").endswith(
        "_" + "4".zfill(19)
    )
    assert leftover_segment(f"{said} [[1,3]]") == ""
    assert leftover_segment("IOException: [1,3] [2-? (in-progress)]") == ""
