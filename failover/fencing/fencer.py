"""Fences a NameNode: tries the configured methods in order until one works."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from failover.fencing.command import run_command
from failover.fencing.method_lines import FencingMethod, ShellFencing, SshFencing
from failover.target import Target

_LOG = logging.getLogger(__name__)

_FUSER = "PATH=$PATH:/sbin:/usr/sbin fuser -v -k -n tcp {port}"
_LISTENS = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ':{port:04X} [0-9A-F]*:[0-9A-F]* 0A '"
"""Command that exits with 0 if a process listens on the port, even if fuser cannot see this process, because it belongs
to another user (proc_net_tcp).
"""
_HAS_FUSER = "PATH=$PATH:/sbin:/usr/sbin command -v fuser"
_SSH_FAILED = 255
_CLOSED_SECONDS = 10.0
_SHELL_WORDS = frozenset("|&;<>$`*?[]{}!")


@dataclass(frozen=True, slots=True)
class SshSettings:
    """Settings of sshfence: key files, seconds to wait for a connection, and the default user."""

    keys: tuple[str, ...]
    connect_timeout: float
    user: str


@dataclass(frozen=True, slots=True)
class FencingOutcome:
    """The result of one method, or of its dry run; `reason` is one sentence."""

    method: str
    worked: bool
    reason: str


class Fencer:
    """The fencing methods of one NameNode.

    Args:
        environment: called for each command, because the addresses of host names may change.
        seconds: time limit of each method.
    """

    def __init__(
        self,
        target: Target,
        methods: Sequence[FencingMethod],
        *,
        environment: Callable[[], Mapping[str, str]],
        ssh: SshSettings,
        seconds: float,
    ) -> None:
        self._target = target
        self._methods = methods
        self._environment = environment
        self._ssh = ssh
        self._seconds = seconds

    def fence(self) -> Iterator[FencingOutcome]:
        """Try the methods until one works, and yield the outcome of each method."""
        for method in self._methods:
            _LOG.info("fencing %s with %s", self._target, method)
            outcome = self._by_shell(method) if isinstance(method, ShellFencing) else self._by_ssh(method)
            yield outcome
            if outcome.worked:
                return

    def dry_run(self) -> Iterator[FencingOutcome]:
        """Check the requirements of each method without fencing, and yield the outcome of each method."""
        for method in self._methods:
            yield self._try_shell(method) if isinstance(method, ShellFencing) else self._try_ssh(method)

    # ---- shell ---------------------------------------------------------------------------------------------

    def _by_shell(self, method: ShellFencing) -> FencingOutcome:
        ended = run_command(
            ["bash", "-e", "-c", method.command],
            name=str(method),
            seconds=self._seconds,
            environment={**os.environ, **self._environment()},
        )
        worked = ended.code == 0
        if worked:
            return FencingOutcome(str(method), True, "the command exited with code 0")
        how = "the command failed" if ended.code is None else f"the command exited with code {ended.code}"
        return FencingOutcome(str(method), False, f"{how}: {ended.reason}" if ended.reason else how)

    def _try_shell(self, method: ShellFencing) -> FencingOutcome:
        if shutil.which("bash") is None:
            return FencingOutcome(str(method), False, "bash is missing on this host")
        ended = run_command(["bash", "-n", "-c", method.command], name=str(method), seconds=self._seconds)
        if ended.code != 0:
            return FencingOutcome(str(method), False, f"bash does not understand the command: {ended.reason}")
        program = _program(method.command)
        if program and self._unknown(program):
            return FencingOutcome(
                str(method), False, f"bash cannot find the program {program}, or is not permitted to run it"
            )
        comma = "; Hadoop 3's controllers cannot run a command with a comma" if "," in method.command else ""
        return FencingOutcome(str(method), True, f"bash understands the command, but its effect was not tested{comma}")

    def _unknown(self, program: str) -> bool:
        return run_command(["bash", "-c", 'type "$0"', program], name=program, seconds=self._seconds).code != 0

    # ---- ssh -----------------------------------------------------------------------------------------------

    def _by_ssh(self, method: SshFencing) -> FencingOutcome:
        ended = self._on_host(method, _FUSER.format(port=self._target.port))
        if ended[0] == 0:
            return FencingOutcome(str(method), True, f"the process on port {self._target.port} was killed")
        if ended[0] == 1:
            return self._confirm_closed(method)
        return FencingOutcome(str(method), False, self._ssh_failure(*ended))

    def _confirm_closed(self, method: SshFencing) -> FencingOutcome:
        """Return the outcome if fuser found no process: fenced if nothing listens, and connections are refused."""
        found = f"fuser found no process on port {self._target.port}"
        code, reason = self._on_host(method, _LISTENS.format(port=self._target.port))
        if code == 0:
            reason = f"{found}, but a process of another user listens on the port"
            return FencingOutcome(str(method), False, reason)
        if code != 1:
            return FencingOutcome(str(method), False, f"{found}, but the port cannot be checked on its host: {reason}")
        try:
            with socket.create_connection((self._target.host, self._target.port), _CLOSED_SECONDS):
                return FencingOutcome(str(method), False, f"{found}, but the port accepts connections")
        except ConnectionRefusedError:
            return FencingOutcome(str(method), True, f"{found}, and the port refuses connections")
        except OSError as fault:
            return FencingOutcome(str(method), False, f"{found}, but this host cannot check the port: {fault}")

    def _try_ssh(self, method: SshFencing) -> FencingOutcome:
        unreadable = [name for name in self._ssh.keys if not os.access(name, os.R_OK)]
        if unreadable:
            return FencingOutcome(str(method), False, f"the key {unreadable[0]} cannot be read")
        ended = self._on_host(method, _HAS_FUSER)
        if ended[0] == 0:
            return FencingOutcome(str(method), True, f"{self._target.name} accepts our login, and has fuser")
        if ended[0] not in (None, _SSH_FAILED):
            return FencingOutcome(
                str(method), False, f"{self._target.name} does not have fuser, which is in the psmisc package"
            )
        return FencingOutcome(str(method), False, self._ssh_failure(*ended))

    def _on_host(self, method: SshFencing, command: str) -> tuple[int | None, str]:
        words = ["ssh", "-n", "-T"]
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "GlobalKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": str(max(1, round(self._ssh.connect_timeout))),
        }
        if self._ssh.keys:
            options["IdentitiesOnly"] = "yes"
        for name, value in options.items():
            words += ["-o", f"{name}={value}"]
        for key in self._ssh.keys:
            words += ["-i", key]
        words += ["-p", str(method.port), "-l", method.user or self._ssh.user, "--", self._target.host, command]
        ended = run_command(words, name=str(method), seconds=self._seconds)
        return ended.code, ended.reason

    def _ssh_failure(self, code: int | None, reason: str) -> str:
        if code is None:
            return f"ssh: {reason}"
        if code == _SSH_FAILED:
            return f"{self._target.name} cannot be reached by ssh: {reason}"
        return f"fuser exited with code {code}: {reason}"


def _program(command: str) -> str:
    """Return the program that a command runs; "" if only bash can determine it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    first = words[0] if words else ""
    return "" if "=" in first or _SHELL_WORDS & set(first) else first
