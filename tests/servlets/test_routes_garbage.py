"""Random requests to every route receive a sentence and a status that shows which side failed, but never a
traceback.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from servlets.errors import sentence_response
from tests.depth import examples
from tests.servlets.support import INFO, OTHER_INFO, daemon_routes, leftovers, make_store, names

ROUTES = [
    "/imagetransfer",
    "/getimage",
    "/jmx",
    "/metrics",
    "/status",
    "/checkpoint",
    "/cancel",
    "/health/live",
    "/health/ready",
    "/",
    "/nonsense",
    "/jmx/",
    "//imagetransfer",
]
NAMES = st.one_of(
    st.sampled_from(
        [
            *("getimage", "getedit", "putimage", "txid", "startTxId", "endTxId", "storageInfo", "File-Length"),
            *("imageFile", "bootstrapstandby", "port", "machine", "qry", "get", "force", "wait"),
        ]
    ),
    st.text(max_size=5),
)
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.sampled_from(
        [
            *("latest", "1", "51", "289", "IMAGE", "IMAGE_ROLLBACK", "true", "0", "65536", "127.0.0.1"),
            *(
                "Hadoop:*",
                "a:b=",
                "*:*",
                "Hadoop:service=*,name=*::Role",
                INFO.colon_string(),
                OTHER_INFO.colon_string(),
            ),
        ]
    ),
)
HEADERS = st.dictionaries(
    st.sampled_from(["X-MD5-Digest", "Content-Type", "Accept", "Range", "If-None-Match", "Expect", "Content-Length"]),
    st.text('abc0123 ;=-,/*"q.', max_size=34),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("routes"), count=1)


@examples(400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    route=st.sampled_from(ROUTES),
    method=st.sampled_from(["GET", "GET", "GET", "PUT", "POST", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE"]),
    query=st.dictionaries(NAMES, VALUES, max_size=8),
    headers=HEADERS,
    body=st.binary(max_size=30),
)
def test_random_requests_never_cause_a_server_error(store, caplog, route, method, query, headers, body):
    caplog.clear()
    before = names(store.directories[0])
    with (
        daemon_routes(store)
        .test_client()
        .open(route, method=method, query_string=query, headers=headers, data=body) as answer
    ):
        assert answer.status_code < 500, answer.data
        if answer.status_code >= 400 and method != "HEAD":
            assert answer.data.strip()
            assert b"Traceback" not in answer.data
        reason = answer.status.partition(" ")[2]
        assert reason.isascii()
        assert reason.isprintable()
    assert not [record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
    assert names(store.directories[0]) == before
    assert leftovers(store) == []


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("txid is missing", "410 txid is missing"),
        ("two\r\nX-Header: lines", "410 two X-Header: lines"),
        ("größer … \x00", "410 gr??er ?"),
        ("x" * 300, "410 " + "x" * 247 + "..."),
    ],
)
def test_the_status_line_contains_the_sentence(sentence, reason):
    answer = sentence_response(410, sentence)
    assert answer.status == reason
    assert answer.status_code == 410
    assert answer.get_data(as_text=True) == sentence + "\n"


def test_success_has_its_usual_status_line():
    assert sentence_response(200, "stored").status == "200 OK"
