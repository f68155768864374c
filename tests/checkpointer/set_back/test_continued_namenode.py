"""A NameNode that was set back and has continued: images and edits of its lost past are neither offered to it nor
merged.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.set_back.proof import contradiction
from hadoop_common.names import image_name, segment_name
from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.segment_file import EditLogSegment
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon, backup_config
from tests.checkpointer.secondary_support import Secondary
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double


def logs(*bounds: tuple[int, int]) -> list[RemoteEditLog]:
    return [RemoteEditLog(first, last) for first, last in bounds]


def held(*bounds: tuple[int, int]) -> list[EditLogSegment]:
    return [EditLogSegment(first, last, Path(segment_name(first, last))) for first, last in bounds]


# ---- decisions ---------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(2, 90), min_size=2, max_size=10, unique=True), data=st.data())
def test_no_contradiction_within_one_history(cuts: list[int], data: st.DataObject) -> None:
    bounds = [(first, last - 1) for first, last in pairwise([1, *sorted(cuts)])]
    theirs = data.draw(st.integers(0, len(bounds) - 1))
    ours = data.draw(st.lists(st.sampled_from(bounds), unique=True))
    beginnings = [(first, data.draw(st.integers(first, last))) for first, last in ours]
    image = data.draw(st.sampled_from([0, *(last for _, last in bounds)]))
    assert contradiction(image, held(*beginnings), logs(*bounds[theirs:])) == ""


@pytest.mark.parametrize(
    ("image", "ours", "message"),
    [
        (15, [], "image at txid 15 falls inside the NameNode's segment 11-20"),
        (10, [(11, 21)], "segment 11-21 is not one of the NameNode's segments"),
        (10, [(12, 20)], "segment 12-20 is not one of the NameNode's segments"),
        (10, [(5, 14)], "segment 5-14 is not one of the NameNode's segments"),
        (10, [(11, 20), (21, 35)], "segment 21-35 is not one of the NameNode's segments"),
    ],
)
def test_another_history_is_detected(image: int, ours: list[tuple[int, int]], message: str) -> None:
    assert message in contradiction(image, held(*ours), logs((1, 10), (11, 20), (21, 30)))


# ---- a namenode that was set back --------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_secondary_offers_no_image_of_a_lost_past(node: NamenodeDouble, tmp_path: Path, restarted: bool) -> None:
    node.faults["upload"] = 500
    first = Secondary.of(tmp_path, node)
    with first:
        assert first.checkpoint().details["txid"] == 88
        node.faults.clear()
        if not restarted:
            node.set_back(100)
            assert_no_lost_past_is_offered(node, first)
    if restarted:
        node.set_back(100)
        with Secondary.of(tmp_path, node) as second:
            assert_no_lost_past_is_offered(node, second)


def assert_no_lost_past_is_offered(node: NamenodeDouble, secondary: Secondary) -> None:
    node.steps.clear()
    secondary.service.poll()
    assert "upload" not in node.steps
    assert node.image_txids() == [32]
    # the next checkpoint contains the current state of the NameNode
    result = secondary.checkpoint()
    assert result.state is TriggerState.DONE
    assert node.image_txids() == [32, result.details["txid"]]
    assert (secondary.folder / image_name(result.details["txid"])).stat().st_size < node.expected.stat().st_size


def test_backup_offers_no_image_of_a_lost_past(tmp_path: Path) -> None:
    with streaming_double(tmp_path / "nn") as node:
        config = backup_config(tmp_path / "backup", node.rpc_port, node.http_port)
        with Daemon(config) as daemon:
            daemon.follow()
            node.write(5)
            node.faults["upload"] = 500
            made = daemon.service.request(force=True, wait=True).details["txid"]
            node.faults.clear()
        before = node.image_txids()
        node.set_back(made + 10)
        with Daemon(config) as daemon:
            daemon.service.poll()
            assert node.image_txids() == before
            # the next checkpoint contains the current state of the NameNode
            result = daemon.service.request(force=True, wait=True)
            assert result.state is TriggerState.DONE
            assert node.image_txids() == [*before, result.details["txid"]]
            assert daemon.service.status()["lostPast"] is not None
