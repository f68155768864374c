"""Changes of the lake: each run first writes a plan, then executes it; after a kill the next process continues.

    inodes/txid=N/…             Parquet of one image
    edits/day=YYYY-MM-DD/…      Parquet of transactions, named by the first and last txid of their append
    _commits/images/N.json      marks an image as complete
    _commits/edits/A-B.json     marks the transactions A .. B as complete
    _staging/RUN/…              files of an unfinished run; Spark's readers skip names that begin with `_`

An append writes its Parquet files to `_staging/RUN`, then `plan.json` there. The plan names every file to move and the
commit to write. Until the plan exists, the run has no effect, and the next run removes its files. After that the run
only moves files; if it is killed, the next run continues the moves. Each move is one rename, so a file (or a whole
image) appears at once. On object stores a rename of a directory is a copy; therefore `read_lake_images` and
`read_lake_edits` rely only on the commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from pipeline.errors import LakeError
from pipeline.lake.files import HadoopFiles


class TxidRange(NamedTuple):
    """Transactions `first` .. `last`, both included."""

    first: int
    last: int


def merge(ranges: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the same transactions in as few ranges as possible, ascending."""
    merged: list[TxidRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1].last + 1:
            merged[-1] = TxidRange(merged[-1].first, max(merged[-1].last, last))
        else:
            merged.append(TxidRange(first, last))
    return merged


def subtract(ranges: Iterable[TxidRange], taken: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the transactions of `ranges` outside of `taken`, in as few ranges as possible."""
    left = []
    known = merge(taken)
    for whole in merge(ranges):
        first = whole.first
        for away in known:
            if away.last < first or away.first > whole.last:
                continue
            if away.first > first:
                left.append(TxidRange(first, away.first - 1))
            first = away.last + 1
        if first <= whole.last:
            left.append(TxidRange(first, whole.last))
    return left


def holes(ranges: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the gaps between the first and the last transaction of `ranges`."""
    merged = merge(ranges)
    return [TxidRange(one.last + 1, two.first - 1) for one, two in itertools.pairwise(merged)]


INODES, EDITS, STAGING = "inodes", "edits", "_staging"
_IMAGE_COMMITS, _EDITS_COMMITS = "_commits/images", "_commits/edits"
_PLAN = "plan.json"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class LakePlan:
    """The changes that a run makes once its files are written.

    Attributes:
        run: name of its folder below `_staging`.
        moves: pairs of a path within that folder and a path in the lake.
        commit: the commit to write last; "" for none.
        about: content of the commit.
        uncommit: the commit to remove first; "" for none.
        back: whether files move from the lake to the folder, in order to be removed.
    """

    run: str
    moves: Sequence[Sequence[str]]
    commit: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    uncommit: str = ""
    back: bool = False


def image_commit(txid: int) -> str:
    return f"{_IMAGE_COMMITS}/{txid}{_SUFFIX}"


def edits_commit(taken: TxidRange) -> str:
    return f"{_EDITS_COMMITS}/{taken.first}-{taken.last}{_SUFFIX}"


def committed_images(files: HadoopFiles) -> list[int]:
    """Return the txids of the complete images, ascending."""
    return sorted(int(name) for name in _commits(files, _IMAGE_COMMITS))


def committed_edits(files: HadoopFiles) -> list[TxidRange]:
    """Return the complete transactions, one range for each append."""
    pairs = [name.split("-") for name in _commits(files, _EDITS_COMMITS)]
    return sorted(TxidRange(int(first), int(last)) for first, last in pairs)


def _commits(files: HadoopFiles, folder: str) -> list[str]:
    return [name.removesuffix(_SUFFIX) for name in files.names(folder) if name.endswith(_SUFFIX)]


def unfinished(files: HadoopFiles) -> list[str]:
    """Return the runs that were killed or are in progress."""
    return files.names(STAGING)


def finish_killed_runs(files: HadoopFiles) -> None:
    """Execute the plans of killed runs, and remove killed runs without a plan. The caller holds the lock."""
    for run in unfinished(files):
        if _PLAN in files.names(f"{STAGING}/{run}"):
            _move(files, LakePlan(**files.read_json(f"{STAGING}/{run}/{_PLAN}")))
        else:
            files.remove(f"{STAGING}/{run}")


def execute(files: HadoopFiles, plan: LakePlan) -> None:
    """Write the plan, then execute it. The caller holds the lock."""
    files.write_json(f"{STAGING}/{plan.run}/{_PLAN}", asdict(plan))
    _move(files, plan)


def _move(files: HadoopFiles, plan: LakePlan) -> None:
    if plan.uncommit:
        files.remove(plan.uncommit)
    for staged, place in plan.moves:
        inside = f"{STAGING}/{plan.run}/{staged}"
        source, target = (place, inside) if plan.back else (inside, place)
        if files.exists(source):
            files.move(source, target)
        elif not plan.back and not files.exists(target):
            raise LakeError(f"{files.uri(source)} is missing", hint="Restore it, or append to a new lake.")
    if plan.commit and not files.exists(plan.commit):
        files.write_json(plan.commit, plan.about)
    files.remove(f"{STAGING}/{plan.run}/{_PLAN}")  # first, so that a kill never leaves a plan without its files
    files.remove(f"{STAGING}/{plan.run}")
