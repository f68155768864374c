"""Logs with untrusted text: no forged lines, no terminal codes, no floods."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from hadoop_common.json_log import JsonFormatter
from hadoop_common.log_lines import RepeatFilter, log_to_stderr
from hadoop_common.printable import escaped

NASTY = "j1\n2026-01-01 00:00:00,000 ERROR   forged: line \x1b[2J\r\x9b1m\u2028\u202e\udc80 end"
# pytest sends the lines that it records as UTF-8
LOGGED = NASTY.replace("\udc80", "")


@pytest.fixture
def stderr(monkeypatch):
    """The output of a process that logs to stderr."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    root.handlers.clear()
    log_to_stderr(logging.INFO)
    yield written
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("text", ["", "plain text", "Größe 目录 😀", "tab", "a b"])
def test_plain_text_is_not_changed(text):
    assert escaped(text) == text


def test_terminal_control_characters_are_escaped():
    shown = escaped(NASTY)
    assert shown.isprintable()
    assert shown.startswith("j1\\n2026-01-01")
    assert "\\x1b[2J\\r\\x9b1m\\u2028\\u202e\\udc80 end" in shown
    assert escaped("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_a_record_is_one_line(stderr):
    logging.getLogger("test").warning("no journal %s", LOGGED)
    lines = stderr.getvalue().split("\n")
    assert len(lines) == 2
    assert "WARNING test: no journal j1\\n2026" in lines[0]
    assert lines[0].isprintable()


def test_traceback_lines_cannot_look_like_a_record(stderr):
    try:
        raise ValueError(LOGGED)
    except ValueError:
        logging.getLogger("test").exception("it failed")
    first, *others = stderr.getvalue().removesuffix("\n").split("\n")
    assert first.endswith("it failed")
    assert all(line.startswith("  ") and line.isprintable() for line in others)
    assert any("forged: line" in line for line in others)


def test_json_contains_no_terminal_control_characters():
    record = logging.makeLogRecord({"msg": NASTY, "path": "\x9b1m"})
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert (json.loads(line)["message"], json.loads(line)["path"]) == (NASTY, "\x9b1m")


def test_repeated_messages_are_logged_once_a_second():
    now = [100.0]
    repeats = RepeatFilter(lambda: now[0])

    def passes(level, text, argument):
        record = logging.makeLogRecord({"name": "test", "levelno": level, "msg": text, "args": (argument,)})
        return record.getMessage() if repeats.filter(record) else None

    reported = [passes(logging.WARNING, "refused %s", number) for number in range(1000)]
    assert [text for text in reported if text] == [f"refused {number}" for number in range(10)]
    assert passes(logging.WARNING, "something else %s", 1) == "something else 1"
    assert all(passes(logging.INFO, "refused %s", 1) for _ in range(50))
    now[0] += 1
    assert passes(logging.WARNING, "refused %s", "%s") == "refused %s (and 990 more like it)"
    assert passes(logging.WARNING, "refused %s", 1) is None
    now[0] += 100
    assert passes(logging.WARNING, "refused %s", 2) == "refused 2 (and 1 more like it)"
    assert passes(logging.WARNING, "refused %s", 3) == "refused 3"
