"""The job of one run of `checkpointer lake append`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hadoop_common.cli.output import echo, load_configuration

if TYPE_CHECKING:
    from archive.moments import RestorePlan
    from site_config.checkpoint_config import CheckpointConfig

MASTER = "local[2]"
MEMORY = "1g"


class PastState(NamedTuple):
    """A moment in an archive, and the cluster's configuration, on which some rules of replay depend."""

    archive: str
    as_of: str
    key_file: Path | None
    conf_dir: Path | None


@dataclass(frozen=True, slots=True)
class LakeJob:
    """The image and the edits that a run appends to a lake, and the settings of the run."""

    image: str | None
    edits: Sequence[str]
    past: PastState | None = None
    lake: str = ""
    cluster: str = ""
    tables: Sequence[str] = ()
    retain: int = 0
    master: str = MASTER
    memory: str = MEMORY


def configured_job(conf_dir: Path) -> LakeJob:
    """Return the job for the newest image and all edits of the configured directories."""
    from image_tools.cli.image_file import newest_of
    from site_config.checkpoint_config import CheckpointConfig
    from site_config.report import likely_role

    configuration = load_configuration(conf_dir)
    config = CheckpointConfig.from_configuration(configuration, likely_role(configuration))
    images = [each for each in config.image_directories if each.is_dir()]
    return LakeJob(
        str(newest_of(images)) if images else None,
        edits_directories(config),
        lake=config.lake_directory,
        retain=config.lake_images_retained,
        master=config.lake_master,
        memory=config.lake_driver_memory,
    )


def edits_directories(config: CheckpointConfig) -> tuple[str, ...]:
    """Return the directories from which the role reads edits: directories of shared edits, fetched edits, or images."""
    if config.shared_edits_directory is not None:
        return (str(config.shared_edits_directory),)
    if config.shared_edits:
        echo(f"the edits in {config.shared_edits} are not in a directory, so only the image is appended", err=True)
        return ()
    folders = config.edits_directories or config.image_directories
    return tuple(str(each) for each in folders if each.is_dir())


@contextmanager
def image_of(job: LakeJob) -> Iterator[tuple[str | None, int | None]]:
    """Yield the path and time of the image; a past image is restored, and its time is its last transaction's time."""
    if job.past is None:
        yield job.image, None
        return
    from archive.cli.options import configured_settings, restored_moment
    from archive.restoring import RestoreOptions
    from journal.op_times import op_time
    from journal.segment_file import read_ops

    archive, as_of, key_file, conf_dir = job.past
    options = RestoreOptions(settings=configured_settings(conf_dir))
    with restored_moment(archive, key_file, as_of, options, None) as (plan, made):
        times = (op_time(op) or 0 for segment in made.source.segments[-1:] for op in read_ops(segment))
        yield str(made.image), max(times, default=0) or _time_of(plan)


def _time_of(plan: RestorePlan) -> int:
    """Return the time of an archived image: the time of the adjacent edits, or the time of archiving."""
    ending = (each.record.last_time for each in plan.view.pieces if each.last == plan.txid == each.record.last)
    following = (each.record.first_time for each in plan.view.pieces if each.record.first == plan.txid + 1)
    return max(ending, default=0) or max(following, default=0) or plan.base.added
