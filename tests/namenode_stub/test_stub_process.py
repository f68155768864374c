"""The stub as a process: refused commands and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hadoop_common.configuration import Configuration
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import free_ports, write_configuration
from namenode_stub.node import NameNodeStub


def stub(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "namenode_stub", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def test_a_second_format_and_a_second_stub_are_refused(tmp_path: Path) -> None:
    write_configuration(tmp_path, free_ports(), transactions=1000, period=3600)
    conf = tmp_path / "conf-nn1"
    assert stub("format", "--conf", conf).wait(600) == 0
    again = stub("format", "--conf", conf)
    _, err = again.communicate(timeout=600)
    assert again.returncode == 6
    assert "formatted already" in err
    with NameNodeStub(stub_config(Configuration.load(conf, environment={}))):
        second = stub("run", "--conf", conf)
        _, err = second.communicate(timeout=600)
    assert second.returncode == 6
    assert "is held by" in err
    assert "Traceback" not in err
