"""A directory on any file system that Spark knows: atomic file operations, and the lock of its only writer."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from pipeline.errors import LakeBusyError, LakeError, SourceFileError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = "_lock"
_LEASE_CONFLICTS = ("AlreadyBeingCreatedException", "RecoveryInProgressException", "LeaseExpiredException")


class HadoopFiles:
    """Files below `root`, by relative paths, accessed with Hadoop's FileSystem in the driver's JVM.

    Every method raises LakeError if the file system fails.
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
        """Return the URI by which Spark reads or writes the file."""
        return str(self._path(name).toString())

    def exists(self, name: str) -> bool:
        with _as_lake_error(self.uri(name)):
            return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a directory; empty if the directory is missing."""
        with _as_lake_error(self.uri(folder)):
            path = self._path(folder)
            if not self._fs.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))

    def is_file(self) -> bool:
        """Return whether `root` itself is a file.

        Raises:
            SourceFileError: `root` does not exist.
        """
        with _as_lake_error(self.root):
            if not self._fs.exists(self._root):
                raise SourceFileError(
                    f"{self.root} does not exist", hint="Check the path: a file or a directory is needed."
                )
            return bool(self._fs.getFileStatus(self._root).isFile())

    def modified(self, name: str) -> int:
        """Return the modification time of a file, in ms since 1970."""
        with _as_lake_error(self.uri(name)):
            return int(self._fs.getFileStatus(self._path(name)).getModificationTime())

    def size(self, name: str) -> int:
        """Return the bytes of a file, or of all files in a directory."""
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
                hint="The file was changed by another program: restore it from a copy, or create another lake.",
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        """Write a file that appears complete or not at all."""
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
        """Rename a file or directory, atomically if the file system can; create the target's parent."""
        with _as_lake_error(self.uri(target)):
            if self._fs.exists(self._path(target)):
                raise LakeError(f"{self.uri(target)} already exists", hint="Move it away: it is not part of an append.")
            self._fs.mkdirs(self._path(target).getParent())
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        if not self._fs.rename(self._path(source), self._path(target)):
            raise LakeError(f"{self.uri(source)} cannot be renamed to {self.uri(target)}", hint="Check permissions.")

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with its content, if it exists."""
        with _as_lake_error(self.uri(name)):
            self._fs.delete(self._path(name), True)

    # ---- the lock ------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the lake's only writer; the lock ends with the process, even after a kill.

        On HDFS the lock is an open file, whose lease the NameNode releases a minute after its holder died. Object
        stores have no leases: there the caller must ensure that only one process appends.

        Raises:
            LakeBusyError: another process holds the lock.
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
        """Remove a stale lock. Appending to a held lock fails, as for the id file of HDFS's Balancer."""
        try:
            self._fs.append(path).close()
        except Py4JJavaError as error:
            if any(name in str(error.java_exception.toString()) for name in _LEASE_CONFLICTS):
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
