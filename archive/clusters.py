"""The clusters whose objects an archive contains, and the move of one cluster's objects to another archive.

An archive belongs to one cluster. It contains objects of two clusters if files of two archives were copied to the same
place. Two clusters can also begin an archive at the same moment in a store without conditional writes. The archive then
contains objects of both clusters if a writer was killed before it had compared its objects with the other writer's.

An image's VERSION identifies its cluster, but edits do not. Edits belong to a cluster if they and its images form a
range of transactions without a gap. Edits in a range with images of several clusters, or without an image, are not
assigned. In this case, nothing is moved, because edits of one cluster must never be replayed on an image of another
cluster.

The move lists the copies in the other archive before it unlists the originals, and it deletes no objects. Therefore,
each object is always listed in at least one of the archives, and a move that was killed can be repeated.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from archive.archive import Archive, clusters_of, same_namespace
from archive.catalogue import EDITS, IMAGES, Catalogue, EditsRecord, ImageRecord, Record, lasting_removals
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.object_store import ObjectStore, built
from hadoop_common.names import VERSION
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo, parse_version

KEEP_HINT = (
    "Keep this archive, and begin a new archive for each cluster: "
    "`checkpointer archive add STORAGE_DIR --archive NEW_ARCHIVE`."
)
_FIRST = re.compile(r"_(\d+)-")
"""The first transaction in the name of an object."""
_STEP = 1 << 20


class ClusterObjects(NamedTuple):
    """The listed objects of one cluster; `info` contains its ids."""

    info: StorageInfo
    records: tuple[Record, ...]

    @property
    def newest_txid(self) -> int:
        return _newest(self.records)


def objects_by_cluster(catalogue: Catalogue) -> tuple[list[ClusterObjects], list[EditsRecord]]:
    """Return the objects of each cluster with images in the catalogue, and the edits whose cluster is unknown."""
    clusters = clusters_of(catalogue)
    if len(clusters) < 2:
        return [ClusterObjects(each, catalogue.records) for each in clusters], []
    unknown: list[EditsRecord] = []
    found: list[list[Record]] = [[] for _ in clusters]
    for connected in _ranges_without_gaps(catalogue.records):
        numbers = {each.name: _number(each, clusters) for each in connected if isinstance(each, ImageRecord)}
        owners = set(numbers.values())
        for record in connected:
            if isinstance(record, ImageRecord):
                found[numbers[record.name]].append(record)
            elif len(owners) == 1 and not _contradict(connected):
                found[min(owners)].append(record)
            else:
                unknown.append(record)
    return [ClusterObjects(*each) for each in zip(clusters, map(tuple, found), strict=True)], unknown


def _ranges_without_gaps(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records, grouped into ranges of transactions without a gap."""
    ranges: list[list[Record]] = []
    end = 0
    for record in sorted(records, key=_span):
        first, last = _span(record)
        if not ranges or first > end + 1:
            ranges.append([])
        ranges[-1].append(record)
        end = max(end, last)
    return ranges


def _contradict(records: Sequence[Record]) -> bool:
    """Return whether two finalized segments of one branch overlap; a cluster finalizes each transaction once."""
    ends: dict[str, tuple[int, str]] = {}
    for record in sorted(records, key=_span):
        if isinstance(record, EditsRecord) and record.finalized:
            end, md5 = ends.get(record.branch, (-1, ""))
            if record.first <= end and record.md5 != md5:
                return True
            ends[record.branch] = max((end, md5), (record.last, record.md5))
    return False


def _span(record: Record) -> tuple[int, int]:
    return (record.txid, record.txid) if isinstance(record, ImageRecord) else (record.first, record.last)


def _newest(records: Sequence[Record]) -> int:
    return max(_span(each)[1] for each in records)


def _number(image: ImageRecord, clusters: list[StorageInfo]) -> int:
    info = parse_version(image.version.encode(), VERSION)
    return next(number for number, each in enumerate(clusters) if same_namespace(each, info))


def move_cluster(
    archive: Archive, block_pool: str, target: Archive, progress: Callable[[int], None] = lambda size: None
) -> ClusterObjects:
    """Move the objects of the cluster with the block pool id `block_pool` to `target`; return these objects.

    Args:
        target: a new archive, or the result of an earlier call with the same arguments.
        progress: called with the bytes copied so far.

    Raises:
        ArchiveError: an archive cannot be used, or the objects of the cluster cannot be determined.
    """
    archive.require_key()
    catalogue = archive.writable_catalogue(several=True)
    clusters, unknown = objects_by_cluster(catalogue)
    moved = _named(clusters, block_pool)
    if moved is None:
        if (done := _named(objects_by_cluster(target.catalogue())[0], block_pool)) is not None:
            return done
        pools = ", ".join(each.info.blockpool_id for each in clusters)
        raise ArchiveError(
            f"{archive.store.location} has no image of block pool {block_pool}",
            hint=f"The archive has images of these block pools: {pools}.",
        )
    if len(clusters) == 1:
        raise ArchiveError(
            f"{archive.store.location} contains only this cluster",
            hint="Only the objects of another cluster can be moved to a new archive.",
        )
    if unknown:
        raise ArchiveError(
            f"the cluster of {counted(len(unknown), 'object')} with edits, such as {unknown[0].name}, cannot be "
            f"determined: their transactions connect to images of several clusters, or to no image",
            hint=KEEP_HINT,
        )
    target.adopt(moved.info)
    listed, names = target.writable_catalogue(), {each.name for each in moved.records}
    if listed.names and not names <= listed.names:
        raise ArchiveError(
            f"{target.store.location} already contains other objects", hint="Specify a new archive with --to."
        )
    _copy_objects(archive, target, moved.records, progress)
    if not listed.names:
        forks = [each for each in catalogue.branches.values() if each.parent]
        target.publish(listed, moved.records, _removals(catalogue, moved.records), branches=forks)
    if not names <= target.catalogue().names:
        raise ArchiveError(
            f"{target.store.location} does not list all moved objects", hint="Specify a new archive with --to."
        )
    left = [each for each in catalogue.records if each.name not in names]
    # Removed objects never return, not even if a repair lists unlisted objects. Two commits contain the names and the
    # branches, so that nothing is lost if one commit is damaged.
    gone = sorted(names)
    found = archive.publish(catalogue, left, [*_removals(catalogue, left), *gone], replaces=catalogue.commits)
    archive.publish(found, remove=gone)
    return moved


def _removals(catalogue: Catalogue, records: Sequence[Record]) -> list[str]:
    """Return the names of removed objects up to the newest transaction of `records`.

    Later names belong to the other cluster. If they were included, the transactions before them would count as missing.
    """
    newest = _newest(records)
    firsts = {name: _FIRST.search(name) for name in lasting_removals(catalogue)}
    return [name for name, first in firsts.items() if first is not None and int(first[1]) <= newest]


def _named(clusters: list[ClusterObjects], block_pool: str) -> ClusterObjects | None:
    return next((each for each in clusters if each.info.blockpool_id == block_pool), None)


def _copy_objects(
    archive: Archive, target: Archive, records: tuple[Record, ...], progress: Callable[[int], None]
) -> None:
    """Copy the objects that `target` lacks, and verify all copies. Damaged originals are copied unchanged."""
    stored = target.store.sizes(IMAGES) | target.store.sizes(EDITS)
    done = 0
    for record in records:
        if record.name not in stored:
            _copy_object(archive.store, target.store, record.name)
        if not _is_intact(target, record) and _is_intact(archive, record):
            raise ArchiveDamagedError(
                record.name,
                f"its copy in {target.store.location} is damaged",
                hint="Repeat the command with a different new archive in --to; the original is intact.",
            )
        done += record.stored
        progress(done)


def _copy_object(source: ObjectStore, target: ObjectStore, name: str) -> None:
    """Copy an object; if the object is missing, it remains missing in the target."""
    try:
        stream = source.open(name)
    except KeyError:
        return
    with stream, built(target) as path:
        with path.open("wb") as out:
            path.chmod(0o600)
            shutil.copyfileobj(stream, out, _STEP)
        target.put(name, path)


def _is_intact(archive: Archive, record: Record) -> bool:
    try:
        archive.verify_bytes(record)
    except ArchiveDamagedError:
        return False
    return True
