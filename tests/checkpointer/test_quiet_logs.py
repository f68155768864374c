"""Repeated events do not fill a NameNode's log or our log."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from checkpointer.roles.standby.role import StandbyRole
from checkpointer.set_back.namenode_witness import NamenodeWitness
from hadoop_rpc.errors import RpcError
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog

NOBODY = "http://127.0.0.1:1"


def witness(*logs: RemoteEditLog) -> NamenodeWitness:
    return NamenodeWitness(NOBODY, lambda since: EditLogManifest(logs), lambda: 20, timeout=60)


def test_purged_image_is_not_requested() -> None:
    """A NameNode keeps the edits that follow its oldest image, so no HTTP request is needed."""
    assert witness(RemoteEditLog(11, 20, False)).image_md5(9) == ""
    for held in (witness(RemoteEditLog(11, 20, False)).image_md5(10), witness().image_md5(9)):
        assert held is None


def test_unavailable_manifest_gives_no_digest() -> None:
    def down(since: int) -> EditLogManifest:
        raise RpcError("down")

    assert NamenodeWitness(NOBODY, down, lambda: 20, timeout=60).image_md5(9) is None


def test_postponed_rollback_image_is_logged_once_per_reason(caplog: pytest.LogCaptureFixture) -> None:
    down, refused = RpcError("down"), RpcError("not a superuser")
    answers: list[RpcError | None] = [down, down, refused, refused, None, refused]

    def rolling_upgrade() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    role = SimpleNamespace(_nodes=SimpleNamespace(rolling_upgrade=rolling_upgrade), _postponed=None)
    image = SimpleNamespace(txid=7, path=Path("fsimage_rollback_7"))
    message = []
    while answers:
        assert not StandbyRole._is_awaited(role, image)  # type: ignore[arg-type]
        message.append(sum(record.levelname == "WARNING" for record in caplog.records))
    assert message == [1, 1, 2, 2, 2, 3]
