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


def test_who_has_a_file_is_seen_without_taking_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
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


def test_a_question_of_the_holder_itself_keeps_the_lock(tmp_path: Path) -> None:
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


def test_a_file_goes_with_its_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with closing(FileLock(tmp_path / "lock")) as backend:
        assert backend.ask(ME) == (LockOutcome.HELD_BY_OTHER, OTHER)
        holder.kill()
        holder.wait()
        assert backend.ask(ME) == (LockOutcome.ACQUIRED, None)
        assert backend.ask(ME) == (LockOutcome.KEPT, None)
        assert Leader.from_bytes((tmp_path / "lock").read_bytes()) == ME


def test_a_file_that_was_removed_or_replaced_is_locked_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with closing(FileLock(path)) as backend:
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        path.unlink()
        assert backend.ask(ME)[0] is LockOutcome.ACQUIRED
        assert Leader.from_bytes(path.read_bytes()) == ME


def test_a_lock_that_was_lost_is_asked_for_again(tmp_path: Path) -> None:
    """NFS loses a lock if its server does not hear from the owner for a long time; here, the test releases it."""
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


def test_without_its_directory_the_lock_cannot_be_had(tmp_path: Path) -> None:
    with closing(FileLock(tmp_path / "gone" / "lock")) as backend, pytest.raises(StorageError, match="lock"):
        backend.ask(ME)


# ---- ZooKeeper ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    if MISSING:
        pytest.skip(MISSING)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), LONG_SESSIONS) as server:
        yield server


def keeper_of(zookeeper: ZooKeeperServer, name: str, session_timeout: float = LONGEST_SESSION) -> ZooKeeperLock:
    return ZooKeeperLock(ZooKeeperAddress(zookeeper.hosts, session_timeout), f"/hadoop-checkpointer/{name}/leader")


def test_a_znode_goes_with_the_session_of_its_owner(zookeeper: ZooKeeperServer) -> None:
    with ExitStack() as closed:
        first, second = (closed.enter_context(closing(keeper_of(zookeeper, "session"))) for _ in range(2))
        assert first.ask(ME) == (LockOutcome.ACQUIRED, None)
        assert first.ask(ME) == (LockOutcome.KEPT, None)
        assert second.ask(OTHER) == (LockOutcome.HELD_BY_OTHER, ME)
        first.close()
        assert second.ask(OTHER) == (LockOutcome.ACQUIRED, None)


def test_who_has_a_znode_is_seen_without_taking_it(zookeeper: ZooKeeperServer) -> None:
    ensemble = ZooKeeperAddress(zookeeper.hosts, LONGEST_SESSION)
    chosen = LeaderSettings(ensemble=ensemble, znode="/hadoop-checkpointer/seen/leader")
    assert lock_holder(chosen) is None
    before = time.time()
    with closing(keeper_of(zookeeper, "seen")) as backend:
        backend.ask(ME)
        found = lock_holder(chosen)
    assert found is not None
    assert found.leader == ME
    assert before - 1 < found.since < time.time() + 1
    assert lock_holder(chosen) is None


def test_an_answer_holds_no_longer_than_the_session_that_the_servers_gave(zookeeper: ZooKeeperServer) -> None:
    ensemble = ZooKeeperAddress(zookeeper.hosts, 600.0)
    chosen = LeaderSettings(ensemble=ensemble, session_timeout=600.0, znode="/hadoop-checkpointer/clipped/leader")
    clock = Clock()
    with closing(ZooKeeperLock(ensemble, chosen.znode)) as backend:
        leadership = Leadership(chosen, ME, backend=backend, clock=clock)
        leadership.ask()
        assert leadership.leads
        clock.now += LONGEST_SESSION + 1
        assert not leadership.leads


def test_a_session_that_ended_is_made_anew_and_the_lock_with_it(zookeeper: ZooKeeperServer) -> None:
    with closing(keeper_of(zookeeper, "away", 3.0)) as backend:
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


def test_where_nothing_is_configured_a_daemon_is_for_itself() -> None:
    assert standby_config().leader.lock == ""


def test_the_zookeeper_of_the_cluster_is_used_by_itself() -> None:
    named = {"ha.zookeeper.quorum": "zk1:2181,zk2:2181/chroot", "ha.zookeeper.session-timeout.ms": "4000"}
    found = standby_config(**named).leader
    assert found.ensemble is not None
    assert (found.ensemble.hosts, found.ensemble.session_timeout) == ("zk1:2181,zk2:2181/chroot", 4.0)
    assert found.session_timeout == 4.0
    assert found.znode.startswith("/hadoop-checkpointer/")
    assert standby_config(**named, **{"checkpointer.leader.lock": "none"}).leader.lock == ""
    found = standby_config(**named, **{"checkpointer.leader.lock": "file:///shared/lock%201"}).leader
    assert (found.file, found.ensemble) == (Path("/shared/lock 1"), None)


def test_the_timeout_is_that_of_the_nameservice() -> None:
    scoped = {"ha.zookeeper.quorum.ns1": "zk1", "ha.zookeeper.session-timeout.ms.ns1": "4000"}
    found = standby_config(**{"dfs.nameservices": "ns1"}, **scoped).leader
    assert found.ensemble is not None
    assert found.session_timeout == found.ensemble.session_timeout == 4.0


@pytest.mark.parametrize(
    "lock", ["zookeeper", "etcd", "file:relative", "file://host/path", "file:///", "file://[x", "file:///a%00"]
)
def test_a_lock_that_is_none_is_a_fault(lock: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checkpointer\.leader\.lock"):
        standby_config(**{"checkpointer.leader.lock": lock})
