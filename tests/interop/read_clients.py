"""Clients of several makers that read one NameNode: Hadoop's shells, hdfs-native (Rust), and colinmarc/hdfs (Go)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.clients import ClientJvm
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER, release_of, skip_without

Answer = tuple[int, str, str]
Ask = Callable[[str, str, Sequence[str]], Answer]
"""Function that runs a command as a user on the NameNode at an address; returns exit code, output and errors."""

_SHELL = """
-ls -R {0}
-ls -R {0}/t0/.snapshot/last
-count -q {0} {0}/t0
-du {0}
-du -s {0}
-find {0} -name *1*
-stat %n:%b:%r:%u:%g:%F {0}
-test -d {0}
-getfacl -R {0}
"""
_SUMMED = "{0} {0}/t0/.snapshot/last" if SERVER.is_3 else "{0}"
"""Directories for which clients request sums; our standby refuses sums in a snapshot of Hadoop 2."""
_SHELL += f"-count {_SUMMED}\n"
_SHELL_3 = f"{_SHELL}-ls -R -e {{0}}\n-count -e {{0}}" if SERVER.is_3 else _SHELL
"""Commands of Hadoop 3 clients; a Hadoop 2.7 NameNode does not report erasure coding policies."""
_NATIVE = """
import sys
from hdfs_native import Client

client, path, snapshot = Client(sys.argv[1]), sys.argv[2], sys.argv[3]
for call, asked in (
    (client.get_file_info, path),
    (client.get_content_summary, path),
    (client.get_acl_status, path),
    (lambda each: list(client.list_status(each, recursive=True)), path),
    (lambda each: list(client.list_status(each, recursive=True)), snapshot),
):
    try:
        print(repr(call(asked)))
    except Exception as error:
        # without the stack of a Java server
        print(str(error).partition(r"\\n\\tat ")[0].removesuffix('")'))
"""


def _shell(version: str) -> Callable[[ExitStack, Path], Ask]:
    def start(stack: ExitStack, folder: Path) -> Ask:
        release = release_of(version)
        skip_without(release)
        jvm = stack.enter_context(ClientJvm(folder, release))

        def ask(address: str, user: str, words: Sequence[str]) -> Answer:
            conf = HadoopConf(
                folder / address.replace(":", "-"), {"fs.defaultFS": f"hdfs://{address}"}, release=release
            )
            result = jvm.of(conf).as_user(user).shell(*words)
            return result.code, result.out, result.err

        return ask

    return start


def _native(stack: ExitStack, folder: Path) -> Ask:
    if importlib.util.find_spec("hdfs_native") is None:
        pytest.skip("the package hdfs-native is not installed")
    return lambda address, user, words: _run(user, sys.executable, "-c", _NATIVE, f"hdfs://{address}", *words)


def go_client(folder: Path) -> Ask:
    """Build `go/reads.go`; skip the test if that fails."""
    program, go = str(folder / "reads"), shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("Go is not installed")
    sources = Path(__file__).with_name("go")
    built = subprocess.run([go, "build", "-o", program, "."], cwd=sources, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the Go client cannot be built: {built.stderr[-200:]}")
    return lambda address, user, words: _run(user, program, address, *words)


def _run(user: str, *command: str) -> Answer:
    environment = {**os.environ, "HADOOP_USER_NAME": user or "root"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


class ReadClient:
    """A client and the commands that it runs on a directory; the directory replaces `{0}` in a command."""

    def __init__(self, start: Callable[[ExitStack, Path], Ask], script: str) -> None:
        self.start = start
        self._script = script

    def commands(self, directory: str) -> list[list[str]]:
        """Return the words of each command."""
        return [line.replace("{0}", directory).split() for line in self._script.splitlines() if line]


READ_CLIENTS: Mapping[str, ReadClient] = {
    "hadoop-2.7.3": ReadClient(_shell("2.7.3"), _SHELL),
    "hadoop-3.3.6": ReadClient(_shell("3.3.6"), _SHELL_3),
    "hadoop-3.5.0": ReadClient(_shell("3.5.0"), _SHELL_3),
    "hdfs-native": ReadClient(_native, "{0} {0}/t0/.snapshot/last"),
    "colinmarc-hdfs": ReadClient(lambda _, folder: go_client(folder), f"0s {_SUMMED}"),
}
