"""An early worker daemon: it replaces the process that Spark starts, and ends with that process or with the command."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

from pipeline.python_daemon import start_early
from tests.namenode_stub.stub_support import wait_until

BEYOND_SELECT = 1024


@contextmanager
def asked_by_spark(log: IO[bytes] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process that Spark starts as its daemon, with Spark's environment. The process ends when its input is
    closed.
    """
    command = [sys.executable, "-m", "pipeline.python_daemon", "pyspark.worker"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=environment) as asking:
        yield asking
        assert asking.stdin is not None
        asking.stdin.close()
        assert asking.wait() is not None


def listening(process: subprocess.Popen[bytes]) -> int:
    """Return the process that listens at the port that a daemon has written."""
    assert process.stdout is not None
    port = int.from_bytes(process.stdout.read(4), "big")
    (pid,) = {
        each.pid
        for each in psutil.net_connections("tcp4")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port
    }
    assert pid is not None
    return pid


def is_early(process: psutil.Process) -> bool:
    """Return whether this child is an early daemon; other children of this process may end at any moment."""
    with suppress(psutil.NoSuchProcess):
        # Linux shows the command line of a new program only after it closed the descriptors for which Popen waits
        wait_until("a command line", lambda: bool(process.cmdline()) or process.status() == psutil.STATUS_ZOMBIE)
        return "--early" in process.cmdline()
    return False


@pytest.fixture
def early() -> Iterator[psutil.Process]:
    with start_early():
        (process,) = filter(is_early, psutil.Process().children())
        yield process
    assert not process.is_running()


def test_spark_uses_the_early_process_as_its_daemon(early: psutil.Process) -> None:
    with asked_by_spark() as asking:
        assert listening(asking) == early.pid
        assert early.environ().keys() >= {"PYTHONHASHSEED"}
        assert not Path(os.environ["HDFS_CHECKPOINTER_DAEMON_SOCKET"]).parent.exists()


def test_the_early_process_ends_with_the_command_if_unused(early: psutil.Process) -> None:
    folder = Path(os.environ["HDFS_CHECKPOINTER_DAEMON_SOCKET"]).parent
    assert early.is_running()
    assert folder.stat().st_mode & 0o077 == 0


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which the path of a socket is not too long."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_command_that_a_signal_ends_leaves_no_folder(short_folder: Path) -> None:
    code = "from pipeline.python_daemon import start_early\nwith start_early(): print(flush=True); input()"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (early,) = filter(is_early, psutil.Process(process.pid).children())
        process.terminate()
    with suppress(psutil.NoSuchProcess):
        early.wait(60)
    assert not list(short_folder.iterdir())


def test_sparks_own_process_serves_if_the_early_one_was_killed(early: psutil.Process) -> None:
    early.kill()
    with asked_by_spark() as asking:
        assert listening(asking) == asking.pid


def test_the_early_process_ends_silently_when_spark_has_killed_its_daemon(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with start_early(), log.open("wb") as stream:
        with asked_by_spark(stream) as asking:
            early = psutil.Process(listening(asking))
            assert is_early(early)
            asking.kill()
            asking.wait()
        early.wait(600)
        assert log.read_text() == ""


@contextmanager
def early_at(listener: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """Yield an early process whose listener has the given descriptor."""
    command = [sys.executable, "-m", "pipeline.python_daemon", "--early", str(listener.fileno())]
    pipe, descriptors = subprocess.PIPE, (listener.fileno(),)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=descriptors) as process:
        listener.close()
        yield process


@pytest.mark.parametrize("sent", [(), (b"\0",), (b"\0", b'[{}, ["daemo'), (b"\0", b'[{}, ["daemon"]]')])
def test_the_early_process_ends_silently_if_spark_kills_its_process_during_the_request(
    short_folder: Path, sent: tuple[bytes, ...]
) -> None:
    (short_folder / "own").mkdir()
    path = str(short_folder / "own" / "daemon")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as asking:
        listener.bind(path)
        listener.listen(1)
        asking.connect(path)
        with early_at(listener) as early:
            if sent:
                socket.send_fds(asking, [sent[0]], (0, 1, 2))
            for each in sent[1:]:
                asking.sendall(each)
            asking.close()
            assert early.communicate() == (b"", b"")
    assert early.returncode == 0


def test_the_early_process_serves_with_more_descriptors_than_select_allows(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] <= BEYOND_SELECT:
        pytest.skip("the system allows too few descriptors")
    path = str(short_folder / "own" / "daemon")
    (short_folder / "own").mkdir()
    monkeypatch.setenv("HDFS_CHECKPOINTER_DAEMON_SOCKET", path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], BEYOND_SELECT + 1), limits[1]))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            high = socket.socket(fileno=fcntl.fcntl(listener, fcntl.F_DUPFD, BEYOND_SELECT))
        with early_at(high) as early, asked_by_spark() as asking:
            assert listening(asking) == early.pid
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_no_early_process_if_the_socket_path_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with start_early():
        assert not any(map(is_early, psutil.Process().children()))
        assert "HDFS_CHECKPOINTER_DAEMON_SOCKET" not in os.environ
    assert list(folder.iterdir()) == []
