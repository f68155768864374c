"""Queries of `check` to the web server of a NameNode."""

from __future__ import annotations

import json

import pytest

from checkpointer.checks.ask_namenode import ask_http, ask_name_directories
from checkpointer.checks.bounded import ask_all
from checkpointer.checks.facts import NameDirectories
from checkpointer.errors import TransferError
from checkpointer.transfer.image_acceptance import ask_acceptance
from tests.socket_peer import saying, scripted_web
from tests.web_server import json_server


def test_truncated_http_response_is_an_error() -> None:
    with scripted_web(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")) as url:
        answer = ask_all({"nn": lambda: ask_http(url, timeout=600)}, 600)["nn"]
    assert answer.value is None
    assert "no answer" in answer.error


def test_http_503_counts_as_no_answer() -> None:
    with json_server({"/jmx": (503, "{}")}) as jmx:
        answer = ask_all({"nn": lambda: ask_http(jmx.url, timeout=600)}, 600)["nn"]
    assert answer.value is None
    assert "HTTP 503" in answer.error


def test_a_server_whose_metrics_are_only_for_administrators_answers() -> None:
    """With hadoop.security.instrumentation.requires.admin, the web server still transfers images."""
    with json_server({"/jmx": (403, "{}")}) as jmx:
        assert ask_http(jmx.url, timeout=600) == ({}, 0.0)
        with pytest.raises(TransferError, match=r"\(HTTP 403\): the request was refused") as refused:
            ask_acceptance(jmx.url, timeout=600)
    assert "hadoop.security.instrumentation.requires.admin" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            '{"active":{"/n/1":"IMAGE_AND_EDITS"},"failed":{"/n/2":"IMAGE_AND_EDITS"}}',
            NameDirectories(used=1, failed=("/n/2",), images=True),
        ),
        ('{"active":{"/e":"EDITS"},"failed":{"/n":"IMAGE"}}', NameDirectories(used=1, failed=("/n",), images=False)),
        ('{"active":[1]}', None),
        ("", None),
        (None, None),
    ],
)
def test_directories_of_a_namenode_are_read_from_its_beans(text: str | None, found: NameDirectories | None) -> None:
    with json_server({"/jmx": (200, json.dumps({"beans": [{"NameDirStatuses": text}]}))}) as jmx:
        assert ask_name_directories(jmx.url, timeout=600) == found
