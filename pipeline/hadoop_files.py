"""Files on any file system that Spark supports, and Spark's Hadoop configuration, read in the driver's JVM."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import SourceFileError

if TYPE_CHECKING:
    from pyspark import SparkContext


class HadoopFiles:
    """A `FileLister` on Hadoop's FileSystem, with sizes, times and contents of files.

    Methods raise Hadoop's errors as py4j errors, which `hadoop_errors` converts.
    """

    def __init__(self, context: SparkContext) -> None:
        self._java = _driver_jvm(context)
        self._configuration = self._java.org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()

    def is_folder(self, uri: str) -> bool | None:
        path, files = self._at(uri)
        return bool(files.getFileStatus(path).isDirectory()) if files.exists(path) else None

    def names(self, folder: str) -> list[str]:
        path, files = self._at(folder)
        return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []

    def matches(self, pattern: str) -> list[tuple[str, bool]]:
        path, files = self._at(pattern)
        return [(str(each.getPath()), bool(each.isDirectory())) for each in files.globStatus(path) or ()]

    def exists(self, uri: str) -> bool:
        path, files = self._at(uri)
        return bool(files.exists(path))

    def status(self, uri: str) -> tuple[int, int]:
        """Return the size in bytes and the modification time in ms since 1970."""
        path, files = self._at(uri)
        found = files.getFileStatus(path)
        return int(found.getLen()), int(found.getModificationTime())

    def copy(self, uri: str, target: Path) -> None:
        """Copy a file to a local path, where it appears complete or not at all."""
        path, files = self._at(uri)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=target.parent) as scratch:
            part = Path(scratch) / target.name
            files.copyToLocalFile(False, path, self._java.org.apache.hadoop.fs.Path("file", "", str(part)), True)
            part.rename(target)

    def text(self, uri: str) -> str:
        """Return the content of a small file in UTF-8."""
        path, files = self._at(uri)
        stream = files.open(path)
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def configured(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the values of all `keys` that Spark's Hadoop configuration sets."""
        return {key: value for key in keys if (value := self._configuration.get(key)) is not None}

    def _at(self, uri: str) -> tuple[Any, Any]:
        """Return Hadoop's Path of `uri` and its FileSystem."""
        path = self._java.org.apache.hadoop.fs.Path(uri)
        return path, path.getFileSystem(self._configuration)


def _driver_jvm(context: SparkContext) -> Any:
    """Return py4j's view of the driver's JVM.

    This is the only use of a private attribute of PySpark. PySpark's public interface lists and reads files only with
    Spark SQL jobs, which walk whole directory trees. It does not give access to Hadoop's configuration.
    """
    return context._jvm


@contextmanager
def hadoop_errors(uri: str) -> Iterator[None]:
    """Raise Hadoop's errors as SourceFileError."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).splitlines()[0]
        raise SourceFileError(f"{uri} cannot be read: {reason}", hint="Check the URI and Spark's settings.") from None
