"""Meaning of a JournalNode's responses about its namespace, as recorded from Hadoop 2.7.3 and 3.5.0."""

from __future__ import annotations

import pytest

from journal.quorum.node_answers import NodeAnswer, _of_namespace, leftover_segment
from tests.web_server import QuietHandler, web_server

_WHO = "Only Namenode and another JournalNode may access this servlet"
_PAGE = f"<html><head><title>Error 403 {_WHO}</title></head><body>{_WHO}</body></html>"


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
def test_http_refusals_are_told_apart_from_another_namespace(
    answer: tuple[int, str, str], same: bool | None, fault: str
) -> None:
    status, reason, body = answer

    class Handler(QuietHandler):
        def get(self) -> None:
            self.answer(status, body.encode(), reason=reason)

    with web_server(Handler) as port:
        found = _of_namespace(NodeAnswer("jn1:8485"), f"http://127.0.0.1:{port}/getJournal", 60)
    assert (found.same_namespace, found.http_fault) == (same, fault)


def test_leftover_is_an_open_segment_that_overlaps_a_finalized_one() -> None:
    message = "IllegalStateException: Invalid log manifest (log [4-? (in-progress)] overlaps [7-? (in-progress)])"
    assert leftover_segment(f"{message} [[1,3], [4,6], [7-? (in-progress)], [4-? (in-progress)]]").endswith(
        "_" + "4".zfill(19)
    )
    assert leftover_segment(f"{message} [[1,3]]") == ""
    assert leftover_segment("IOException: [1,3] [2-? (in-progress)]") == ""
