"""Finds the input of an append: an image or finalized segments, with their cluster, transaction ids and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hadoop_common.errors import HdfsError
from hadoop_common.names import FETCHED_VERSION_SUFFIX, VERSION, parse_image, parse_segment
from hadoop_common.storage_info import parse_version
from pipeline.errors import SourceFileError
from pipeline.hadoop_files import HadoopFiles, hadoop_errors
from pipeline.lake.ranges import TxidRange, subtract
from pipeline.source_files import SourceKind, find_files, is_local, local_path, not_found

if TYPE_CHECKING:
    from pyspark import SparkContext

_BATCH_SEGMENTS = 256
_BATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LakeImage:
    """An image to append.

    Attributes:
        txid: transaction id in the file's name.
        time: modification time of the file, in ms since 1970.
        cluster: see `cluster_of`; "" if the image is not in a storage directory.
        fetched: the cluster in the VERSION file that `fetch-image` wrote for the image; "" if there is none.
    """

    txid: int
    path: str
    time: int
    cluster: str
    fetched: str = ""


@dataclass(frozen=True, slots=True)
class LakeSegment:
    """A finalized segment; `size` in bytes, `modified` in ms since 1970."""

    path: str
    txids: TxidRange
    size: int
    modified: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


def find_image(context: SparkContext, uri: str) -> LakeImage:
    """Return the image at `uri`, or the newest image of a storage directory.

    Raises:
        SourceFileError: no image was found, or its name has no txid.
    """
    files = _StoredFiles(context, uri)
    found = files.find(SourceKind.IMAGE)
    if len(found) != 1:
        raise not_found(uri, SourceKind.IMAGE)
    image = parse_image(found[0].rsplit("/", 1)[-1])
    if image is None:
        raise SourceFileError(f"{uri} is not named fsimage_TXID", hint="Rename the file to fsimage_TXID.")
    path, modified = found[0], files.status(found[0])[1]
    fetched = files.cluster_in(path + FETCHED_VERSION_SUFFIX)
    return LakeImage(image.txid, path, modified, files.cluster_beside(path), fetched)


def find_segments(context: SparkContext, uri: str) -> tuple[list[LakeSegment], str]:
    """Return the finalized segment at `uri`, or a directory's finalized segments by txid, and the cluster.

    Raises:
        SourceFileError: `uri` does not exist, or is a file of another kind.
    """
    files = _StoredFiles(context, uri)
    segments = []
    for path in files.find(SourceKind.EDITS):
        name = parse_segment(path.rsplit("/", 1)[-1])
        if name is None or name.last is None:
            hint = "Specify a finalized segment or a directory."
            raise SourceFileError(f"{path} is not a finalized segment", hint=hint)
        segments.append(LakeSegment(path, TxidRange(name.first, name.last), *files.status(path)))
    cluster = files.cluster_beside(segments[0].path) if segments else ""
    return sorted(segments, key=lambda segment: segment.txids), cluster


class _StoredFiles:
    """Access to the files below `uri`, without Java for local files."""

    def __init__(self, context: SparkContext, uri: str) -> None:
        self._context = context
        self._uri = uri
        self._local = is_local(uri)

    def find(self, kind: SourceKind) -> list[str]:
        from pipeline.source_files import LocalLister

        with hadoop_errors(self._uri):
            return find_files(self._uri, kind, LocalLister() if self._local else HadoopFiles(self._context))

    def status(self, path: str) -> tuple[int, int]:
        """Return the size in bytes and the modification time in ms since 1970."""
        if self._local:
            found = local_path(path).stat()
            return found.st_size, found.st_mtime_ns // 1_000_000
        with hadoop_errors(path):
            return HadoopFiles(self._context).status(path)

    def cluster_beside(self, path: str) -> str:
        """Return the cluster in the VERSION file next to a file, or "" if no VERSION file exists."""
        return self.cluster_in(f"{path.rpartition('/')[0]}/{VERSION}")

    def cluster_in(self, version: str) -> str:
        """Return the cluster in a VERSION file, or "" if the file does not exist."""
        try:
            return cluster_of(self._content(version), version)
        except (OSError, HdfsError):
            return ""

    def _content(self, path: str) -> bytes:
        if self._local:
            return local_path(path).read_bytes()
        with hadoop_errors(path):
            return HadoopFiles(self._context).text(path).encode()


def cluster_of(version: bytes, source: str) -> str:
    """Return the lake's name for a namespace, `CLUSTERID.NAMESPACEID`; the namespaces of a federation share the cluster
    id.

    Raises:
        VersionFileError: the VERSION file is damaged.
    """
    found = parse_version(version, source)
    return f"{found.cluster_id}.{found.namespace_id}"


def in_batches(segments: Sequence[LakeSegment], taken: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the transactions that are not yet `taken`, in contiguous runs, one for each job."""
    runs: list[TxidRange] = []
    taken = list(taken)
    batch: list[LakeSegment] = []
    for segment in segments:
        full = len(batch) == _BATCH_SEGMENTS or sum(each.size for each in batch) > _BATCH_BYTES
        if batch and full:
            runs += subtract([each.txids for each in batch], [*taken, *runs])
            batch = []
        batch.append(segment)
    return runs + subtract([each.txids for each in batch], [*taken, *runs])
