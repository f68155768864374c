"""Fences a NameNode: the configured methods in their order, until one has worked."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from failover.fencing.command import run_command
from failover.fencing.methods import FencingMethod, ShellFencing, SshFencing
from failover.target import Target

_LOG = logging.getLogger(__name__)

_FUSER = "PATH=$PATH:/sbin:/usr/sbin fuser -v -k -n tcp {port}"
_HAS_FUSER = "PATH=$PATH:/sbin:/usr/sbin command -v fuser"
_SSH_FAILED = 255
_NOBODY_SECONDS = 10.0
_SHELL_WORDS = frozenset("|&;<>$`*?[]{}!")


@dataclass(frozen=True, slots=True)
class SshSettings:
    """How sshfence logs in: key files, seconds to wait for a connection, and whom as by default."""

    keys: tuple[str, ...]
    connect_timeout: float
    user: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one method, or would become of it: `reason` is one sentence."""

    method: str
    worked: bool
    reason: str


class Fencer:
    """The methods for one NameNode.

    Args:
        environment: made when a command runs, for names may resolve to other addresses then.
        seconds: for each method.
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

    def fence(self) -> Iterator[Outcome]:
        """What became of each method; after the first that worked none is tried any more."""
        for method in self._methods:
            _LOG.info("%s is fenced by %s", self._target, method)
            outcome = self._by_shell(method) if isinstance(method, ShellFencing) else self._by_ssh(method)
            yield outcome
            if outcome.worked:
                return

    def dry_run(self) -> Iterator[Outcome]:
        """What each method would need now, and whether it is there; nothing is fenced."""
        for method in self._methods:
            yield self._try_shell(method) if isinstance(method, ShellFencing) else self._try_ssh(method)

    # ---- shell ---------------------------------------------------------------------------------------------

    def _by_shell(self, method: ShellFencing) -> Outcome:
        ended = run_command(
            ["bash", "-e", "-c", method.command],
            name=str(method),
            seconds=self._seconds,
            environment={**os.environ, **self._environment()},
        )
        worked = ended.code == 0
        if worked:
            return Outcome(str(method), True, "the command ended with exit code 0")
        how = "the command failed" if ended.code is None else f"the command ended with exit code {ended.code}"
        return Outcome(str(method), False, f"{how}: {ended.said}" if ended.said else how)

    def _try_shell(self, method: ShellFencing) -> Outcome:
        if shutil.which("bash") is None:
            return Outcome(str(method), False, "there is no bash on this host")
        ended = run_command(["bash", "-n", "-c", method.command], name=str(method), seconds=self._seconds)
        if ended.code != 0:
            return Outcome(str(method), False, f"bash does not understand the command: {ended.said}")
        program = _program(method.command)
        if program and self._unknown(program):
            return Outcome(str(method), False, f"bash finds no program {program}, or may not run it")
        comma = "; Hadoop 3 takes a comma for the end of a first command of two" if "," in method.command else ""
        return Outcome(str(method), True, f"bash understands the command, what it does was not tried{comma}")

    def _unknown(self, program: str) -> bool:
        return run_command(["bash", "-c", 'type "$0"', program], name=program, seconds=self._seconds).code != 0

    # ---- ssh -----------------------------------------------------------------------------------------------

    def _by_ssh(self, method: SshFencing) -> Outcome:
        ended = self._on_host(method, _FUSER.format(port=self._target.port))
        if ended[0] == 0:
            return Outcome(str(method), True, f"what listened on port {self._target.port} was killed")
        if ended[0] == 1:
            return self._nobody(method)
        return Outcome(str(method), False, self._ssh_failure(*ended))

    def _nobody(self, method: SshFencing) -> Outcome:
        """No process there has the port: fenced, if so it looks from here too."""
        here = f"fuser found nobody on port {self._target.port}"
        try:
            with socket.create_connection((self._target.host, self._target.port), _NOBODY_SECONDS):
                return Outcome(str(method), False, f"{here}, yet somebody takes connections to it")
        except ConnectionRefusedError:
            return Outcome(str(method), True, f"{here}, and nobody takes connections to it")
        except OSError as fault:
            return Outcome(
                str(method), False, f"{here}, but whether somebody listens cannot be told from here: {fault}"
            )

    def _try_ssh(self, method: SshFencing) -> Outcome:
        unreadable = [name for name in self._ssh.keys if not os.access(name, os.R_OK)]
        if unreadable:
            return Outcome(str(method), False, f"the key {unreadable[0]} cannot be read")
        ended = self._on_host(method, _HAS_FUSER)
        if ended[0] == 0:
            return Outcome(str(method), True, f"{self._target.name} lets us in, and has fuser")
        if ended[0] not in (None, _SSH_FAILED):
            return Outcome(str(method), False, f"{self._target.name} has no fuser; it is in the package psmisc")
        return Outcome(str(method), False, self._ssh_failure(*ended))

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
        return ended.code, ended.said

    def _ssh_failure(self, code: int | None, said: str) -> str:
        if code is None:
            return f"ssh: {said}"
        if code == _SSH_FAILED:
            return f"{self._target.name} cannot be reached by ssh: {said}"
        return f"fuser ended with exit code {code}: {said}"


def _program(command: str) -> str:
    """What a command begins with, "" where that cannot be told without running it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    first = words[0] if words else ""
    return "" if "=" in first or _SHELL_WORDS & set(first) else first
