"""Pairs of stubs on JournalNodes or bookies in this process; one stub may be a standby of the other."""

from __future__ import annotations

import dataclasses
import getpass
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests

from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.ha_protocol import HAServiceClient
from journal.errors import JournalStorageError
from journal.quorum.settings import QuorumSettings
from namenode_stub.config import StubConfig
from namenode_stub.edit_journals import open_other_journals
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from namenode_stub.standby_settings import StandbySettings
from tests.checkpointer.quorum_support import Quorum
from tests.journal.bookkeeper_cluster import Cluster
from tests.namenode_stub.stub_support import stub_config_for, uris, wait_until

ME = getpass.getuser()
QUICK = StandbySettings(tail_period=0.02, roll_period=0.0)
# nodes that are stopped refuse connections immediately
_SECONDS: dict[str, Any] = {
    each.name: 60.0 for each in dataclasses.fields(QuorumSettings) if isinstance(each.default, float)
}
TIMEOUTS = QuorumSettings(**_SECONDS)


def config_on(uri: str, root: Path, **changes: Any) -> StubConfig:
    """Configure a NameNode below `root` with shared edits at `uri`; only the tail runs automatically."""
    wanted: dict[str, Any] = {
        "edits": (*uris(root / "name"), uri),
        "shared_edits": uri,
        "rpc_address": ("127.0.0.1", 0),
        "rpc_user": ME,
        "quorum": TIMEOUTS,
        "standby": QUICK,
        **changes,
    }
    return stub_config_for(root, **wanted)


def pair_on(uri: str, tmp_path: Path, layout: int = -67, **changes: Any) -> tuple[StubConfig, StubConfig]:
    """Format two NameNodes with the same image, and the journal."""
    first, second = (config_on(uri, tmp_path / name, **changes) for name in ("nn1", "nn2"))
    journals = open_other_journals(first)
    format_storage(first.image_directories, first.edits_directories, new_storage_info(layout), journals=journals)
    for journal in journals:
        journal.close()
    shutil.copytree(tmp_path / "nn1" / "name", tmp_path / "nn2" / "name", dirs_exist_ok=True)
    return first, second


@contextmanager
def running(shared: Quorum | Cluster, tmp_path: Path, **changes: Any) -> Iterator[tuple[NameNodeStub, NameNodeStub]]:
    """Yield an active NameNode and its standby. At the end, the active NameNode may have failed."""
    first, second = pair_on(shared.uri, tmp_path, **changes)
    active, standby = NameNodeStub(first), NameNodeStub(second, standby=True)
    with standby:
        active.__enter__()
        try:
            yield active, standby
        finally:
            stop(active)


def stop(stub: NameNodeStub) -> None:
    """Stop the stub, even if its log failed or another NameNode is active."""
    with suppress(JournalStorageError):
        stub.stop()


@contextmanager
def ha(stub: NameNodeStub, user: str = ME) -> Iterator[HAServiceClient]:
    assert stub.rpc_address is not None
    with HAServiceClient(*stub.rpc_address, user=user, retry=NO_RETRY) as client:
        yield client


def status(stub: NameNodeStub) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{stub.server.url}/status", timeout=600).json()
    return found


def followed(active: NameNodeStub, standby: NameNodeStub) -> None:
    """Wait until the standby has applied all finalized segments."""
    last = active.active.roll() - 1
    wait_until(f"txid {last} in the standby", lambda: status(standby)["lastTxid"] >= last)


def mkdirs(stub: NameNodeStub, path: str) -> requests.Response:
    return requests.post(f"{stub.server.url}/namespace/mkdirs", json={"path": path}, timeout=600)


def paths(stub: NameNodeStub) -> set[str]:
    return {each.path for each in stub.namespace.walk()}
