"""Fencing: the lines of the configuration, shell and ssh commands, and the dry run."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from failover.fencing import command
from failover.fencing.environment import fencing_environment
from failover.fencing.fencer import Fencer, FencingOutcome
from failover.fencing.method_lines import ShellFencing, SshFencing, parse_methods
from failover.settings import FailoverSettings
from failover.target import java_address, java_host_name
from tests.failover.failover_support import HERE, free_port, settings
from tests.namenode_stub.stub_support import wait_until


def test_fencing_methods_are_parsed() -> None:
    text = """
      sshfence
      # what follows needs a login
      sshfence(fence:2222)   # on another port
      sshfence(:2222)
      shell(/usr/bin/off --host $target_host:$target_port)
      org.apache.hadoop.ha.ShellCommandFencer( exit 1 )
      shell(kill $(cat pid) (and more))  # to the last bracket, as in Hadoop
    """
    assert parse_methods(text) == (
        SshFencing(),
        SshFencing("fence", 2222),
        SshFencing("", 2222),
        ShellFencing("/usr/bin/off --host $target_host:$target_port"),
        ShellFencing("exit 1"),
        ShellFencing("kill $(cat pid) (and more)"),
    )
    assert parse_methods("") == parse_methods(" \n # none\n") == ()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("shell", "without a command"),
        ("shell()", "without a command"),
        ("shell(true) then", "not a method"),
        ("shell(true", "not a method"),
        ("sshfence(a:b:22)", r"\[USER\]"),
        ("sshfence(:99999)", r"\[USER\]"),
        ("powershell(off.ps1)", "Windows"),
        ("org.example.Fencer(x)", "Java class"),
        ("-", "not a method"),
    ],
)
def test_invalid_fencing_methods_are_rejected(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_methods(line)


def fencer(line: str, given: FailoverSettings | None = None) -> Fencer:
    """Fence nn2 with one line of the configuration."""
    given = given or settings(more={"dfs.ha.fencing.methods": line})
    return given.fencer(given.others[0])


def only(outcomes: list[FencingOutcome]) -> FencingOutcome:
    (found,) = outcomes
    return found


def test_successful_fencing_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reported = tmp_path / "told"
    line = f"shell(env > {reported}; cat; echo fenced $target_host; echo by force >&2)"
    assert only(list(fencer(line).fence())) == FencingOutcome(line, True, "the command exited with code 0")
    assert "fenced localhost" in caplog.text
    assert "by force" in caplog.text
    found = dict(each.partition("=")[::2] for each in reported.read_text().splitlines())
    assert found["target_host"] == java_host_name(HERE)
    assert found["target_port"] == found["dfs_namenode_rpc-address"].partition(":")[2] == "2"
    assert found["target_address"] == java_address(java_host_name(HERE), 2)
    assert (found["target_nameserviceid"], found["target_namenodeid"]) == ("ns1", "nn2")
    assert (found["dfs_nameservice_id"], found["dfs_ha_namenode_id"]) == ("ns1", "nn2")
    assert found["dfs_ha_namenodes_ns1"] == "nn1,nn2"
    assert found["dfs_namenode_rpc-address_ns1_nn1"] == f"{HERE}:1"
    assert found["ha_zookeeper_session-timeout_ms"] == "10000"
    assert found["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo no power; exit 3", "exited with code 3: no power"),
        ("false; true", "exited with code 1"),
        ("nothing-like-it", "127"),
    ],
)
def test_failing_fencing_command(command: str, reason: str) -> None:
    found = only(list(fencer(f"shell({command})").fence()))
    assert not found.worked
    assert reason in found.reason


def time_out_once(monkeypatch: pytest.MonkeyPatch, begun: Callable[[], bool]) -> None:
    """Make the time limit of a command begin only when `begun` returns true."""

    class Process(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            wait_until("the command", begun)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Process)


def test_hanging_command_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = tmp_path / "pid"
    time_out_once(monkeypatch, lambda: reported.exists() and reported.read_text().endswith("\n"))
    line = f"shell(trap '' TERM; sleep 300 & echo $! > {reported}; wait)"
    given = settings(more={"dfs.ha.fencing.methods": line, "checkpointer.zkfc.fencing.timeout": "500ms"})
    found = only(list(fencer(line, given).fence()))
    assert not found.worked
    assert "within 0.5 s" in found.reason
    child = Path(f"/proc/{reported.read_text().strip()}/stat")
    deadline = time.monotonic() + 600
    # the child is killed, but may still exist until the process that inherited it collects its exit code
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline


def test_hanging_command_with_output_is_reported_as_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    time_out_once(monkeypatch, lambda: ": wait" in caplog.text)
    line = "shell(while :; do echo wait; done)"
    given = settings(more={"dfs.ha.fencing.methods": line, "checkpointer.zkfc.fencing.timeout": "500ms"})
    found = only(list(fencer(line, given).fence()))
    assert "within 0.5 s" in found.reason
    assert "wait" in found.reason


@pytest.mark.parametrize("allowed", [False, True])
def test_command_that_cannot_be_killed_is_abandoned(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of root, or a process that waits for an unresponsive disk, cannot be killed, so the election must not
    wait for it.
    """
    left: list[int] = []

    def killpg(group: int, _: int) -> None:
        left.append(group)
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(os, "killpg", killpg)
    monkeypatch.setattr(command, "_KILLED_SECONDS", 0.1)
    line = "shell(exec sleep 300)"
    given = settings(more={"dfs.ha.fencing.methods": line, "checkpointer.zkfc.fencing.timeout": "100ms"})
    found = only(list(fencer(line, given).fence()))
    assert len(left) == 1
    os.kill(left[0], signal.SIGKILL)
    assert not found.worked
    assert "could not be killed" in found.reason


def test_methods_are_tried_in_their_order_until_one_works(tmp_path: Path) -> None:
    reported = tmp_path / "told"
    ends = {"a": "false", "b": "true", "c": "true"}
    lines = "\n".join(f"shell(echo {word} >> {reported}; {end})" for word, end in ends.items())
    assert [each.worked for each in fencer(lines).fence()] == [False, True]
    assert reported.read_text() == "a\nb\n"


# ---- ssh ---------------------------------------------------------------------------------------------------


class Ssh:
    """A fake `ssh` program that exits with a given code and records its arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._given = folder / "given"
        self._program = folder / "bin" / "ssh"
        self._program.parent.mkdir()
        monkeypatch.setenv("PATH", f"{self._program.parent}:{os.environ['PATH']}")

    def ends(self, code: int, message: str = "") -> None:
        self._program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {self._given}\necho "{message}"\nexit {code}\n')
        self._program.chmod(0o755)

    def runs(self, fuser: int) -> None:
        """Run each command on this host, except for fuser, which exits with a given code."""
        command = f'for last; do :; done; case $last in *fuser*) exit {fuser};; esac; exec sh -c "$last"'
        self._program.write_text(f"#!/bin/sh\n{command}\n")
        self._program.chmod(0o755)

    @property
    def given(self) -> list[str]:
        return self._given.read_text().splitlines()


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    return Ssh(tmp_path, monkeypatch)


def test_ssh_kills_the_process_that_listens_on_the_port(ssh: Ssh, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    more = {
        "dfs.ha.fencing.methods": "sshfence(fence:2222)",
        "dfs.ha.fencing.ssh.private-key-files": f"{key}, {key}2",
        "dfs.ha.fencing.ssh.connect-timeout": "7000",
    }
    ssh.ends(0)
    given = settings(more=more)
    assert only(list(fencer("", given).fence())).worked
    words = ssh.given
    assert words[-3:] == ["--", HERE, "PATH=$PATH:/sbin:/usr/sbin fuser -v -k -n tcp 2"]
    assert words[words.index("-l") + 1] == "fence"
    assert words[words.index("-p") + 1] == "2222"
    assert [words[at + 1] for at, word in enumerate(words) if word == "-i"] == [str(key), f"{key}2"]
    assert {"ConnectTimeout=7", "StrictHostKeyChecking=no", "BatchMode=yes"} <= set(words)
    found = only(list(fencer("", given).dry_run()))
    assert found == FencingOutcome("sshfence(fence:2222)", False, f"the key {key}2 cannot be read")


def test_ssh_finds_no_process_on_the_port(ssh: Ssh) -> None:
    ssh.ends(1)
    with socket.create_server((HERE, 0)) as listening:
        given = settings({"nn1": 1, "nn2": listening.getsockname()[1]}, more={"dfs.ha.fencing.methods": "sshfence"})
        found = only(list(fencer("", given).fence()))
        assert not found.worked
        assert "accepts connections" in found.reason
    given = settings({"nn1": 1, "nn2": free_port()}, more={"dfs.ha.fencing.methods": "sshfence"})
    assert only(list(fencer("", given).fence())).worked


def test_ssh_cannot_kill_a_process_of_another_user(ssh: Ssh, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh.runs(fuser=1)
    refused = Mock(side_effect=ConnectionRefusedError)
    monkeypatch.setattr(socket, "create_connection", refused)
    with socket.create_server((HERE, 0)) as listening:
        port = listening.getsockname()[1]
        given = settings({"nn1": 1, "nn2": port}, more={"dfs.ha.fencing.methods": "sshfence"})
        found = only(list(fencer("", given).fence()))
        assert not found.worked
        assert "another user" in found.reason
    assert only(list(fencer("", given).fence())).worked
    assert refused.call_count == 1


@pytest.mark.parametrize(
    ("code", "fenced", "tried"),
    [
        (0, True, "has fuser"),
        (255, "cannot be reached by ssh: No route", "cannot be reached by ssh: No route"),
        (127, "exited with code 127", "psmisc"),
    ],
)
def test_exit_codes_of_ssh(ssh: Ssh, code: int, fenced: bool | str, tried: str) -> None:
    ssh.ends(code, "No route")
    found = only(list(fencer("sshfence").fence()))
    assert found.worked if fenced is True else str(fenced) in found.reason and not found.worked
    dry = only(list(fencer("sshfence").dry_run()))
    assert dry.worked is (code == 0)
    assert tried in dry.reason


def test_missing_ssh_client_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(list(fencer("sshfence").fence()))
    assert "ssh: it cannot be started" in found.reason


@pytest.mark.parametrize(
    ("command", "works", "reason"),
    [
        ("touch {}", True, "not tested"),
        ("touch {}, then more", True, "Hadoop 3's controllers cannot run a command with a comma"),
        ("$HOME/off", True, "not tested"),
        ("A=1 touch {}", True, "not tested"),
        ("/no/such/program $target_host", False, "no program /no/such/program"),
        ("if true; then", False, "does not understand"),
    ],
)
def test_dry_run_checks_commands_without_running_them(command: str, works: bool, reason: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    found = only(list(fencer(f"shell({command.format(touched)})").dry_run()))
    assert found.worked is works, found
    assert reason in found.reason
    assert not touched.exists()


def test_host_names_and_addresses_as_in_java() -> None:
    assert java_host_name("nn1.Example.invalid") == "nn1.Example.invalid"
    assert java_host_name(HERE) == "localhost"
    assert java_host_name("192.0.2.1") == "192.0.2.1"
    assert java_address("localhost", 8020) == "localhost/127.0.0.1:8020"
    assert java_address("127.0.0.1", 8020) == "/127.0.0.1:8020"
    assert java_address("gone.invalid", 8020) == "gone.invalid/<unresolved>:8020"
    assert java_address("::1", 8020) == "/[::1]:8020"


def test_fencing_environment_contains_every_configuration_key() -> None:
    circle = {"my.a": "${my.b}", "my.b": "${my.a}"}
    given = settings(more={"dfs.strange-key.of.mine": "x", "with=sign": "y", "dfs.only.ns1.nn2": "z", **circle})
    found = fencing_environment(given.configuration, given.others[0])
    assert found["dfs_strange-key_of_mine"] == found["dfs_strange_key_of_mine"] == "x"
    assert found["dfs_only"] == found["dfs_only_ns1_nn2"] == "z"
    assert "with=sign" not in found
    # variables that refer to each other must not prevent fencing
    assert found["my_a"] == ""


def test_default_file_system_of_a_fencing_command_is_the_address_of_clients() -> None:
    """Hadoop's controllers derive it from dfs.namenode.rpc-address (NameNode.initializeGenericKeys)."""
    given = settings(more={"dfs.namenode.servicerpc-address.ns1.nn2": f"{HERE}:9020"})
    found = fencing_environment(given.configuration, given.others[0])
    assert (found["fs_defaultFS"], found["target_port"]) == (f"hdfs://{HERE}:2", "9020")


def test_addresses_of_a_moved_namenode_are_its_old_address(tmp_path: Path) -> None:
    """The configured addresses lead to the new host."""
    reported = tmp_path / "reported"
    methods = f"shell(echo $fs_defaultFS $target_host $dfs_namenode_rpc_address > {reported})"
    more = {"dfs.namenode.servicerpc-address.ns1.nn2": f"{HERE}:9020", "dfs.ha.fencing.methods": methods}
    given = settings(more=more)
    moved = replace(given.others[0], host="old.invalid", name="old.invalid")
    assert only(list(given.fencer(moved).fence())).worked
    assert reported.read_text() == "hdfs://old.invalid:9020 old.invalid old.invalid:9020\n"
