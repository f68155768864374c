"""Locks of a leader: files, znodes, and their configuration."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from checkpointer.leadership.leadership import Leadership
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import FileLock, LockOutcome, ZooKeeperLock, lock_holder
from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.zookeeper.session import ZooKeeperAddress
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from site_config.leadership import LeaderSettings
from tests.checkpointer.leader_support import ME, OTHER
from tests.checkpointer.leading_process import leading_process
from tests.checkpointer.service_support import Clock, standby_config
from tests.failover.failover_support import LONG_SESSIONS, LONGEST_SESSION
from tests.namenode_stub.stub_support import wait_until

# ---- a file ------------------------------------------------------------------------------------------------


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds `tmp_path/lock`."""
    with leading_process(tmp_path / "lock") as process:
        yield process


def test_holder_of_a_lock_file_is_read_without_locking(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    chosen = LeaderSettings(file=tmp_path / "lock")
    found = lock_holder(chosen)
    assert found is not None
    assert (found.leader, found.since) == (OTHER, (tmp_path / "lock").stat().st_mtime)
    holder.kill()
    holder.wait()
    assert lock_holder(chosen) is None
    (tmp_path / "lock").unlink()
    assert lock_holder(chosen) is None
    assert not (tmp_path / "lock").exists()


def test_query_by_the_holder_itself_keeps_the_lock(tmp_path: Path) -> None:
    """The console of a daemon runs the checks in the daemon's process."""
    path = tmp_path / "lock"
    with closing(FileLock(path)) as backend:
        backend.ask(ME)
        found = lock_holder(LeaderSettings(file=path))
        assert found is not None
        assert (found.leader, found.since) == (ME, path.stat().st_mtime)
        with pytest.raises(AssertionError), leading_process(path):
            """Another process cannot acquire the lock."""
        assert backend.ask(ME) == (LockOutcome.KEPT, None)
    assert lock_holder(LeaderSettings(file=path)) is None


def test_lock_file_is_acquired_after_its_holder_is_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with closing(FileLock(tmp_path / "lock")) as backend:
        assert backend.ask(ME) == (LockOutcome.HELD_BY_OTHER, OTHER)
        holder.kill()
        holder.wait()
        assert backend.ask(ME) == (LockOutcome.ACQUIRED, None)
        assert backend.ask(ME) == (LockOutcome.KEPT, None)
        assert Leader.from_bytes((tmp_path / "lock").read_bytes()) == ME


def test_removed_lock_file_is_created_and_locked_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with closing(FileLock(path)) as backend:
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        path.unlink()
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        assert Leader.from_bytes(path.read_bytes()) == ME


def test_lost_file_lock_is_acquired_again(tmp_path: Path) -> None:
    """NFS loses a lock if its server does not hear from the owner for a long time; to simulate this loss, the test
    releases the lock.
    """
    path = tmp_path / "lock"
    with closing(FileLock(path)) as backend:
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        lose(path)
        with leading_process(path):
            assert backend.ask(ME) == (LockOutcome.HELD_BY_OTHER, OTHER)
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        lose(path)
        with leading_process(path):
            """Another process leads for a while."""
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        assert Leader.from_bytes(path.read_bytes()) == ME
        assert backend.ask(ME)[0] is LockOutcome.KEPT


def lose(path: Path) -> None:
    """Lose the lock by closing a file, which releases all locks that the process has on the file."""
    os.close(os.open(path, os.O_RDONLY))


def test_log_contains_the_next_step_if_the_lock_cannot_be_acquired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    settings = LeaderSettings(file=tmp_path / "missing/lock")
    leadership = Leadership(settings, ME, backend=FileLock(tmp_path / "missing/lock"), clock=clock)
    leadership.ask()
    clock.now += settings.session_timeout
    leadership.ask()
    unknown, away = (record.getMessage() for record in caplog.records)
    assert unknown.startswith("the leader is currently unknown: the leadership lock cannot be acquired")
    assert away.startswith("the leadership lock cannot be acquired, checkpoints continue")
    for each in (unknown, away):
        assert "; next: Check checkpointer.leader.lock" in each


def test_lock_file_in_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with closing(FileLock(tmp_path / "gone" / "lock")) as backend, pytest.raises(StorageError, match="lock"):
        backend.ask(ME)


# ---- ZooKeeper ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    if MISSING:
        pytest.skip(MISSING)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), LONG_SESSIONS) as server:
        yield server


def lock_backend_of(zookeeper: ZooKeeperServer, name: str, session_timeout: float = LONGEST_SESSION) -> ZooKeeperLock:
    return ZooKeeperLock(ZooKeeperAddress(zookeeper.hosts, session_timeout), f"/hadoop-checkpointer/{name}/leader")


def test_lock_znode_is_released_with_the_session_of_its_owner(zookeeper: ZooKeeperServer) -> None:
    with ExitStack() as closed:
        first, second = (closed.enter_context(closing(lock_backend_of(zookeeper, "session"))) for _ in range(2))
        assert first.ask(ME) == (LockOutcome.ACQUIRED, None)
        assert first.ask(ME) == (LockOutcome.KEPT, None)
        assert second.ask(OTHER) == (LockOutcome.HELD_BY_OTHER, ME)
        first.close()
        assert second.ask(OTHER) == (LockOutcome.ACQUIRED, None)


def test_holder_of_a_lock_znode_is_read_without_locking(zookeeper: ZooKeeperServer) -> None:
    ensemble = ZooKeeperAddress(zookeeper.hosts, LONGEST_SESSION)
    chosen = LeaderSettings(ensemble=ensemble, znode="/hadoop-checkpointer/seen/leader")
    assert lock_holder(chosen) is None
    before = time.time()
    with closing(lock_backend_of(zookeeper, "seen")) as backend:
        backend.ask(ME)
        found = lock_holder(chosen)
    assert found is not None
    assert found.leader == ME
    assert before - 1 < found.since < time.time() + 1
    assert lock_holder(chosen) is None


def test_lease_is_limited_by_the_granted_session_timeout(zookeeper: ZooKeeperServer) -> None:
    ensemble = ZooKeeperAddress(zookeeper.hosts, 600.0)
    chosen = LeaderSettings(ensemble=ensemble, session_timeout=600.0, znode="/hadoop-checkpointer/clipped/leader")
    clock = Clock()
    with closing(ZooKeeperLock(ensemble, chosen.znode)) as backend:
        leadership = Leadership(chosen, ME, backend=backend, clock=clock)
        leadership.ask()
        assert leadership.leads
        clock.now += LONGEST_SESSION + 1
        assert not leadership.leads


def test_ended_session_and_its_lock_are_created_again(zookeeper: ZooKeeperServer) -> None:
    with closing(lock_backend_of(zookeeper, "away", 3.0)) as backend:
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        zookeeper.stop()
        try:
            with pytest.raises(HdfsError):
                backend.ask(ME)
        finally:
            zookeeper.start()

        def answered() -> bool:
            try:
                return backend.ask(ME)[0] in (LockOutcome.ACQUIRED, LockOutcome.KEPT)
            except HdfsError:
                return False

        wait_until("ZooKeeper", answered)


# ---- configuration -----------------------------------------------------------------------------------------


def test_no_lock_by_default() -> None:
    assert standby_config().leader.lock == ""


def test_zookeeper_of_the_cluster_is_used_by_default() -> None:
    named = {"ha.zookeeper.quorum": "zk1:2181,zk2:2181/chroot", "ha.zookeeper.session-timeout.ms": "4000"}
    found = standby_config(**named).leader
    assert found.ensemble is not None
    assert (found.ensemble.hosts, found.ensemble.session_timeout) == ("zk1:2181,zk2:2181/chroot", 4.0)
    assert found.session_timeout == 4.0
    assert found.znode.startswith("/hadoop-checkpointer/")
    assert standby_config(**named, **{"checkpointer.leader.lock": "none"}).leader.lock == ""
    found = standby_config(**named, **{"checkpointer.leader.lock": "file:///shared/lock%201"}).leader
    assert (found.file, found.ensemble) == (Path("/shared/lock 1"), None)


def test_session_timeout_of_the_nameservice_is_used() -> None:
    scoped = {"ha.zookeeper.quorum.ns1": "zk1", "ha.zookeeper.session-timeout.ms.ns1": "4000"}
    found = standby_config(**{"dfs.nameservices": "ns1"}, **scoped).leader
    assert found.ensemble is not None
    assert found.session_timeout == found.ensemble.session_timeout == 4.0


@pytest.mark.parametrize(
    "lock", ["zookeeper", "etcd", "file:relative", "file://host/path", "file:///", "file://[x", "file:///a%00"]
)
def test_invalid_lock_setting_is_an_error(lock: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checkpointer\.leader\.lock"):
        standby_config(**{"checkpointer.leader.lock": lock})
