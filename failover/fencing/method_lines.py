"""The lines of dfs.ha.fencing.methods (NodeFencer)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"#.*$")
_LINE = re.compile(r"(?P<name>[A-Za-z0-9.$_]+)(?:\((?P<arguments>.*)\))?")
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
    """Method that kills the process on the NameNode's port over ssh; the `user` "" means the controller's user."""

    user: str = ""
    port: int = 22

    def __str__(self) -> str:
        return f"sshfence({self.user}{'' if self.port == 22 else f':{self.port}'})"


FencingMethod = ShellFencing | SshFencing


def parse_methods(text: str) -> tuple[FencingMethod, ...]:
    """Parse the methods in their order; an empty text contains no methods, so fencing is impossible.

    Raises:
        ValueError: a line is not a method, or names a method that is not supported.
    """
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return tuple(_method(line) for line in lines if line)


def _method(line: str) -> FencingMethod:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"has the line {line!r}, which is not a method: expected NAME or NAME(ARGUMENTS)")
    name, arguments = found["name"], (found["arguments"] or "").strip()
    if name in _SHELL:
        if not arguments:
            raise ValueError("has shell without a command: expected shell(COMMAND)")
        return ShellFencing(arguments)
    if name in _SSH:
        parsed = _SSH_ARGUMENTS.fullmatch(arguments)
        if parsed is None or not 0 < int(parsed["port"] or 22) < 1 << 16:
            raise ValueError(f"has sshfence({arguments}): expected sshfence([USER][:PORT])")
        return SshFencing(parsed["user"] or "", int(parsed["port"] or 22))
    if name == "powershell":
        raise ValueError("has powershell, which is for Windows: use shell(COMMAND)")
    raise ValueError(f"has {name}, a Java class, which cannot be loaded: use shell(COMMAND) or sshfence")
