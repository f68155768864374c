"""Requests to NameNodes over real RPC: queries of the active NameNode, and rolls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from checkpointer.roles.standby import namenodes
from checkpointer.roles.standby.image_fetcher import gap_alarm
from checkpointer.roles.standby.namenodes import NameNodes, RollRefusedError
from checkpointer.transfer.common import never
from hadoop_rpc.errors import AccessControlError, SafeModeError
from hadoop_rpc.ha_protocol import HAState
from journal.errors import TransactionGapError
from journal.segment_file import EditLogSegment
from tests.namenode_stub.namenode_double import ANY_CALL, NamenodeDouble

Double = Callable[..., NamenodeDouble]


@contextmanager
def asking(*doubles: NamenodeDouble | None, retries: int = 3) -> Iterator[NameNodes]:
    """Yield clients of these NameNodes; None represents a NameNode that is down."""
    with ExitStack() as running:
        started = [None if each is None else running.enter_context(each) for each in doubles]
        addresses = [("127.0.0.1", 1) if each is None else each.rpc for each in started]
        https = [f"http://nn{number}:9870" for number in range(len(doubles))]
        nodes = NameNodes(https, addresses, user="hdfs", timeout=600.0, retries=retries)
        yield running.enter_context(closing(nodes))


@pytest.fixture
def double(tmp_path: Path) -> Double:
    """Factory for NameNodes; `answers` are attributes of `NamenodeDouble`."""

    def make(**answers: Any) -> NamenodeDouble:
        made = NamenodeDouble(tmp_path / str(len(list(tmp_path.iterdir()))))
        vars(made).update(answers)
        return made

    return make


def test_states_that_accept_images(double: Double) -> None:
    states = [HAState.ACTIVE, HAState.STANDBY, HAState.OBSERVER, HAState.INITIALIZING]
    with asking(*(double(state=state) for state in states), None) as nodes:
        found = [nodes.accepts_images(f"http://nn{number}:9870") for number in range(5)]
        assert found == [True, False, True, False, None]
        assert nodes.accepts_images("http://elsewhere:9870") is None


def test_only_the_active_namenode_is_asked_for_the_start_of_its_process(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def start_time(http_address: str, **_: object) -> int:
        asked.append(http_address)
        return 7

    monkeypatch.setattr(namenodes, "ask_start_time", start_time)
    with asking(double(state=HAState.STANDBY), double(), double(state=HAState.STANDBY)) as nodes:
        active = nodes.addresses[1]
        assert nodes.active_life() == (active, 7)
        assert asked == ["http://nn1:9870"]
        assert nodes.lives() == dict.fromkeys(nodes.addresses, 7)


def test_txids_of_the_namenodes_that_answer(double: Double) -> None:
    newer = double(written=50)
    newer.take(40, b"an image")
    with asking(double(), None, newer) as nodes:
        first, down, third = nodes.addresses
        assert nodes.last_txids() == {first: 33, third: 50}
        assert nodes.image_txids() == {first: 32, third: 40}
        assert down == "127.0.0.1:1"


def test_newest_txid_of_the_active(double: Double) -> None:
    standby = double(state=HAState.STANDBY, written=50)
    with asking(standby, None) as nodes:
        assert nodes.active_txid() is None
    # a NameNode that lost the active role may not have noticed this yet
    with asking(standby, double(written=9), double(written=12)) as nodes:
        assert nodes.active_txid() == 12
    with asking() as nobody:
        assert nobody.last_txids() == {}


def test_active_rolls_and_is_asked_first_afterwards(double: Double) -> None:
    standby, active = double(state=HAState.STANDBY), double()
    with asking(standby, None, active) as nodes:
        assert nodes.roll(never) == nodes.addresses[2]
        assert nodes.roll(never) == nodes.addresses[2]
        assert [each.steps.count("rollEditLog") for each in (standby, active)] == [1, 2]
        assert standby.users == active.users == {"hdfs"}
        # after a failover, the other NameNode is found
        standby.state, active.state = HAState.ACTIVE, HAState.STANDBY
        assert nodes.roll(never) == nodes.addresses[0]


@pytest.mark.parametrize("retries", [1, 3])
def test_roll_error_names_every_refusal(retries: int, double: Double) -> None:
    doubles = [double(state=HAState.STANDBY), double(faults={ANY_CALL: SafeModeError("Log not rolled")})]
    with asking(*doubles, None, retries=retries) as nodes:
        with pytest.raises(RollRefusedError) as caught:
            nodes.roll(never)
        assert [each.steps.count("rollEditLog") for each in doubles] == [retries, retries]
        for text in ("is not active", "Log not rolled", "127.0.0.1:1"):
            assert text in caught.value.message
        # the hint contains the next step for the NameNode that is active
        assert "Wait until the NameNode leaves safe mode" in caught.value.hint


def test_roll_is_refused_without_permission_and_while_stopping(double: Double) -> None:
    refusal = AccessControlError("Superuser privilege is required")
    with asking(double(faults={ANY_CALL: refusal})) as nodes:
        with pytest.raises(RollRefusedError, match="Superuser") as caught:
            nodes.roll(never)
        assert "superuser" in caught.value.hint
        with pytest.raises(RollRefusedError, match="stopping"):
            nodes.roll(lambda: True)


# ---- log lines ---------------------------------------------------------------------------------------------


def test_recovery_of_a_request_is_logged_only_after_its_success(
    double: Double, caplog: pytest.LogCaptureFixture
) -> None:
    """Other requests to this NameNode fail with a different error, or succeed."""
    caplog.set_level("INFO")
    active = double()
    with asking(active) as nodes:
        active.faults[ANY_CALL] = SafeModeError("not now")
        for _ in range(3):
            assert nodes.image_txids() == {}
            # the web server does not respond, which does not end the fault either
            assert nodes.lives() == {}
        active.faults.clear()
        assert nodes.last_txids()
        assert not [line for line in caplog.messages if "again" in line]
        assert nodes.image_txids()
    lines = [line for line in caplog.messages if "newest image" in line]
    assert len(lines) == 2
    assert "does not report its newest image: " in lines[0]
    assert "reports its newest image again after" in lines[1]


def test_stop_is_not_logged_as_a_fault_of_a_namenode(double: Double, caplog: pytest.LogCaptureFixture) -> None:
    with asking(double()) as nodes:
        nodes.close()
        assert nodes.last_txids() == {}
    assert not [line for line in caplog.messages if "does not report" in line]


# ---- gaps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "images", "expected_message"),
    [
        (20, {"nn1": 12, "nn2": 19, "nn3": 40}, "10 to 19 are missing in /shared; the image at txid 19 of nn2 closes"),
        (20, {"nn1": 18}, "no known image closes the gap (nn1 has 18)"),
        (20, {}, "no NameNode answered"),
        (None, {"nn1": 10}, "from 10 on are missing in /shared; the image at txid 10 of nn1 closes"),
    ],
)
def test_gap_alarm_messages(found: int | None, images: dict[str, int], expected_message: str) -> None:
    assert expected_message in gap_alarm(TransactionGapError(10, found), Path("/shared"), images)


@pytest.mark.parametrize(
    ("image", "manifest", "txid", "reported"),
    [
        (5, True, 9, ""),
        (9, False, 9, "asked"),
        # with a quorum, a NameNode's manifest lists only local edits since its last takeover; its images are older
        (4500, True, 4500, "asked"),
        (4500, True, 4000, "asked"),
    ],
)
def test_image_newer_than_that_of_the_active_is_not_requested(
    image: int, manifest: bool, txid: int, reported: str, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover, the new active NameNode lacks our images. A request for one of our images would cause a stack
    trace in its log.
    """
    monkeypatch.setattr("checkpointer.roles.standby.namenodes.image_digest", lambda *_, **__: "asked")
    segments = [EditLogSegment(5001, 5002, Path("unread"))] if manifest else []
    with asking(double(image_txids=lambda: [image], segments=lambda: segments)) as nodes:
        assert nodes.active_image_md5(txid) == reported
