"""The lines of dfs.ha.fencing.methods (NodeFencer)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"#.*$")
_LINE = re.compile(r"(?P<name>[A-Za-z0-9.$_]+)(?:\((?P<arguments>[^)]*)\)(?P<rest>.*))?")
_SSH_ARGUMENTS = re.compile(r"(?P<user>[^:]+)?(?::(?P<port>\d+))?")
_SHELL = ("shell", "org.apache.hadoop.ha.ShellCommandFencer")
_SSH = ("sshfence", "org.apache.hadoop.ha.SshFenceByTcpPort")


@dataclass(frozen=True, slots=True)
class ShellFencing:
    """A command for bash; exit code 0 means fenced."""

    command: str

    def __str__(self) -> str:
        return f"shell({self.command})"


@dataclass(frozen=True, slots=True)
class SshFencing:
    """Kills by ssh whatever listens on the NameNode's port; `user` "" is the controller's own."""

    user: str = ""
    port: int = 22

    def __str__(self) -> str:
        return f"sshfence({self.user}{'' if self.port == 22 else f':{self.port}'})"


FencingMethod = ShellFencing | SshFencing


def parse_methods(text: str) -> tuple[FencingMethod, ...]:
    """The methods in their order; none of an empty text, with which nothing can ever be fenced.

    Raises:
        ValueError: a line is no method, or one that cannot be used here.
    """
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return tuple(_method(line) for line in lines if line)


def _method(line: str) -> FencingMethod:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"has the line {line!r}, which is no method: expected NAME or NAME(ARGUMENTS)")
    name, arguments = found["name"], (found["arguments"] or "").strip()
    if (found["rest"] or "").strip():
        raise ValueError(f"has the line {line!r}, of which Hadoop takes all up to the first ')'; put it into a script")
    if name in _SHELL:
        if not arguments:
            raise ValueError("has shell without a command: expected shell(COMMAND)")
        return ShellFencing(arguments)
    if name in _SSH:
        told = _SSH_ARGUMENTS.fullmatch(arguments)
        if told is None or not 0 < int(told["port"] or 22) < 1 << 16:
            raise ValueError(f"has sshfence({arguments}): expected sshfence([USER][:PORT])")
        return SshFencing(told["user"] or "", int(told["port"] or 22))
    if name == "powershell":
        raise ValueError("has powershell, which is for Windows: use shell(COMMAND)")
    raise ValueError(f"has {name}, a Java class, and those are not loaded: use shell(COMMAND) or sshfence")
