"""The stub as a NameNode in a process, configured by Hadoop's files alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from http.client import IncompleteRead
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request

from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import OPENER, CommandResult
from tests.interop.our_process import OurProcess, status_of


class OurNameNode(OurProcess):
    """`namenode-stub run`; as a context manager, it is killed at the end if it is still running.

    Args:
        conf: configuration in which this NameNode has an id, or is the only NameNode.
    """

    def __init__(self, conf: HadoopConf) -> None:
        super().__init__(f"the stub of {conf.folder}", conf.root / "namenode-stub.log")
        self.conf = conf
        self.current = conf.name_dir / "current"
        self.url = conf.web_url("dfs.namenode.http-address")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.resume()
            self.kill()

    # ---- the process ---------------------------------------------------------------------------------------

    def launch(self, *options: str) -> None:
        """Start the process, with or without `--standby`."""
        self.spawn(self._command("run", *options))

    def start(self, *options: str) -> Self:
        """Start the NameNode and wait until it answers."""
        self.launch(*options)
        self.await_ready(self.status)
        return self

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def command(self, name: str, *options: str) -> CommandResult:
        """Run another command of `namenode-stub` with this configuration."""
        done = subprocess.run(self._command(name, *options), capture_output=True, text=True, check=False)
        log = self.log.read_text()[-3000:] if self.log.exists() else ""
        return CommandResult(name, done.returncode, done.stdout, done.stderr + log)

    # ---- its responses and actions --------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        return status_of(self.url)

    def call(self, operation: str, **arguments: Any) -> tuple[int, Any]:
        """Call POST /namespace/OPERATION; return the status, and the result or the reason of a refusal.

        Raises:
            OSError: the response is incomplete.
        """
        url, body = f"{self.url}/namespace/{operation}", json.dumps(arguments).encode()
        request = Request(url, body, {"Content-Type": "application/json"}, method="POST")
        try:
            with OPENER.open(request, timeout=600) as answer:
                return answer.status, json.load(answer)["result"]
        except HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)["error"]
        except IncompleteRead as cut:
            # the stub was killed after the headers
            raise ConnectionResetError(f"the response is truncated: {cut}") from cut

    def mkdirs(self, path: str) -> bool:
        """Return whether the operation was acknowledged."""
        return self.call("mkdirs", path=path)[0] == 200

    def paths(self) -> set[str]:
        """Return the whole namespace."""
        with OPENER.open(f"{self.url}/namespace/tree", timeout=600) as answer:
            return {json.loads(line)["path"] for line in answer}

    def _command(self, name: str, *options: str | Path) -> list[str]:
        words = [sys.executable, "-m", "namenode_stub", name, "--conf", self.conf.folder, *options]
        return list(map(str, words))
