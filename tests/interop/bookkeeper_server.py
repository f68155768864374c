"""BookKeeper's current servers and client: bookies as processes on loopback, and our Java program over the client."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from namenode_stub.ports import free_port
from tests.interop.hadoop_home import NEWEST, HadoopRelease
from tests.interop.hadoop_jars import JarSet, Maven, listed_jars
from tests.interop.hadoop_process import CommandResult, java_command
from tests.interop.our_process import OurProcess

_VERSION = "4.17.3"
_NAME = f"bookkeeper-{_VERSION}"
_ANSWER = "= "
BOOKKEEPER = HadoopRelease(
    _VERSION,
    _NAME,
    JarSet(
        f"BookKeeper {_VERSION}",
        NEWEST.home.parent / _NAME / "jars",
        listed_jars(f"jars-{_NAME}"),
        Maven((f"org.apache.bookkeeper:bookkeeper-server:{_VERSION}",), "93 MB"),
    ),
    ("bookkeeper/BookKeeperClient.java",),
    0,
    "",
)
"""Jars and program, stored as the jars of a Hadoop release are; the fields about NameNodes are unused."""


def bookkeeper_ready() -> HadoopRelease:
    """Fetch and compile BookKeeper.

    Raises:
        MissingHadoopError: BookKeeper cannot be fetched or compiled.
    """
    BOOKKEEPER.jars.ensure()
    BOOKKEEPER.compile_tools()
    return BOOKKEEPER


class JavaClient:
    """BookKeeper's client on the ledgers below `/ledgers` of a ZooKeeper at `hosts`."""

    def __init__(self, hosts: str, work: Path) -> None:
        self._uri = _uri(hosts)
        self._work = work

    def write(self, count: int, *, close: bool = True) -> int:
        """Write `entry 0`, `entry 1` …; return the ledger's id."""
        return int(self._run("write" if close else "leave", str(count))[0])

    def read(self, ledger_id: int) -> list[str]:
        """Return the entries as text; reading an open ledger fences its writer."""
        return self._run("read", str(ledger_id))

    def _run(self, *arguments: str) -> list[str]:
        """Return the program's response; BookKeeper also logs to standard output."""
        command = [arguments[0], self._uri, *arguments[1:]]
        java = _java(self._work, "BookKeeperClient", *command)
        done = subprocess.run(java, capture_output=True, text=True, timeout=300, check=False)
        message = CommandResult(" ".join(command), done.returncode, done.stdout, done.stderr).checked().out
        return [line.removeprefix(_ANSWER) for line in message.splitlines() if line.startswith(_ANSWER)]


class BookieProcess(OurProcess):
    """A bookie on loopback, whose ledgers are below `/ledgers` of a ZooKeeper; a context manager that kills it.

    Args:
        command: command that starts the bookie.
        port: port on which the bookie listens.
    """

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        super().__init__(f"the bookie of {log}", log)
        self.port = port
        self._command = command

    def __enter__(self) -> Self:
        self.spawn(self._command)
        self.await_ready(self._serves)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def _serves(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 5):
            return True


def our_bookie(hosts: str, root: Path) -> BookieProcess:
    """Start our bookie in the new folder `root`."""
    root.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "checkpointer", "bookie", "run", "--dir", str(root / "bookie")]
    command += ["--zookeeper", hosts, "--host", "127.0.0.1", "--port", str(port), "--reserve", "0"]
    return BookieProcess(command, port, root / "bookie.log")


def java_bookie(hosts: str, root: Path) -> BookieProcess:
    """Start BookKeeper's bookie in the new folder `root`."""
    for folder in ("journal", "ledgers"):
        (root / folder).mkdir(parents=True)
    port = free_port()
    settings = {
        "bookiePort": port,
        "listeningInterface": "lo",
        "allowLoopback": "true",
        "advertisedAddress": "127.0.0.1",
        "metadataServiceUri": _uri(hosts),
        "journalDirectory": root / "journal",
        "ledgerDirectories": root / "ledgers",
        "diskUsageThreshold": "0.99",
        "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
    }
    conf = root / "bookie.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = "org.apache.bookkeeper.server.Main"
    return BookieProcess(_java(root, main, "--conf", str(conf)), port, root / "bookie.log")


def format_ledgers_as_java(hosts: str, root: Path) -> None:
    """Make the root of the ledgers with BookKeeper's shell; `root` is a folder for the shell's files."""
    root.mkdir()
    conf = root / "shell.conf"
    conf.write_text(f"metadataServiceUri=zk+hierarchical://{hosts}/ledgers\n")
    command = ("-conf", str(conf), "metaformat", "-nonInteractive", "-force")
    done = subprocess.run(
        _java(root, "org.apache.bookkeeper.bookie.BookieShell", *command),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    CommandResult("metaformat", done.returncode, done.stdout, done.stderr).checked()


def _uri(hosts: str) -> str:
    # `null` selects the layout of the existing root
    return f"zk+null://{hosts}/ledgers"


def _java(work: Path, main_class: str, *arguments: str) -> list[str]:
    return java_command(BOOKKEEPER.class_path(), main_class, *arguments, work=work)
