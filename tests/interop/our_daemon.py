"""Our daemon as a process, configured by Hadoop's files alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hadoop_common.exit_codes import ExitCode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import CommandResult, wait_until
from tests.interop.our_commands import CHECKOUT
from tests.interop.our_process import STOP_SECONDS, OurProcess, status_of

# settings of NameNodes that keep one image, and of a standby that follows them closely
STANDBY_SETTINGS = {
    "dfs.namenode.num.extra.edits.retained": "0",
    "dfs.namenode.num.checkpoints.retained": "1",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.ha.tail-edits.period": "1",
    "dfs.ha.log-roll.period": "1",
}


class OurDaemon(OurProcess):
    """`checkpointer run` in one role; a context manager that starts it, waits until it serves, and stops it.

    Args:
        http_key: key of the address of its web server.

    Attributes:
        program: the command that runs the checkpointer, from the next start or command on.
    """

    program: Sequence[str] = CHECKOUT

    def __init__(self, conf: HadoopConf, role: str, http_key: str) -> None:
        super().__init__(f"the daemon of {conf.folder}", conf.root / f"checkpointer-{role}.log")
        self.conf = conf
        self.role = role
        self.url = conf.web_url(http_key)

    @classmethod
    def secondary(cls, conf: HadoopConf) -> Self:
        return cls(conf, "secondary", "dfs.namenode.secondary.http-address")

    @classmethod
    def standby(cls, conf: HadoopConf, http_key: str) -> Self:
        return cls(conf, "standby", http_key)

    @classmethod
    def backup(cls, conf: HadoopConf) -> Self:
        return cls(conf, "backup", "dfs.namenode.backup.http-address")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the daemon and wait until its HTTP server answers."""
        self.spawn(self._command("run", "--role", self.role))
        self.await_ready(self.status)
        return self

    def refuse_to_start(self) -> str:
        """Start the daemon, which must fail, and return its output.

        Raises:
            AssertionError: the daemon runs, or exits with code 0.
        """
        done = subprocess.run(
            self._command("run", "--role", self.role), capture_output=True, timeout=STOP_SECONDS, check=False
        )
        assert done.returncode == ExitCode.STORAGE, done
        return done.stderr.decode("utf-8", "replace")

    def checkpoint(self) -> dict[str, Any]:
        """Run `checkpointer checkpoint --force` with the daemon's configuration and return its output.

        A standby has nothing to save before it has read the end of a segment, so this method repeats the command until
        then.
        """
        message: dict[str, Any] = {}

        def made() -> bool:
            message.update(json.loads(self.ask_for_checkpoint().checked().out))
            return self.role != "standby" or message["state"] != "skipped"

        wait_until(made, "a checkpoint of the tailed edits")
        return message

    def ask_for_checkpoint(self) -> CommandResult:
        """Run `checkpointer checkpoint --force`, which may fail; errors include the end of the daemon's log."""
        done = subprocess.run(self._command("checkpoint", "--force", "--json"), capture_output=True, check=False)
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return CommandResult("checkpoint --force", done.returncode, out, err + self.log.read_text()[-3000:])

    def save_aside(self) -> Path:
        """Run `checkpointer checkpoint --save-aside`; return the new image."""
        done = subprocess.run(self._command("checkpoint", "--save-aside", "--json"), capture_output=True, check=True)
        return Path(json.loads(done.stdout)["paths"][0])

    def check(self, name: str) -> CommandResult:
        """Run `checkpointer check --only NAME` for this daemon; its exit codes are the codes of a Nagios plugin."""
        command = self._command("check", "--role", self.role, "--only", name)
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        return CommandResult(f"check --only {name}", done.returncode, done.stdout, done.stderr)

    def status(self) -> dict[str, Any]:
        return status_of(self.url)

    def _command(self, name: str, *options: str | Path) -> list[str]:
        words = [*self.program, name, "--conf", self.conf.folder, *options]
        return list(map(str, words))
