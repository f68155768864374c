"""How the lake changes: a plan that is written whole, carried out step by step, and by the next process if need be.

    inodes/txid=N/…             Parquet of one image
    edits/day=YYYY-MM-DD/…      Parquet of transactions, a file named by the txids of the append it came with
    _commits/images/N.json      says that all of an image is there
    _commits/edits/A-B.json     says that all transactions A .. B are there
    _staging/RUN/…              what is being written; Spark's readers do not look into names that begin with `_`

An append writes its Parquet files below `_staging/RUN`, then `plan.json` there, which names every file to move and the
commit to write. Before that file is there nothing of the run counts, and the next run removes it. From then on the
run only moves files, and if it is killed the next one goes on where it was. Each move is one rename, so that a file
(or a whole image) appears at once; on object stores, where a rename of a directory is a copy, `read_lake_images` and
`read_lake_edits` look at the commits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.lake.errors import LakeError
from pipeline.lake.files import HadoopFiles
from pipeline.lake.txid_ranges import TxidRange

INODES, EDITS, STAGING = "inodes", "edits", "_staging"
_IMAGE_COMMITS, _EDITS_COMMITS = "_commits/images", "_commits/edits"
_PLAN = "plan.json"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does to the lake once its files are written.

    Attributes:
        run: name of its folder below `_staging`.
        moves: from a path within that folder to one in the lake, or with `back` the other way round.
        commit: the commit that is written in the end; "" for none.
        about: what the commit says.
        uncommit: the commit that is removed first; "" for none.
        back: whether files leave the lake.
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
    """Txids of the images that are there whole, ascending."""
    return sorted(int(name) for name in _commits(files, _IMAGE_COMMITS))


def committed_edits(files: HadoopFiles) -> list[TxidRange]:
    """The transactions that are there whole, a range for each append."""
    pairs = [name.split("-") for name in _commits(files, _EDITS_COMMITS)]
    return sorted(TxidRange(int(first), int(last)) for first, last in pairs)


def _commits(files: HadoopFiles, folder: str) -> list[str]:
    return [name.removesuffix(_SUFFIX) for name in files.names(folder) if name.endswith(_SUFFIX)]


def unfinished(files: HadoopFiles) -> list[str]:
    """Runs that were killed, or are under way."""
    return files.names(STAGING)


def finish_others(files: HadoopFiles) -> None:
    """Carry out the plans of runs that were killed, and remove what others of them left; with the lock held."""
    for run in unfinished(files):
        if _PLAN in files.names(f"{STAGING}/{run}"):
            _move(files, Plan(**files.read_json(f"{STAGING}/{run}/{_PLAN}")))
        else:
            files.remove(f"{STAGING}/{run}")


def carry_out(files: HadoopFiles, plan: Plan) -> None:
    """Write the plan, then do what it says; with the lock held."""
    files.write_json(f"{STAGING}/{plan.run}/{_PLAN}", asdict(plan))
    _move(files, plan)


def _move(files: HadoopFiles, plan: Plan) -> None:
    if plan.uncommit:
        files.remove(plan.uncommit)
    for staged, place in plan.moves:
        inside = f"{STAGING}/{plan.run}/{staged}"
        source, target = (place, inside) if plan.back else (inside, place)
        if files.exists(source):
            files.move(source, target)
        elif not plan.back and not files.exists(target):
            raise LakeError(f"{files.uri(source)} is gone", hint="Restore it, or append to a new lake.")
    if plan.commit and not files.exists(plan.commit):
        files.write_json(plan.commit, plan.about)
    files.remove(f"{STAGING}/{plan.run}/{_PLAN}")  # first, so that a kill leaves no plan of which half is gone
    files.remove(f"{STAGING}/{plan.run}")
