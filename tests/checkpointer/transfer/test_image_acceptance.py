"""What the refusals of a NameNode say, and when it accepts an image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer.common import reason_of
from checkpointer.transfer.image_acceptance import (
    ImageAcceptance,
    TooRecent,
    ask_acceptance,
    has_image,
    min_image_age,
    refuses_recent,
    too_recent,
)
from hadoop_rpc.ha_protocol import HAState
from tests.checkpointer.upload_support import BUSY, HAS, RECENT
from tests.namenode_stub.namenode_double import NamenodeDouble

# ---- messages of refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "body", "expected_message"),
    [
        (RECENT, b"", RECENT),
        (RECENT, b"<html><title>Error 409</title><body>HTTP ERROR 409: " + RECENT.encode() + b"</body></html>", RECENT),
        ("Conflict", b"fsimage_12 is stored here already\n", "fsimage_12 is stored here already"),
        ("CONFLICT", b"", "CONFLICT"),
        ("", b"", "HTTP 409"),
        ("", b"busy", "busy"),
        ("Refused", b"no room", "Refused: no room"),
        ("no room on /data", b"no room", "no room on /data"),
    ],
)
def test_reason_is_read_from_the_status_line_or_the_body(reason: str, body: bytes, expected_message: str) -> None:
    assert reason_of(409, reason, body) == expected_message


def test_numbers_in_a_refusal_are_parsed() -> None:
    assert too_recent(RECENT) == TooRecent(395, 2700)
    assert TooRecent(395, 2700).seconds_left == 2305
    assert TooRecent(3000, 2700).seconds_left == 0
    assert too_recent(HAS) is too_recent(BUSY) is None


@pytest.mark.parametrize(
    ("expected_message", "txid", "has"),
    [
        (HAS, 120, True),
        (HAS, 12, False),
        (BUSY, 120, False),
        (RECENT, 2, False),
        ("fsimage_0000000000000000120 is stored here already, expected an image of another txid", 120, True),
        ("fsimage_0000000000000000120 is stored here already, expected an image of another txid", 121, False),
        ("fsimage_rollback_0000000000000000120 is stored here already, expected an image of another txid", 120, True),
    ],
)
def test_refusal_tells_whether_the_namenode_has_the_image(expected_message: str, txid: int, has: bool) -> None:
    assert has_image(expected_message, txid) is has


@pytest.mark.parametrize(
    ("version", "refuses"),
    [
        ("2.7.3", False),
        ("2.10.1", True),
        ("3.0.3", False),
        ("3.1.3", False),
        ("3.1.4", True),
        ("3.2.1", False),
        ("3.2.2", True),
        ("3.3.0", True),
        ("3.4.1", True),
        ("3.5.0-SNAPSHOT", True),
        ("", False),
    ],
)
def test_releases_that_refuse_recent_images(version: str, refuses: bool) -> None:
    assert refuses_recent(version) is refuses


@pytest.mark.parametrize(("period", "least"), [(3600, 2700), (1, 1), (2, 2), (10, 8), (60, 45)])
def test_minimum_image_age_is_three_quarters_of_the_period(period: int, least: int) -> None:
    assert min_image_age(period) == least


# ---- forecasts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "takes_from"),
    [
        ({}, 1045.0),
        ({"version": "2.7.3"}, None),
        ({"version": ""}, None),
        ({"state": "standby"}, None),
        ({"state": "observer"}, 1045.0),
        ({"last_at": None}, None),
    ],
)
def test_earliest_time_at_which_a_namenode_accepts_an_image(
    changes: dict[str, object], takes_from: float | None
) -> None:
    known = replace(ImageAcceptance("3.4.1", "active", 1000.0, 100), **changes)  # type: ignore[arg-type]
    assert known.takes_from(60.0) == takes_from


@pytest.mark.parametrize(
    ("txid", "now", "refuses"), [(149, 1044.9, True), (150, 1044.9, False), (149, 1045.0, False), (101, 900.0, True)]
)
def test_refusal_depends_on_time_and_transactions(txid: int, now: float, refuses: bool) -> None:
    known = ImageAcceptance("3.4.1", "active", 1000.0, 100)
    assert known.refuses(txid, now, period=60.0, transactions=50) is refuses


def test_acceptance_is_read_from_jmx(tmp_path: Path) -> None:
    with NamenodeDouble(tmp_path / "name") as node:
        node.checkpointed_at = 1000.25
        found = ask_acceptance(node.url, timeout=600)
        assert found == ImageAcceptance("2.7.3", "active", 1000.25, node.image_txids()[-1])
        node.recent = 3600, 1000
        assert ask_acceptance(node.url, timeout=600).version == "3.4.1"
    with pytest.raises(TransferError, match="no answer"):
        ask_acceptance(node.url, timeout=600)


def test_state_is_not_that_before_a_failover(tmp_path: Path) -> None:
    """A NameNode updates its metrics only every 10 s, but NameNodeStatus immediately."""
    with NamenodeDouble(tmp_path / "name") as node:
        node.state = HAState.STANDBY
        assert ask_acceptance(node.url, timeout=600).state == "standby"


@pytest.mark.parametrize("state", [HAState.STANDBY, HAState.OBSERVER])
def test_newest_image_of_a_namenode_that_applies_edits(tmp_path: Path, state: HAState) -> None:
    """Its FSNamesystem counts the applied transactions since the image, but not among the written transactions."""
    with NamenodeDouble(tmp_path / "name") as node:
        node.state, node.applied = state, node.written + 5000
        assert ask_acceptance(node.url, timeout=600).last_txid == node.image_txids()[-1]
