"""A NameNode without changes for days: its secondary continues and reports no lost past.

All segments of an idle NameNode are alike: START_LOG_SEGMENT and END_LOG_SEGMENT, without a time. Therefore, only other
images, older segments or the NameNode's process can prove the past of an image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from checkpointer.storage.lost_pasts import LOST_PAST
from hadoop_common.names import image_name
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary
from tests.depth import deep
from tests.namenode_stub.namenode_double import NamenodeDouble

HOUR = 3600.0
# duration and interval of events, in hours
HOURS, EVERY = (24 * 7, 4) if deep() else (6, 1)


class IdleCluster:
    """A Hadoop 3 NameNode and its secondary, with a clock that `checkpoint` advances by an hour."""

    def __init__(self, folder: Path) -> None:
        self.passed = 0.0
        self._folder = folder
        self.node = NamenodeDouble(folder / "name", "hadoop-3.4.1/segments", release=3)
        self.node.now = lambda: self.passed
        self.node.checkpointed_at = -HOUR
        # the NameNode accepts hourly images, but not more frequent images
        self.node.recent = (3600, 1_000_000)
        self.node.keeps_edits = True
        self.node.started_at = 1
        self._running = ExitStack()
        self.secondary: Secondary

    def __enter__(self) -> IdleCluster:
        self.node.__enter__()
        self.start_secondary()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        self.node.stop()

    def start_secondary(self) -> None:
        """Start another process of the secondary."""
        self._running.close()
        self.secondary = self._running.enter_context(Secondary.of(self._folder, self.node))

    def restart(self) -> None:
        """Start another process of the NameNode."""
        assert self.node.started_at is not None
        self.node.started_at += 1

    def upgrade(self) -> None:
        """Start the NameNode with -upgrade."""
        self.restart()
        self.node.save_namespace(upgrade=True)
        self.node.upgrade(c_time=self.node.info.c_time + 1)

    def save_thrice(self) -> None:
        for _ in range(3):
            self.node.save_namespace()

    def checkpoint(self) -> int:
        """Advance the time by an hour, then make and upload an image; return its txid."""
        self.passed += HOUR
        result = self.secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        txid: int = result.details["txid"]
        assert self.node.image_txids()[-1] == txid
        return txid

    @property
    def lost(self) -> bool:
        aside = self.secondary.config.image_directories[0] / LOST_PAST
        return self.secondary.role.details().lost_past is not None or aside.exists()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[IdleCluster]:
    with IdleCluster(tmp_path) as idle:
        # make checkpoints until all recorded edits are in an image
        while idle.node.image_txids()[-1] < idle.node.recorded_end:
            idle.checkpoint()
        yield idle


def test_no_lost_past_during_days_without_changes(cluster: IdleCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The NameNode receives an image every hour, despite administrators' commands and restarts in between."""
    events: list[tuple[Callable[[], None], ...]] = [
        (cluster.save_thrice,),
        (cluster.upgrade,),
        (cluster.start_secondary,),
        (cluster.restart, cluster.save_thrice),
        (cluster.start_secondary, cluster.upgrade),
        (),
    ]
    with caplog.at_level(logging.INFO):
        for hour in range(HOURS):
            for event in events[hour // EVERY % len(events)] if hour % EVERY == 0 else ():
                event()
            cluster.checkpoint()
            assert not cluster.lost, caplog.text
    assert "set back" not in caplog.text
    assert "cannot be compared" not in caplog.text


def test_past_is_proved_by_the_process_of_the_namenode(cluster: IdleCluster) -> None:
    """Edits and images are purged, but the NameNode's process is still the process that had the image."""
    cluster.node.keeps_edits = False
    cluster.checkpoint()
    cluster.checkpoint()
    for begin in (lambda: None, cluster.start_secondary):
        begin()
        cluster.save_thrice()
        cluster.checkpoint()
        assert not cluster.lost


def test_fetched_image_after_its_purge_is_no_lost_past(cluster: IdleCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another daemon made the checkpoints, and the NameNode has purged the image that was fetched for them."""
    monkeypatch.setattr("checkpointer.roles.secondary.role.load_ahead", lambda: None)
    cluster.save_thrice()
    cluster.secondary.role.keep_up(lambda: False)
    assert (cluster.secondary.folder / image_name(cluster.node.image_txids()[-1])).exists()
    assert cluster.secondary.role.progress().image_at is None
    cluster.node.keeps_edits = False
    cluster.save_thrice()
    cluster.checkpoint()
    assert not cluster.lost


def test_past_that_cannot_be_compared_is_not_called_set_back(
    cluster: IdleCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.node.keeps_edits = False
    cluster.checkpoint()
    cluster.checkpoint()
    cluster.restart()
    cluster.save_thrice()
    cluster.checkpoint()
    begun = cluster.secondary.service.status()["lostPast"]
    assert "cannot be compared with NameNode" in begun["reason"]
    assert "cannot be compared with NameNode" in caplog.text
    assert "set back" not in begun["reason"] + caplog.text


def test_set_back_hidden_by_a_restart_is_detected(cluster: IdleCluster) -> None:
    """The same txids, again without changes, follow a different change, so no rule accepts the old image."""
    cluster.checkpoint()
    newest = cluster.checkpoint()
    cluster.restart()
    cluster.node.set_back(newest + 60)
    cluster.checkpoint()
    assert cluster.lost
    assert "was set back" in cluster.secondary.service.status()["lostPast"]["reason"]
