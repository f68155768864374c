"""The settings of replay: a daemon makes and offers no image if the active NameNode's settings differ from its own."""

from __future__ import annotations

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.namenode_settings import ask_switches, difference
from engine.settings import ReplayRules
from servlets.status import TriggerState
from tests.checkpointer.service_support import TRANSACTIONS, Clock, FakeRole, clock, role, standby_config
from tests.socket_peer import saying, scripted_web

__all__ = ["clock", "role"]

ORDERED = "dfs.namenode.snapshot.deletion.ordered"
OPEN_FILES = "dfs.namenode.snapshot.capture.openfiles"
ACCESS_TIMES = "dfs.namenode.snapshot.skip.capture.accesstime-only-change"


def page(*properties: tuple[str, str], status: str = "200 OK", end: str = "</configuration>") -> bytes:
    rows = "".join(
        f"<property>\n<name>{key}</name><value>{value}</value><final>false</final></property>"
        for key, value in properties
    )
    body = f"<configuration>{rows}{end}"
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("version", "answer", "found"),
    [
        ("3.5.0", page((ORDERED, " True ")), {OPEN_FILES: False, ACCESS_TIMES: False, ORDERED: True}),
        ("3.3.6", page((ORDERED, "true"), (OPEN_FILES, "true")), {OPEN_FILES: True, ACCESS_TIMES: False}),
        ("3.5.0", page(status="404 Not Found"), None),
        # the end of a longer response is missing
        ("3.5.0", page(end=""), None),
    ],
)
def test_switches_of_a_namenode(version: str, answer: bytes, found: dict[str, bool] | None) -> None:
    with scripted_web(saying(answer)) as url:
        assert ask_switches(url, version, timeout=600.0) == found


@pytest.mark.parametrize("version", ["2.7.3", ""])
def test_releases_without_these_settings_are_not_asked(version: str) -> None:
    assert ask_switches("http://unused:1", version, timeout=600.0) == {}


def test_differing_switch_is_named_with_both_values() -> None:
    theirs = {OPEN_FILES: False, ORDERED: True}
    assert difference(theirs, ReplayRules(ordered_snapshot_deletion=True)) == ""
    assert difference(theirs, ReplayRules(ordered_snapshot_deletion=None)) == ""
    assert (
        difference(theirs, ReplayRules(ordered_snapshot_deletion=False)) == f"{ORDERED} is true there, but false here"
    )


@pytest.mark.parametrize("state", ["active", "standby"])
def test_no_image_is_made_or_offered_with_other_settings(role: FakeRole, clock: Clock, state: str) -> None:
    known = ImageAcceptance(version="3.5.0", state=state, last_at=None, last_txid=None)
    forecast = UploadForecast(
        standby_config(), ask=lambda address, **_: known, ask_switches=lambda *_, **__: {ORDERED: True}, wall=clock.wall
    )
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall, forecast=forecast)
    role.journal = TRANSACTIONS
    result = service.poll()
    if state == "standby":
        # only the active NameNode's settings count
        assert (result.state, role.merges) == (TriggerState.DONE, 1)
        return
    assert result.state is TriggerState.FAILED
    assert f"{ORDERED} is true there, but false here" in result.message
    clock.now += 1
    service.poll()
    assert role.merges == 0
    # nothing was offered
    assert role.forced == []
