"""The part of systemctl that docs/install.md needs, for units below a test's directory: `systemctl.py ROOT WORDS`.

Paths in a unit are relative to ROOT; users, sandboxing and boot are ignored. The program waits for the sd_notify
messages of a service.
"""

from __future__ import annotations

import configparser
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

SECONDS = 300.0


class Service:
    """A unit of ROOT/etc/systemd/system, with its instance name."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        stem, at, instance = name.removesuffix(".service").partition("@")
        # optionxform: names keep their case; strict: some names occur twice
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        file = name if name.endswith(".timer") else f"{stem}{at}.service"
        unit.read_string((root / "etc/systemd/system" / file).read_text().replace("%i", instance))
        # the tests only enable and disable timers
        self.settings = dict(unit["Service"]) if unit.has_section("Service") else {}
        self.pid_file = root / "run" / f"{name}.pid"

    def start(self) -> None:
        """Run ExecStart until it reports READY."""
        for key, above in (("StateDirectory", "var/lib"), ("CacheDirectory", "var/cache")):
            for name in self.settings.get(key, "").split():
                (self.root / above / name).mkdir(parents=True, exist_ok=True)
        self.pid_file.parent.mkdir(exist_ok=True)
        # not below ROOT: the path of a socket must be short
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reported:
            reported.bind("\0" + f"notify-{os.getpid()}")
            reported.settimeout(SECONDS)
            environment = self._environment() | {"NOTIFY_SOCKET": f"@notify-{os.getpid()}"}
            with (self.root / "run" / f"{self.name}.log").open("ab") as log:
                running = subprocess.Popen(
                    self._command(self.settings["ExecStart"]),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            self.pid_file.write_text(str(running.pid))
            while b"READY=1" not in reported.recv(4096).split(b"\n"):
                pass

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; do nothing if the unit is not running."""
        if not self.pid_file.exists():
            return
        pid = int(self.pid_file.read_text())
        watched = os.pidfd_open(pid)
        signal.pidfd_send_signal(watched, signal.SIGTERM)
        if not select.select([watched], [], [], SECONDS)[0]:
            raise TimeoutError(f"{self.name} does not stop")
        self.pid_file.unlink()

    def _command(self, line: str) -> list[str]:
        return [self._below(word) for word in shlex.split(line)]

    def _below(self, word: str) -> str:
        return re.sub(r"^(?=/(opt|etc|var)/)", str(self.root), word)

    def _environment(self) -> dict[str, str]:
        pairs = (pair.split("=", 1) for pair in shlex.split(self.settings.get("Environment", "")))
        return {"PATH": os.environ["PATH"]} | {key: self._below(value) for key, value in pairs}


def main(root: Path, words: list[str]) -> None:
    """Run one command."""
    verb, *rest = words
    units = [Service(root, word) for word in rest if not word.startswith("-")]
    if verb not in ("daemon-reload", "enable", "disable", "restart"):
        sys.exit(f"systemctl {verb} is not known here")
    for unit in units:
        if verb in ("disable", "restart"):
            unit.stop()
        if verb in ("enable", "restart"):
            unit.start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
