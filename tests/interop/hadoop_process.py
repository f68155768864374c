"""A JVM that runs a Hadoop main class: start, wait, stop and kill."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import java_program, java_version

START_SECONDS = 600.0
STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_LOGGED = 6000
_OPENS = ("java.base/java.lang", "java.base/java.util", "java.base/java.nio", "java.base/sun.nio.ch")
_KERBEROS = "java.security.jgss/sun.security.krb5=ALL-UNNAMED"
# other tests check the certificates of servers
OPENER = build_opener(ProxyHandler({}), HTTPSHandler(context=ssl._create_unverified_context()))


class HadoopDiedError(Exception):
    """The early end or the late start of a process; the message contains the end of its log."""


class CommandResult:
    """The exit code and the output of a command."""

    def __init__(self, command: str, code: int, out: str, err: str) -> None:
        self.command = command
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"{self.command}: exit code {self.code}\n{self.out}{self.err}"

    def checked(self) -> CommandResult:
        """Return this result.

        Raises:
            AssertionError: the exit code is not 0.
        """
        assert self.code == 0, repr(self)
        return self


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Poll `condition` until it is true.

    Raises:
        AssertionError: the condition was not true within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(_POLL_SECONDS)


def beans(base_url: str, query: str, timeout: float = START_SECONDS) -> list[dict[str, Any]]:
    """Return the beans of a Hadoop process's /jmx for a query such as `Hadoop:service=NameNode,name=*`.

    Raises:
        OSError: the process does not answer.
    """
    with OPENER.open(f"{base_url}/jmx?{urlencode({'qry': query})}", timeout=timeout) as answer:
        found: list[dict[str, Any]] = json.load(answer)["beans"]
    return found


def java_command(
    class_path: str, main_class: str, *arguments: str, heap: str = "256m", work: Path, archive: Path | None = None
) -> list[str]:
    """Return the command of a small JVM that is optimized for a fast start rather than for long runs.

    Args:
        archive: archive of classes; the JVM ignores a missing archive and an archive of another Java.
    """
    flags = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"]
    flags += ["-Dfile.encoding=UTF-8", f"-Dhadoop.log.dir={work}", f"-Djava.io.tmpdir={work}"]
    java = java_program("java")
    if archive is not None and archive.exists():
        # without this flag, a JVM that ignores the archive reports this on standard output
        flags += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    if has_modules(java):
        for package in _OPENS:
            flags += ["--add-opens", f"{package}=ALL-UNNAMED"]
        flags += ["--add-opens", _KERBEROS, "--add-exports", _KERBEROS]
    return [str(java), *flags, "-cp", class_path, main_class, *arguments]


class JvmPipe:
    """A JVM that answers each line with one line.

    Args:
        log: file to which its standard error is appended.
    """

    def __init__(self, command: list[str], log: Path, *, encoding: str = "utf-8") -> None:
        pipe = subprocess.PIPE
        with log.open("ab") as file:
            self._jvm = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=file, encoding=encoding, cwd=log.parent
            )

    def ask(self, line: str) -> str:
        """Return the response, which is empty if the JVM has ended."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(line + "\n")
        self._jvm.stdin.flush()
        return self._jvm.stdout.readline().rstrip("\n")

    def close(self) -> None:
        """End the JVM."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        self._jvm.wait()
        self._jvm.stdout.close()


class HadoopProcess:
    """A Hadoop server; its log is `root/NAME.log` and grows across restarts.

    Args:
        name: name of the log file.
        main_class: Java class to run.
        conf: its folder is on the class path; its release is the server's.
        ready: returns whether the server serves requests; polled until it returns true, where an OSError counts as
            false.
    """

    def __init__(
        self, name: str, main_class: str, conf: HadoopConf, ready: Callable[[], bool], *, heap: str = "256m"
    ) -> None:
        self.name = name
        self.log = conf.root / f"{name}.log"
        self._conf = conf
        self._main_class = main_class
        self._ready = ready
        self._heap = heap
        self._jvm: subprocess.Popen[bytes] | None = None
        # whether `stop` or `kill` ended the process, or is ending it
        self._ended = False

    @property
    def running(self) -> bool:
        return self._jvm is not None and self._jvm.poll() is None

    @property
    def crashed(self) -> bool:
        """Whether the process ended without `stop` and `kill`."""
        return self._jvm is not None and not self.running and not self._ended

    @property
    def pid(self) -> int:
        assert self._jvm is not None, f"{self.name} was never started"
        return self._jvm.pid

    def start(self, *arguments: str, seconds: float = START_SECONDS) -> None:
        """Start the JVM and wait until the server is ready.

        Raises:
            HadoopDiedError: the server ended, or was killed because it was not ready in time.
        """
        self.launch(*arguments)
        deadline = time.monotonic() + seconds
        while not self._is_ready():
            if not self.running:
                raise HadoopDiedError(f"{self.name} exited with code {self.exit_code()}{self._end_of_log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise HadoopDiedError(f"{self.name} was not ready within {seconds:g} s{self._end_of_log()}")
            time.sleep(_POLL_SECONDS)

    def launch(self, *arguments: str) -> None:
        """Start the JVM without waiting."""
        assert not self.running, f"{self.name} runs already"
        release = self._conf.release
        path = release.class_path(self._conf.folder)
        work = self._conf.root / "work"
        work.mkdir(exist_ok=True)
        archive = release.class_archive()
        command = java_command(path, self._main_class, *arguments, heap=self._heap, work=work, archive=archive)
        with self.log.open("ab") as log:
            self._jvm = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work)
        self._ended = False

    def exit_code(self, seconds: float = START_SECONDS) -> int:
        """Wait for the end of the process and return its exit code; a negative code is a signal."""
        assert self._jvm is not None, f"{self.name} was never started"
        return self._jvm.wait(seconds)

    def stop(self) -> None:
        """Stop the process with SIGTERM, then SIGKILL; do nothing if it is not running."""
        if self._jvm is not None:
            self._ended = self._ended or self.running
            self._jvm.terminate()
            try:
                self._jvm.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that it cannot clean up; data in the page cache survives."""
        if self._jvm is not None:
            self._ended = self._ended or self.running
            self._jvm.kill()
            self._jvm.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        assert self._jvm is not None, f"{self.name} was never started"
        self._jvm.send_signal(number)

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def _is_ready(self) -> bool:
        try:
            return self._ready()
        except (OSError, ValueError):
            return False

    def _end_of_log(self) -> str:
        return f"; the end of {self.log}:\n{self.log_text()[-_LOGGED:]}"


def run_once(
    main_class: str, *arguments: str, conf: HadoopConf, typed: str = "", seconds: float = START_SECONDS
) -> CommandResult:
    """Run a main class to its end in a separate JVM, with `typed` as standard input.

    Raises:
        HadoopDiedError: the program did not end within `seconds` and was killed.
    """
    path = conf.release.class_path(conf.folder)
    work = conf.root / "work"
    work.mkdir(parents=True, exist_ok=True)
    command = java_command(path, main_class, *arguments, work=work, archive=conf.release.class_archive())
    shown = " ".join([main_class.rpartition(".")[2], *arguments])
    try:
        done = subprocess.run(
            command, cwd=work, input=typed.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        expected_message = (late.stderr or b"").decode("utf-8", "replace")[-_LOGGED:]
        raise HadoopDiedError(f"{shown} did not end within {seconds:g} s:\n{expected_message}") from late
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return CommandResult(shown, done.returncode, out, err)


def port_is_open(address: tuple[str, int]) -> bool:
    """Return whether a process listens at the address."""
    with socket.socket() as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(address) == 0


def has_modules(java: Path) -> bool:
    """Return whether Java is version 9 or newer, whose packages must be opened to Hadoop."""
    return re.search(r'version "1\.', java_version(java)) is None
