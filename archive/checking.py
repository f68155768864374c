"""Checks an archive: compares objects with the catalogue and moments with the objects, and removes garbage."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from archive.archive import IDENTITY, Archive, ArchiveIdentity, clusters_of, copy_content, same_namespace
from archive.catalogue import COMMITS, EDITS, IMAGES, Catalogue, EditsRecord, ImageRecord, Record
from archive.clusters import objects_by_cluster
from archive.errors import ArchiveDamagedError, ArchiveError, NoSuchMomentError
from archive.moments import BranchView, chain, histories, missing_edits, moments, plan_restore, view_of
from archive.restoring import RestoreOptions, chosen_view, restore_moment
from engine.observer import Observer
from engine.settings import MergeSettings
from hadoop_common.errors import HdfsError
from hadoop_common.names import VERSION
from hadoop_common.storage_info import parse_version
from image_format.md5_file import read_md5_file
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison

_UNREACHED = "no edits lead to it"
_UPGRADED = "it is the first image after an upgrade, which replay does not repeat"
_SOUND = ("equal", "same meaning", _UNREACHED, _UPGRADED)


@dataclass(frozen=True, slots=True)
class ClusterContent:
    """The ids of a cluster with images in an archive, the number of its objects, and its newest transaction."""

    cluster_id: str
    namespace_id: int
    block_pool_id: str
    objects: int
    newest_txid: int


@dataclass(slots=True)
class CheckReport:
    """The findings of a check.

    Attributes:
        objects, size: numbers of objects and bytes that were read.
        clusters: clusters with images in the archive, beginning with the cluster that archive.json names; only one is
            allowed.
        unassigned: names of edits whose cluster is unknown among several clusters; see `archive.clusters`.
        damaged: problems of damaged or missing objects, by object name.
        lost: moments that need damaged objects, as (branch, first transaction, last transaction) ranges.
        missing: transactions that were purged before they were archived, as ranges in the form of `lost`.
        garbage: objects and unfinished objects that no commit lists.
        removed: garbage that the repair removed.
        adopted: objects of damaged commits that the repair listed again.
        unlisted: missing objects that the repair removed from the catalogue, because other objects cover their moments.
        rewritten: damaged files that the repair rebuilt from other objects.
        images: result of a deep check for each archived image: whether a replay of the preceding edits produces the
            same image.
    """

    objects: int = 0
    size: int = 0
    clusters: list[ClusterContent] = field(default_factory=list)
    unassigned: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    lost: list[tuple[str, int, int]] = field(default_factory=list)
    missing: list[tuple[str, int, int]] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether every archived moment can be restored."""
        single = len(self.clusters) < 2
        return single and not self.damaged and all(verdict in _SOUND for verdict in self.images.values())


def check_archive(
    archive: Archive, *, repair: bool = False, min_age: float = 0.0, progress: Callable[[int], None] | None = None
) -> CheckReport:
    """Compare every object with its digest, and list the moments that are lost because of damage.

    Args:
        repair: remove garbage, list the objects of damaged commits again, and unlist missing objects that other objects
            replace. Objects are never changed.
        min_age: minimum age of removed garbage, in seconds, because another process may be about to list younger
            objects.
        progress: called with the bytes read so far.
    """
    catalogue, report, found = archive.catalogue(), CheckReport(), None
    try:
        found, owners = archive.identity(), clusters_of(catalogue)
        if found is None and catalogue.records:
            report.damaged[IDENTITY] = f"{IDENTITY}: the file is missing"
        elif found is not None and owners and not any(same_namespace(each, found) for each in owners):
            report.damaged[IDENTITY] = (
                f"{IDENTITY}: the file belongs to cluster {found.cluster_id}, namespace {found.namespace_id}, "
                f"but all images belong to cluster {owners[0].cluster_id}, namespace {owners[0].namespace_id}"
            )
        else:
            archive.require_key()
    except ArchiveDamagedError as fault:
        report.damaged[IDENTITY] = fault.message
    for name in catalogue.damaged:
        report.damaged[name] = "the digest of the commit differs from the digest in its name"
    for record in catalogue.records:
        try:
            archive.verify_bytes(record)
            with archive.reading(record.name) as reader:
                # decryption of the footer fails if the key is wrong
                assert reader.footer.size >= 0
        except ArchiveError as fault:
            report.damaged[record.name] = fault.message
        report.objects, report.size = report.objects + 1, report.size + record.stored
        if progress is not None:
            progress(report.size)
    now = archive.catalogue()
    for record in catalogue.records:
        if record.name not in now.names:
            # another process has since removed the object
            report.damaged.pop(record.name, None)
    for record in now.records:
        if record.branch not in now.branches:
            report.damaged[record.name] = f"no commit contains its branch {record.branch}"
    report.clusters, report.unassigned = _clusters(now, found)
    report.lost = _lost_moments(now, set(report.damaged))
    # transactions between the transactions of two clusters are not missing
    for branch in histories(now) if len(report.clusters) < 2 else ():
        report.missing += [(branch, each.start, each.stop - 1) for each in missing_edits(now, branch)]
    report.garbage = _garbage(archive, now)
    if repair:
        _repair(archive, catalogue, report, min_age)
    return report


def check_images(
    archive: Archive, folder: Path, settings: MergeSettings, report: CheckReport, observer: Observer | None = None
) -> None:
    """Replay the edits from an older archived image up to each archived image, and compare the results.

    Args:
        folder: folder for scratch files.
    """
    for image in archive.catalogue().images:
        view = chosen_view(archive, image.branch)
        older = [each for each in view.images if each.txid < image.txid]
        if not older or image.name in report.damaged:
            continue
        below = BranchView(view.branch, tuple(older), view.pieces)
        scratch = folder / f"check-{image.txid}"
        try:
            plan = plan_restore(below, image.txid)
            made = restore_moment(archive, plan, scratch, RestoreOptions(settings=settings), observer).image
            report.images[image.name] = _compared(archive, image, made, scratch / made.name)
        except NoSuchMomentError:
            report.images[image.name] = _UNREACHED
        except HdfsError as fault:
            report.images[image.name] = fault.message
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _compared(archive: Archive, image: ImageRecord, made: Path, path: Path) -> str:
    if read_md5_file(made).hex() == image.md5:
        return "equal"
    with archive.reading(image.name) as reader, path.open("wb") as out:
        copy_content(reader, out)
    with ImageFile.open(path, verify_md5=False) as theirs, ImageFile.open(made, verify_md5=False) as ours:
        if theirs.layout_version != ours.layout_version:
            return _UPGRADED
        comparison = ImageComparison(theirs, ours)
        difference = next(comparison.differences(), None)
        if difference is None:
            return "same meaning"
        named = comparison.named(difference)
        return f"differs: {named.kind.value} {named.subject} {named.attribute}".rstrip()


def _clusters(catalogue: Catalogue, identity: ArchiveIdentity | None) -> tuple[list[ClusterContent], list[str]]:
    clusters, unknown = objects_by_cluster(catalogue)
    clusters.sort(key=lambda each: identity is None or not same_namespace(each.info, identity))
    found = [
        ClusterContent(
            each.info.cluster_id, each.info.namespace_id, each.info.blockpool_id, len(each.records), each.newest_txid
        )
        for each in clusters
    ]
    return found, [each.name for each in unknown]


def _lost_moments(catalogue: Catalogue, damaged: set[str]) -> list[tuple[str, int, int]]:
    """Return the moments of each branch that cannot be restored without the damaged objects."""
    lost = []
    for branch in sorted(catalogue.branches):
        view = view_of(catalogue, branch)
        whole = moments(view.without(damaged))
        lost += [(branch, each.start, each.stop - 1) for each in _subtract(moments(view), whole)]
    return lost


def _subtract(ranges: Iterable[range], others: Sequence[range]) -> Iterator[range]:
    """Yield the parts of `ranges` outside all ranges of the sorted `others`."""
    for each in ranges:
        start = each.start
        for other in others:
            if other.start > start and other.start < each.stop:
                yield range(start, other.start)
            if other.start <= each.stop:
                start = max(start, other.stop)
        if start < each.stop:
            yield range(start, each.stop)


def _garbage(archive: Archive, catalogue: Catalogue) -> list[str]:
    """Return the objects that no commit lists, replaced commits, and unfinished objects."""
    stored = [*archive.store.sizes(IMAGES), *archive.store.sizes(EDITS)]
    commits = [] if archive.immutable else [each for each in archive.store.sizes(COMMITS) if each in catalogue.replaced]
    return [*(name for name in stored if name not in catalogue.names), *commits, *archive.store.incoming()]


def _repair(archive: Archive, catalogue: Catalogue, report: CheckReport, min_age: float) -> None:
    # reading the image proved that the encryption key is right; its VERSION identifies the namespace
    intact = next((each for each in catalogue.images if each.name not in report.damaged), None)
    if IDENTITY in report.damaged and intact is not None and not archive.immutable:
        archive.store.remove(IDENTITY)
        archive.write_identity(parse_version(intact.version.encode(), VERSION))
        report.rewritten.append(IDENTITY)
    if catalogue.damaged:
        unlisted = [name for name in report.garbage if name not in catalogue.removed]
        adopted = [record for name in unlisted if (record := _record_of(archive, name)) is not None]
        # a store with an object lock keeps the damaged commits
        archive.publish(catalogue, adopted, replaces=catalogue.damaged)
        report.adopted = [each.name for each in adopted]
        if not archive.immutable:
            for name in catalogue.damaged:
                archive.store.remove(name)
                report.removed.append(name)
    now = archive.catalogue()
    # objects of one cluster do not replace objects of another cluster
    if not now.damaged and len(report.clusters) < 2 and (replaced := _replaceable(archive, now)):
        archive.publish(now, remove=replaced)
        report.unlisted = replaced
    if archive.immutable:
        return
    for name in report.garbage:
        if name not in report.adopted and name != IDENTITY and _is_old(archive, name, min_age):
            archive.store.remove(name)
            report.removed.append(name)


def _replaceable(archive: Archive, catalogue: Catalogue) -> list[str]:
    """Return missing objects whose moments other objects cover; the commit that removed them was damaged."""
    stored = {*archive.store.sizes(IMAGES), *archive.store.sizes(EDITS)}
    missing = {each.name for each in catalogue.records} - stored
    found = []
    for record in catalogue.records:
        if record.name in missing and record.branch in catalogue.branches:
            view = view_of(catalogue, record.branch).without(missing)
            if isinstance(record, ImageRecord):
                covered = any(record.txid in each for each in moments(view))
            else:
                covered = chain(view.pieces, record.first, record.last)[1] is None
            if covered:
                found.append(record.name)
    return found


def _is_old(archive: Archive, name: str, min_age: float) -> bool:
    """Return whether an object is a replaced commit, or too old for a running process to still list it."""
    if not min_age or name.startswith(COMMITS):
        return True
    age = archive.store.age(name)
    return age is not None and age >= min_age


def _record_of(archive: Archive, name: str) -> Record | None:
    """Return the record in the footer of an intact object, or None for other files."""
    if name.partition("/")[0] not in (IMAGES, EDITS):
        return None
    digest, size = hashlib.sha256(), 0
    try:
        with archive.store.open(name) as stream:
            while step := stream.read(1 << 20):
                digest.update(step)
                size += len(step)
        if f"-{digest.hexdigest()[:16]}." not in name:
            return None
        with archive.reading(name) as reader:
            about: dict[str, Any] = {"name": name, "stored": size, "sha256": digest.hexdigest()}
            about |= reader.footer.description
    except (ArchiveDamagedError, KeyError):
        return None
    kind = ImageRecord if name.startswith(IMAGES) else EditsRecord
    return kind(**about) if {each.name for each in fields(kind)} == about.keys() else None
