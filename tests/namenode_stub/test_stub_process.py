"""The stub as a process: format, run, SIGTERM, SIGKILL, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import requests

from journal.segment_file import list_segments
from namenode_stub.demo_conf import free_ports, write_configuration
from tests.namenode_stub.stub_support import wait_until


def stub(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "namenode_stub", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/status", timeout=600).ok
    except requests.ConnectionError:
        return False


def test_a_life_in_a_process(tmp_path: Path) -> None:
    ports = free_ports()
    write_configuration(tmp_path, ports, transactions=1000, period=3600)
    conf = tmp_path / "conf-nn1"
    formatting = stub("format", "--conf", conf)
    assert formatting.wait(600) == 0
    again = stub("format", "--conf", conf)
    _, err = again.communicate(timeout=600)
    assert again.returncode == 6
    assert "formatted already" in err
    first = stub("run", "--conf", conf)
    try:
        wait_until("the stub", lambda: first.poll() is not None or answers(ports.stub_url))
        second = stub("run", "--conf", conf)
        _, err = second.communicate(timeout=600)
        assert second.returncode == 6
        assert "is held by" in err
        assert "Traceback" not in err
        made = requests.post(f"{ports.stub_url}/namespace/mkdirs", json={"path": "/a"}, timeout=600)
        assert made.ok
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=600)
        assert first.returncode == 0, err
    finally:
        if first.poll() is None:
            first.kill()
            first.wait()
    segments = list_segments(tmp_path / "shared" / "current")
    assert segments
    assert not any(segment.in_progress for segment in segments)
