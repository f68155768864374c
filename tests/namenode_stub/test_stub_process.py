"""The stub as a process: refused commands and exit codes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.tls.settings import WebAddresses
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import free_ports, write_configuration
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.stub_support import formatted, restarted_tree


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
    assert "already formatted" in err
    with NameNodeStub(stub_config(Configuration.load(conf, environment={}))):
        second = stub("run", "--conf", conf)
        _, err = second.communicate(timeout=600)
    assert second.returncode == 6
    assert "is held by" in err
    assert "Traceback" not in err


def test_a_second_stub_is_refused(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        with pytest.raises(StorageError, match="is held by"), NameNodeStub(config):
            pass
        stub.namespace.mkdirs("/still-here")
    assert [status.path for status in restarted_tree(config)] == ["/", "/still-here"]


def test_a_failed_start_releases_the_storage_locks(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = formatted(tmp_path, web=WebAddresses(taken.getsockname()))
        with pytest.raises(Exception, match="cannot listen"), NameNodeStub(config):
            pass
    assert not list((tmp_path / "name/current").glob("edits_inprogress_*"))
    assert len(restarted_tree(replace(config, web=WebAddresses(("127.0.0.1", 0))))) == 1
