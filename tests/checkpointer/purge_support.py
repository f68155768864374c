"""A NameNode that purges images and edits, and a standby whose images it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkpointer.roles.standby.namenodes as namenodes_module
from checkpointer.checks.ask_storage import ask_directories
from checkpointer.checks.facts import Facts
from checkpointer.checks.storage_checks import check_storage
from checkpointer.checks.thresholds import Thresholds
from checkpointer.storage.lost_pasts import LOST_PAST
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import PERIOD, TRANSACTIONS, Daemon, images, write_edits
from tests.namenode_stub.stub_support import formatted


class Processes:
    """Start times of the NameNode's process, which a stub's `/jmx` does not report."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started_at = 1000
        monkeypatch.setattr(namenodes_module, "ask_start_time", lambda *_, **__: self.started_at)

    def restart(self) -> None:
        self.started_at += 1


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def stub_config(tmp_path: Path, extra_edits: int) -> StubConfig:
    return formatted(
        tmp_path / "active",
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        rpc_address=("127.0.0.1", 0),
        images_retained=1,
        extra_edits_retained=extra_edits,
    )


def write_and_save(stub: NameNodeStub, label: str) -> int:
    """Write edits and save an image, which purges the previous image; return the new image's txid."""
    write_edits(stub, label)
    stub.active.administration.set_safe_mode(on=True)
    assert stub.active.administration.save_namespace()
    stub.active.administration.set_safe_mode(on=False)
    return stub.images.checkpoint_txid


def assert_accepted(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    """Assert that the NameNode accepts the daemon's next image, and that `check` has no warning."""
    daemon.clock.now += PERIOD
    txid = write_edits(stub, "more")
    result = daemon.service.poll()
    assert (result.state, result.details["txid"]) == (TriggerState.DONE, txid)
    assert result.details["uploads"] == {stub.server.url: "SUCCESS"}
    assert images(tmp_path / "active/name") == [txid]
    assert not (tmp_path / "nn2" / LOST_PAST).exists()
    (directory,) = ask_directories([tmp_path / "nn2"], 60.0)
    facts = Facts(now=0.0, period=PERIOD, transactions=1, reserved=0, directories=(directory,))
    assert "set aside" not in check_storage(facts, Thresholds()).summary
