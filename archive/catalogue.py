"""The catalogue of an archive: its objects and their content. This module performs no I/O.

A catalogue is a set of commits. Each commit adds and removes records and is published after the objects that it adds.
Commits are immutable, and their order does not matter: a removed object never returns, because object names are unique.
Therefore, two writers never overwrite each other. From time to time, one commit repeats the records and removed names
of many commits, and names these commits as replaced.

When a NameNode is set back, its new history becomes a branch. A branch shares all transactions up to its fork with its
parent.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypeVar

from archive.errors import ArchiveDamagedError, ArchiveVersionError

FORMAT: Final = 1
MAIN: Final = "main"
"""The branch of the first history."""
EDITS: Final = "edits"
IMAGES: Final = "images"
COMMITS: Final = "catalogue"
_DIGEST: Final = 16
_LARGER: Final = 8
_MIN_LARGE: Final = 512
_PART: Final = re.compile(rf"{EDITS}/edits_inprogress_(\d+)-")


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """A base image.

    Attributes:
        name: name of the object.
        txid: transaction id of the image.
        branch: the history to which the image belongs.
        md5: MD5 of the image, in hex.
        size, stored: size of the image and of the object, in bytes.
        sha256: SHA-256 of the object.
        version: text of the VERSION file next to the image.
        added: time in ms since the epoch.
    """

    name: str
    txid: int
    branch: str
    md5: str
    size: int
    stored: int
    sha256: str
    version: str
    added: int


@dataclass(frozen=True, slots=True)
class EditsRecord:
    """Transactions `first` to `last` of one segment of the edit log.

    Attributes:
        name: name of the object.
        branch: the history in which the transactions were archived.
        finalized: False for a segment that was in progress.
        md5: MD5 of the segment's bytes up to the end of the last transaction, in hex.
        size, stored: number of these bytes, and size of the object in bytes.
        sha256: SHA-256 of the object.
        first_time, last_time: first and last time in the transactions, in ms since the epoch; 0 if unknown.
        layout_version: layout version of the segment.
        added: time in ms since the epoch.
    """

    name: str
    first: int
    last: int
    branch: str
    finalized: bool
    md5: str
    size: int
    stored: int
    sha256: str
    first_time: int
    last_time: int
    layout_version: int
    added: int


Record = ImageRecord | EditsRecord
R = TypeVar("R", ImageRecord, EditsRecord)


@dataclass(frozen=True, slots=True)
class Branch:
    """A history that equals `parent` up to transaction `fork`; the main branch has no parent."""

    name: str
    parent: str = ""
    fork: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One change of the catalogue.

    Attributes:
        sequence: one more than the highest sequence that the writer has read.
        replaces: names of commits whose content this commit contains.
    """

    sequence: int
    time: int
    add: tuple[Record, ...] = ()
    remove: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The union of all commits.

    Attributes:
        images, edits: images and edits by transaction.
        branches: branches by name.
        sequence: the highest `sequence` of all commits.
        commits: names of the commits that are not replaced.
        damaged: names of commits that cannot be read.
        removed: names of removed objects.
        replaced: names of replaced commits that still exist because a process was killed.
    """

    images: tuple[ImageRecord, ...] = ()
    edits: tuple[EditsRecord, ...] = ()
    branches: Mapping[str, Branch] = field(default_factory=lambda: {MAIN: Branch(MAIN)})
    sequence: int = 0
    commits: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    removed: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()

    @property
    def records(self) -> tuple[Record, ...]:
        return (*self.images, *self.edits)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.records)


def join_commits(commits: Mapping[str, Commit], damaged: Sequence[str] = ()) -> Catalogue:
    """Return the union of commits; `commits` contains them by name."""
    replaced = {name for commit in commits.values() for name in commit.replaces}
    present = {name: commit for name, commit in commits.items() if name not in replaced}
    branches = {MAIN: Branch(MAIN)}
    for commit in present.values():
        branches |= {each.name: each for each in commit.branches}
    removed = frozenset(name for commit in present.values() for name in commit.remove)
    known = {each.name: each for commit in present.values() for each in commit.add if each.name not in removed}
    records = list(known.values())
    return Catalogue(
        images=tuple(sorted((each for each in records if isinstance(each, ImageRecord)), key=_image_order)),
        edits=tuple(sorted((each for each in records if isinstance(each, EditsRecord)), key=_edits_order)),
        branches=branches,
        sequence=max((commit.sequence for commit in commits.values()), default=0),
        commits=tuple(sorted(present)),
        damaged=tuple(sorted(name for name in damaged if name not in replaced)),
        removed=removed,
        replaced=frozenset(replaced.intersection((*commits, *damaged))),
    )


def with_commits(catalogue: Catalogue, commits: Mapping[str, Commit]) -> Catalogue:
    """Return the union of a catalogue and further commits that replace no commits; the function only copies tuples."""
    removed = catalogue.removed | {name for commit in commits.values() for name in commit.remove}
    images, edits = list(catalogue.images), list(catalogue.edits)
    for commit in commits.values():
        for record in commit.add:
            if record.name in removed:
                continue
            if isinstance(record, ImageRecord):
                _insert(images, record, _image_order)
            else:
                _insert(edits, record, _edits_order)
    branches = dict(catalogue.branches)
    for commit in commits.values():
        branches |= {each.name: each for each in commit.branches}
    gone = removed - catalogue.removed
    return replace(
        catalogue,
        images=tuple(each for each in images if each.name not in gone) if gone else tuple(images),
        edits=tuple(each for each in edits if each.name not in gone) if gone else tuple(edits),
        branches=branches,
        sequence=max([catalogue.sequence, *(commit.sequence for commit in commits.values())]),
        commits=tuple(sorted((*catalogue.commits, *commits))),
        removed=removed,
    )


def _insert(records: list[R], record: R, order: Callable[[R], tuple[int, int]]) -> None:
    """Insert a record in order, unless the list contains it."""
    place = bisect_right(records, order(record), key=order)
    before = place
    while before and order(records[before - 1]) == order(record):
        before -= 1
        if records[before].name == record.name:
            records[before] = record
            return
    records.insert(place, record)


def _image_order(record: ImageRecord) -> tuple[int, int]:
    return record.txid, record.added


def _edits_order(record: EditsRecord) -> tuple[int, int]:
    return record.first, record.last


def large_commits(commits: Mapping[str, Commit]) -> dict[str, Commit]:
    """Return the commits that a replacement keeps: each has far more records than all smaller commits together.

    Therefore, a record is rewritten only about once each time the catalogue grows tenfold.
    """
    left: dict[str, Commit] = {}
    ordered = sorted(commits.items(), key=lambda each: -len(each[1].add))
    sizes = [len(commit.add) for _, commit in ordered]
    for number, (name, commit) in enumerate(ordered):
        if sizes[number] <= _LARGER * sum(sizes[number + 1 :]) or sizes[number] < _MIN_LARGE:
            break
        left[name] = commit
    return left


def replacing(
    catalogue: Catalogue, replaced: Iterable[Commit], left: Iterable[Commit]
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records and the removed names of a commit that replaces some commits and retains the other commits."""
    names = {record.name for commit in replaced for record in commit.add}
    elsewhere = {record.name for commit in left for record in commit.add}
    records = tuple(each for each in catalogue.records if each.name in names and each.name not in elsewhere)
    lasting = {*lasting_removals(catalogue), *(catalogue.removed & elsewhere)}
    return records, tuple(sorted(lasting))


def lasting_removals(catalogue: Catalogue) -> tuple[str, ...]:
    """Return the names of removed objects that a commit must repeat if it replaces all other commits.

    Parts of finalized segments are excluded, because a standby removes one part each second. If two writers replace
    commits at the same moment, a part may reappear. This part is superseded, and is removed with the next segment.
    """
    newest = max((each.last for each in catalogue.edits if each.finalized), default=0)
    parts = ((name, _PART.match(name)) for name in catalogue.removed)
    return tuple(sorted(name for name, part in parts if part is None or int(part[1]) > newest))


def encode_commit(commit: Commit) -> tuple[str, bytes]:
    """Return the object name and the bytes of a commit; the name contains a digest of the bytes."""
    values = {
        "format": FORMAT,
        "sequence": commit.sequence,
        "time": commit.time,
        "images": [asdict(each) for each in commit.add if isinstance(each, ImageRecord)],
        "edits": [asdict(each) for each in commit.add if isinstance(each, EditsRecord)],
        "remove": list(commit.remove),
        "branches": [asdict(each) for each in commit.branches],
        "replaces": list(commit.replaces),
    }
    text = json.dumps(values, sort_keys=True).encode()
    return f"{COMMITS}/{commit.sequence:012d}-{short_digest(text)}.json", text


def decode_commit(name: str, text: bytes) -> Commit:
    """Decode a commit; the inverse of `encode_commit`.

    Raises:
        ArchiveDamagedError: the bytes do not match the digest in the name.
        ArchiveVersionError: a newer program wrote the commit.
    """
    if short_digest(text) != name.rpartition("-")[2].removesuffix(".json"):
        raise ArchiveDamagedError(name, "the digest of the commit differs from the digest in its name")
    values = json.loads(text)
    check_format(values.get("format"), name)
    return Commit(
        sequence=values["sequence"],
        time=values["time"],
        add=(*(ImageRecord(**each) for each in values["images"]), *(EditsRecord(**each) for each in values["edits"])),
        remove=tuple(values["remove"]),
        branches=tuple(Branch(**each) for each in values["branches"]),
        replaces=tuple(values["replaces"]),
    )


def check_format(found: object, name: str) -> None:
    """Raise ArchiveVersionError unless `found` is the format of this program."""
    if found != FORMAT:
        raise ArchiveVersionError(
            f"{name}: the archive has format {found}, and this program supports format {FORMAT}",
            hint="Use the release of the checkpointer that wrote the archive, or a newer release.",
        )


def short_digest(content: bytes) -> str:
    """Return the digest that object names contain."""
    return hashlib.sha256(content).hexdigest()[:_DIGEST]


def branch_after(parent: str, fork: int, md5: str) -> Branch:
    """Return the branch after transaction `fork` of `parent`; its name depends only on the arguments."""
    return Branch(f"after-{fork}-{md5[:8]}", parent, fork)
