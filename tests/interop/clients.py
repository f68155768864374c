"""Real Hadoop clients behind a pipe: FsShell, DFSAdmin, HAAdmin, a listing of the namespace, and load generation."""

from __future__ import annotations

import base64
import json
import re
import threading
from pathlib import Path
from typing import Any, Self

from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import CommandResult, JvmPipe, java_command

Namespace = dict[str, dict[str, Any]]
"""The namespace as a client lists it: properties by path."""

EC_ADMIN = "org.apache.hadoop.hdfs.tools.ECAdmin"
_FS_SHELL = "org.apache.hadoop.fs.FsShell"
_DFS_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_LOGGED = 4000
_SNAPSHOT = re.compile(r"/\.snapshot/[^/]+$")


class ClientJvm:
    """A JVM that runs Hadoop's command line tools one after the other; see tests/interop/java/HadoopClient.java.

    Serves any number of clusters. Only one thread at a time runs a command.

    Args:
        release: release of the tools; CLIENT has FsShell but not DFSAdmin.
        folder: folder for the JVM's log.
        conf: configuration for all calls, if it configures the login of the JVM.

    Raises:
        MissingHadoopError: Java, the jars or the compiled program are missing.
    """

    def __init__(self, folder: Path, release: HadoopRelease = SERVER, conf: HadoopConf | None = None) -> None:
        self.release = release
        self._log = folder / f"client-{release.version}.log"
        self._turn = threading.Lock()
        archive = release.class_archive()
        path = release.class_path(*([] if conf is None else [conf.folder]))
        command = java_command(path, "interop.HadoopClient", work=folder, archive=archive)
        self._jvm = JvmPipe(command, self._log, encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.close()

    def of(self, conf: HadoopConf | Path) -> HdfsClient:
        """Return a client of the cluster in a configuration, or in a folder with core-site.xml and hdfs-site.xml.

        The JVM reads the folder at its first use; later changes have no effect.
        """
        return HdfsClient(self, conf.folder if isinstance(conf, HadoopConf) else conf)

    def ask(self, folder: Path, user: str, *words: str) -> CommandResult:
        """Run one command of the Java program."""
        with self._turn:
            answer = self._jvm.ask(" ".join(map(_encode, (str(folder), user, *words))))
        if not answer:
            log = self._log.read_text(encoding="utf-8", errors="replace")[-_LOGGED:]
            raise AssertionError(f"the JVM of Hadoop {self.release.version} ended at {words}:\n{log}")
        code, out, err = answer.split(" ")
        return CommandResult(" ".join(words), int(code), _decode(out), _decode(err))


class HdfsClient:
    """Hadoop's tools on one cluster.

    Args:
        user: the client's user name; empty for the user of the tests, who is the NameNode's superuser.
    """

    def __init__(self, jvm: ClientJvm, folder: Path, user: str = "") -> None:
        self._jvm = jvm
        self._folder = folder
        self._user = user

    def as_user(self, user: str) -> HdfsClient:
        """Return a client of the same cluster for another user."""
        return HdfsClient(self._jvm, self._folder, user)

    def shell(self, *words: str) -> CommandResult:
        """Run FsShell, as `hdfs dfs`: `shell("-mkdir", "-p", "/x")`."""
        return self._jvm.ask(self._folder, self._user, "tool", _FS_SHELL, *words)

    def admin(self, *words: str) -> CommandResult:
        """Run DFSAdmin, as `hdfs dfsadmin`: `admin("-rollEdits")`."""
        return self._jvm.ask(self._folder, self._user, "tool", _DFS_ADMIN, *words)

    def ha_admin(self, *words: str) -> CommandResult:
        """Run DFSHAAdmin, as `hdfs haadmin`: `ha_admin("-transitionToActive", "nn1")`."""
        return self._jvm.ask(self._folder, self._user, "tool", _HA_ADMIN, *words)

    def tool(self, main_class: str, *words: str) -> CommandResult:
        """Run a class that implements org.apache.hadoop.util.Tool."""
        return self._jvm.ask(self._folder, self._user, "tool", main_class, *words)

    def namespace(self, path: str = "/") -> Namespace:
        """Return all inodes at and below `path`, including snapshots, by path.

        Each value contains type (directory, file, symlink), owner, group, mode (octal text), replication, block_size,
        length, mtime and atime (ms), xattrs and acl. A live directory also has quota and space_quota.
        """
        listed = self._jvm.ask(self._folder, self._user, "walk", path).checked().out
        found = map(json.loads, listed.splitlines())
        return {entry.pop("path"): entry for entry in found}

    def load(self, steps: int, *, seed: int = 1, path: str = "/load", threads: int = 4) -> None:
        """Make `steps` quick changes below `path`: mkdirs, empty files, renames, modes, owners, deletes, snapshots.

        The names and snapshots depend on the arguments alone; each step writes a transaction or more.
        """
        words = (path, str(steps), str(seed), str(threads))
        self._jvm.ask(self._folder, self._user, "load", *words).checked()


def without_clock_times(namespace: Namespace) -> Namespace:
    """Return `namespace` without the times that Hadoop 2.7 takes from its clock when it replays edits.

    These are the modification times of snapshots, and of directories that have snapshots.
    """
    snapshots = {path for path in namespace if _SNAPSHOT.search(path)}
    volatile = snapshots | {_SNAPSHOT.sub("", path) or "/" for path in snapshots}
    return {
        path: {key: value for key, value in entry.items() if key != "mtime" or path not in volatile}
        for path, entry in namespace.items()
    }


def _encode(word: str) -> str:
    return base64.b64encode(word.encode()).decode("ascii")


def _decode(word: str) -> str:
    return base64.b64decode(word).decode("utf-8", "replace")
