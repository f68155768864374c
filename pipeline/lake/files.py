"""A directory on any file system of Spark's: small steps that are atomic, and the lock of its one writer."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from pipeline.errors import SourceFileError
from pipeline.lake.errors import LakeBusyError, LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = "_lock"
_HELD = ("AlreadyBeingCreatedException", "RecoveryInProgressException", "LeaseExpiredException")


class HadoopFiles:
    """Files below `root`, by paths relative to it, through Hadoop's FileSystem in the driver's JVM.

    Raises (every method): LakeError where the file system fails.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        with _as_lake_error(root):
            given = jvm.org.apache.hadoop.fs.Path(root)
            self._fs = given.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self._root = given.makeQualified(self._fs.getUri(), self._fs.getWorkingDirectory())
        self.root: str = self._root.toString()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def uri(self, name: str) -> str:
        """What Spark reads or writes the file as."""
        return str(self._path(name).toString())

    def exists(self, name: str) -> bool:
        with _as_lake_error(self.uri(name)):
            return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names in a directory in order; none where there is no such directory."""
        with _as_lake_error(self.uri(folder)):
            path = self._path(folder)
            if not self._fs.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))

    def is_file(self) -> bool:
        """Whether `root` itself is a file.

        Raises:
            SourceFileError: there is nothing of this name.
        """
        with _as_lake_error(self.root):
            if not self._fs.exists(self._root):
                raise SourceFileError(f"{self.root} does not exist", hint="Give the path of a file or of a directory.")
            return bool(self._fs.getFileStatus(self._root).isFile())

    def modified(self, name: str) -> int:
        """When a file was last written, in ms since 1970."""
        with _as_lake_error(self.uri(name)):
            return int(self._fs.getFileStatus(self._path(name)).getModificationTime())

    def size(self, name: str) -> int:
        """Bytes of a file or of all in a directory."""
        with _as_lake_error(self.uri(name)):
            return int(self._fs.getContentSummary(self._path(name)).getLength())

    def read_json(self, name: str) -> Any:
        with _as_lake_error(self.uri(name)):
            stream = self._fs.open(self._path(name))
            try:
                text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            finally:
                stream.close()
        try:
            return json.loads(text)
        except ValueError as error:
            raise LakeError(
                f"{self.uri(name)} is not JSON: {error}",
                hint="No append of this program wrote it so: restore it from a copy, or begin another lake.",
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        """Write a file that is there whole or not at all."""
        temporary = f"{name}.tmp"
        with _as_lake_error(self.uri(name)):
            stream = self._fs.create(self._path(temporary), True)
            try:
                stream.write(bytearray(json.dumps(value, sort_keys=True).encode() + b"\n"))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()
            self._rename(temporary, name)

    def move(self, source: str, target: str) -> None:
        """Give a file or directory another place, whose directory is made; one step where the file system has one."""
        with _as_lake_error(self.uri(target)):
            if self._fs.exists(self._path(target)):
                raise LakeError(f"{self.uri(target)} exists already", hint="Move it away: no append made it.")
            self._fs.mkdirs(self._path(target).getParent())
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        if not self._fs.rename(self._path(source), self._path(target)):
            raise LakeError(f"{self.uri(source)} cannot be renamed to {self.uri(target)}", hint="Check permissions.")

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it; nothing where it is gone."""
        with _as_lake_error(self.uri(name)):
            self._fs.delete(self._path(name), True)

    # ---- the lock ------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the lake's only writer; the lock ends with the process, however it ends.

        On HDFS a file is held open, whose lease a NameNode ends a minute after its holder died. Object stores have
        no such thing: there the caller sees to it that one process appends at a time.

        Raises:
            LakeBusyError: another process holds it.
        """
        held = self._local_lock() if self._fs.getUri().getScheme() == "file" else self._lease()
        with held:
            yield

    @contextmanager
    def _local_lock(self) -> Iterator[None]:
        folder = Path(self._root.toUri().getPath())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / _LOCK).open("ab")
        except OSError as error:
            raise LakeError(f"{self.root} cannot be written: {error}", hint="Check disk and permissions.") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeBusyError(self.root) from None
            yield

    @contextmanager
    def _lease(self) -> Iterator[None]:
        path = self._path(_LOCK)
        with _as_lake_error(self.root):
            if self._fs.exists(path):
                self._take_over(path)
            stream = self._fs.create(path, False)
        try:
            yield
        finally:
            with _as_lake_error(self.root):
                stream.close()
                self._fs.delete(path, False)

    def _take_over(self, path: Any) -> None:
        """Remove a lock that nobody holds any more: appending fails while somebody does (as HDFS' Balancer has it)."""
        try:
            self._fs.append(path).close()
        except Py4JJavaError as error:
            if any(name in str(error.java_exception.toString()) for name in _HELD):
                raise LakeBusyError(self.root) from None
            if "UnsupportedOperationException" not in str(error.java_exception.toString()):
                raise
        self._fs.delete(path, False)


@contextmanager
def _as_lake_error(where: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).splitlines()[0]
        raise LakeError(f"{where}: {reason}", hint="Check the lake's path and Spark's settings for it.") from None
