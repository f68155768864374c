"""A daemon that must stop ends soon, even if the NameNode does not answer one of its requests."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.backup.role import BackupRole
from checkpointer.roles.role import CheckpointRole
from checkpointer.roles.secondary.role import SecondaryRole
from servlets.status import TriggerResult, TriggerState
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.secondary_support import secondary_config
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double
from tests.namenode_stub.stub_support import wait_until

FOREVER = {"ipc.client.rpc-timeout.ms": "3600000", "dfs.image.transfer.timeout": "3600000"}
LONG_ENOUGH = 300.0


def assert_stops(role: CheckpointRole, service: CheckpointService, node: NamenodeDouble, step: str) -> None:
    stopping = threading.Event()
    results: list[TriggerResult] = []
    role.open(stopping.is_set)
    if isinstance(role, BackupRole):
        # the state after the first check
        role._parts.upkeep.namenode_txid = node.recorded_end
    node.steps.clear()
    node.faults[step] = "hang"
    attempt = threading.Thread(target=lambda: results.append(service.request(force=True, wait=True)), daemon=True)
    attempt.start()
    wait_until(step, lambda: step in node.steps)
    stopping.set()

    def stop() -> None:
        service.stop()
        role.close()

    end = threading.Thread(target=stop, daemon=True)
    end.start()
    end.join(LONG_ENOUGH)
    assert not end.is_alive(), f"{step} keeps the daemon from ending"
    attempt.join(LONG_ENOUGH)
    assert results[0].state is TriggerState.UNAVAILABLE


@pytest.mark.parametrize("step", ["getTransactionId", "rollEditLog", "image", "segment-33"])
def test_secondary_stops_during_a_hanging_request(tmp_path: Path, step: str) -> None:
    with NamenodeDouble(tmp_path / "name") as node:
        config = secondary_config(tmp_path, node.rpc_port, node.http_port, **FOREVER)
        role = SecondaryRole(config)
        assert_stops(role, CheckpointService(role, config), node, step)
        node.release()


@pytest.mark.parametrize("step", ["registerSubordinateNamenode", "startCheckpoint", "getEditLogManifest", "segment-33"])
def test_backup_stops_during_a_hanging_request(tmp_path: Path, step: str) -> None:
    with streaming_double(tmp_path / "name") as node:
        config = backup_config(tmp_path / "backup", node.rpc_port, node.http_port, **FOREVER)
        role = BackupRole(config)
        node.roll()
        assert_stops(role, CheckpointService(role, config), node, step)
        node.release()


def test_backup_stops_while_following_a_hanging_namenode(tmp_path: Path) -> None:
    stopping = threading.Event()
    with streaming_double(tmp_path / "name") as node:
        role = BackupRole(backup_config(tmp_path / "backup", node.rpc_port, node.http_port, **FOREVER))
        role.open(stopping.is_set)
        node.faults["getTransactionId"] = "hang"
        look = threading.Thread(target=role.follow, daemon=True)
        look.start()
        wait_until("a look", lambda: "getTransactionId" in node.steps)
        stopping.set()
        end = threading.Thread(target=role.close, daemon=True)
        end.start()
        end.join(LONG_ENOUGH)
        assert not end.is_alive()
        node.release()
