"""Sends images and segments from any file system that Spark supports to the hosts that read them.

The planning process and the tasks of a Python data source have no connection to the JVM. Therefore, the driver listens
on a Unix socket. The planning process sends a URI. The driver lets Spark fetch the files (`SparkContext.addFile`, which
streams to disk on every executor) and responds with their names.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hadoop_common.errors import HdfsError
from pipeline.archive_query import ArchiveQuery
from pipeline.errors import PipelineError, PipelineSetupError, SourceFileError
from pipeline.hadoop_files import HadoopFiles, hadoop_errors
from pipeline.source_files import (
    SourceFile,
    SourceKind,
    companions,
    find_files,
    is_local,
    local_files,
    name_of,
    not_found,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ADDRESS = "HDFS_CHECKPOINTER_STAGING"
"""Environment variable of Spark's Python processes with the path of the driver's socket."""

_PREFIX = "checkpointer-staging-"
_SOCKET = "socket"
_SHORT_FOLDERS = ("/tmp", "/var/tmp")
_MAX_ADDRESS_BYTES = 103  # bytes of sockaddr_un.sun_path: 108 on Linux, 104 elsewhere, with a zero at its end
_TIMEOUT_SECONDS = 6 * 3600.0  # enough for an image of 100 GB at 5 MB/s


def resolve(uri: str, kind: SourceKind) -> list[SourceFile]:
    """Resolve `uri` to files; send remote files to the executors. Only for processes on the driver's host.

    Raises:
        SourceFileError: no file of this kind was found, or it cannot be fetched.
    """
    if is_local(uri):
        return local_files(uri, kind)
    address = os.environ.get(ADDRESS)
    if not address:
        raise PipelineError(f"cannot send {uri} to Spark's tasks", hint="Call pipeline.register(spark) first.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_TIMEOUT_SECONDS)
        try:
            connection.connect(address)
        except OSError as error:
            problem = f"cannot send {uri} to Spark's tasks: the driver's socket {address}: {error.strerror}"
            raise PipelineError(problem, hint="Use another Spark session.") from None
        connection.sendall(json.dumps({"uri": uri, "kind": kind.name}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line:
        raise PipelineError(f"the driver ended while it fetched {uri}", hint="Read the driver's own error.")
    answer = json.loads(line)
    if "error" in answer:
        raise SourceFileError(answer["error"], hint=answer["hint"])
    return [SourceFile(**item) for item in answer["files"]]


def resolve_all(uris: Iterable[str], kind: SourceKind) -> list[SourceFile]:
    """Resolve several URIs; return a file that two URIs match only once."""
    return list(dict.fromkeys(file for uri in uris for file in resolve(uri, kind)))


class Stager:
    """The driver's side of staging: finds files with Hadoop's FileSystem and passes them to Spark."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._origins: dict[str, str] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def stage(self, uri: str, kind: SourceKind) -> list[SourceFile]:
        """Resolve `uri` and fetch its files.

        Raises:
            SourceFileError: no file of this kind was found, it cannot be read, or the session has already read another
                file with this name or another version of this file.
        """
        from pipeline.staged_journal import is_journal

        with hadoop_errors(uri), self._lock:
            if (query := ArchiveQuery.parse(uri)) is not None:
                return self._archived(query, kind)
            if is_journal(uri):
                return [self._hand_on(uri, path) for path in self._segments(uri, kind)]
            return [self._fetch(origin, kind) for origin in self._find(uri, kind)]

    def send(self, origin: str) -> SourceFile:
        """Send a file to the executors; its name must be unique in the session.

        Raises:
            SourceFileError: see `stage`.
        """
        with hadoop_errors(origin), self._lock:
            return self._send(origin)

    def _segments(self, uri: str, kind: SourceKind) -> list[Path]:
        """Return a BookKeeper journal's segments as files; an open segment ends at its last confirmed transaction."""
        from pyspark import SparkFiles

        from pipeline.staged_journal import KEYS, copy_segments

        folder = Path(SparkFiles.getRootDirectory()) / "journals" / quote(uri, safe="")
        folder.mkdir(parents=True, exist_ok=True)
        values = HadoopFiles(self._context).configured(KEYS)
        return copy_segments(uri, folder, values, in_progress=kind is SourceKind.OPEN_EDITS)

    def _archived(self, query: ArchiveQuery, kind: SourceKind) -> list[SourceFile]:
        """Return files made from an archive, in a folder that Spark removes together with Spark's files."""
        from pyspark import SparkFiles

        from pipeline.staged_archive import KEYS, archived_files

        folder = Path(SparkFiles.getRootDirectory()) / "archives"
        files = archived_files(query, kind, folder, HadoopFiles(self._context).configured(KEYS))
        for file in files:
            for name in (*companions(file.staged, kind), file.staged):
                self._context.addFile(str(file.on_driver().with_name(name)))
        return files

    def _hand_on(self, uri: str, path: Path) -> SourceFile:
        origin = f"{uri}/{path.name}"
        if self._origins.setdefault(path.name, origin) != origin:
            raise _name_in_use(origin, self._origins[path.name])
        self._context.addFile(str(path))
        return SourceFile(str(path), path.name)

    def _find(self, uri: str, kind: SourceKind) -> list[str]:
        if found := find_files(uri, kind, HadoopFiles(self._context)):
            return found
        raise not_found(uri, kind)

    def _fetch(self, origin: str, kind: SourceKind) -> SourceFile:
        files = HadoopFiles(self._context)
        name = name_of(origin)
        for beside in companions(name, kind) if origin not in self._versions else ():
            if files.exists(path := origin[: -len(name)] + beside):
                self._send(path)
        return self._send(origin)

    def _send(self, origin: str) -> SourceFile:
        """Copy a file to the driver's disk, from where Spark sends it to the executors.

        Before every task, of any query, an executor fetches the files that the session has added so far. If Spark
        fetched the original, every later query would fail once the original is deleted or replaced.
        """
        from pyspark import SparkFiles

        name = name_of(origin)
        if self._origins.setdefault(name, origin) != origin:
            raise _name_in_use(origin, self._origins[name])
        files = HadoopFiles(self._context)
        version = files.status(origin)
        if self._versions.get(origin, version) != version:
            raise SourceFileError(
                f"{origin} has changed since this session read it",
                hint="A Spark session keeps the first version of a file; read the new version in another session.",
            )
        copy = Path(SparkFiles.get(name))
        if origin not in self._versions:
            if copy.exists():
                raise _name_in_use(origin, "a file")
            files.copy(origin, copy)
            self._context.addFile(str(copy))
            self._versions[origin] = version
        return SourceFile(str(copy), name)


def _name_in_use(origin: str, before: str) -> SourceFileError:
    return SourceFileError(
        f"{origin} has the same name as {before}, which this session already read",
        hint="A Spark session keeps one file of each name; read this file in another session.",
    )


class _StagingServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    stager: Stager


class _StagingHandler(socketserver.StreamRequestHandler):
    server: _StagingServer

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            files = self.server.stager.stage(request["uri"], SourceKind[request["kind"]])
            answer = {"files": [asdict(file) for file in files]}
        except HdfsError as error:
            answer = {"error": error.message, "hint": error.hint}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


@functools.lru_cache(maxsize=1)
def stager_of(context: SparkContext) -> Stager:
    """Return the context's stager, which remembers the names of staged files; a process has one context at a time."""
    return Stager(context)


def files_for_tasks(context: SparkContext, uri: str, kind: SourceKind) -> list[SourceFile]:
    """Return the files of `uri`; send remote files to the executors. Only for the driver; others call `resolve`."""
    return local_files(uri, kind) if is_local(uri) else stager_of(context).stage(uri, kind)


def serve_staging(spark: SparkSession) -> None:
    """Listen for planning processes of this session's context, once for each context, until the process ends."""
    context = spark.sparkContext
    if ADDRESS in context.environment:
        return
    folder = _socket_folder(tempfile.gettempdir(), *_SHORT_FOLDERS)
    address = folder / _SOCKET
    server = _StagingServer(str(address), _StagingHandler)
    server.stager = stager_of(context)
    threading.Thread(target=server.serve_forever, name="staging", daemon=True).start()
    context.environment[ADDRESS] = str(address)
    _remove_at_exit(folder)


def _socket_folder(*parents: str) -> Path:
    """Create a private folder in the first of `parents` whose path is short enough for a socket.

    Raises:
        PipelineSetupError: no parent is suitable.
    """
    for parent in parents:
        room = len(os.fsencode(parent)) + len(f"/{_PREFIX}12345678/{_SOCKET}")
        if room <= _MAX_ADDRESS_BYTES and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    raise PipelineSetupError(
        f"cannot create a socket in {', '.join(parents)}", hint="Set TMPDIR to a folder with a short path."
    )


def _remove_at_exit(folder: Path) -> None:
    import atexit
    import shutil

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
