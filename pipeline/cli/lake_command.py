"""`checkpointer lake`: appends images and edits to Delta tables, lists them, and reports growth."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from archive.cli.audit_option import audit_option
from hadoop_common.cli.output import (
    EXISTING_FILE,
    conf_option,
    echo,
    echo_json,
    json_option,
    load_configuration,
    terminal_width,
)
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted
from hadoop_common.text_layout import table_lines
from pipeline.cli.spark_command import context_for

if TYPE_CHECKING:
    from pipeline.lake import AppendedEdits, LakeContents
    from pipeline.lake.activity import Activity
    from pipeline.lake.growth import Growth, GrowthRow
    from pipeline.lake.lake import ImageInLake
    from site_config.checkpoint_config import CheckpointConfig

_MASTER = "local[2]"
_MEMORY = "1g"
_CONF_DIR = "HADOOP_CONF_DIR"


@click.group("lake")
def command() -> None:
    """Keep images and edits as Delta tables, for any engine that reads Delta Lake or Parquet.

    LAKE/inodes and the other tables of images have a partition for each cluster and txid, LAKE/edits one for each
    cluster and day (UTC). LAKE/images has a row for each image.
    """


@command.command("append")
@conf_option(required=False)
@click.option("--image", help="An image, or a storage directory with its newest image.")
@click.option("--edits", multiple=True, help="A directory of finalized segments, or one segment. May be repeated.")
@click.option("--archive", metavar="DIR_OR_URL", help="Append a past image that this archive restores, with --as-of.")
@click.option("--as-of", metavar="MOMENT", help="Moment of --archive: a txid, or a time such as 2026-11-28T14:03:00Z.")
@click.option("--key-file", type=EXISTING_FILE, metavar="FILE", help="Key of an encrypted archive.")
@click.option("--cluster", default="", metavar="NAME", help="Name of the cluster (default: the one in VERSION).")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Table of the image (default: all but blocks).")
@click.option(
    "--retain", type=click.IntRange(min=0), help="Images of this cluster to keep, 0 for all (default: --conf, or 0)."
)
@click.option("--master", help=f"Spark's master (default: --conf, or {_MASTER}).")
@click.option("--driver-memory", help=f"Heap of Spark's driver (default: --conf, or {_MEMORY}).")
@json_option
@click.argument("lake", required=False)
def append(
    conf_dir: Path | None,
    image: str | None,
    edits: tuple[str, ...],
    archive: str | None,
    as_of: str | None,
    key_file: Path | None,
    cluster: str,
    tables: tuple[str, ...],
    retain: int | None,
    master: str | None,
    driver_memory: str | None,
    as_json: bool,
    lake: str | None,
) -> None:
    """Append an image and edits to LAKE. Existing rows never change, so a second run appends nothing.

    With --conf the command appends the newest image and all finalized segments of the configured directories to
    checkpointer.lake.dir. IMAGE and EDITS may be URIs of any file system that Spark supports, LAKE of any that the
    library deltalake supports, such as hdfs:// and s3://. For the address of an HDFS with high availability set
    HADOOP_CONF_DIR. The next run completes a run that was killed. Several processes may append at the same time.

    \b
    Examples:
      checkpointer lake append --conf /etc/hadoop/conf
      checkpointer lake append --image /data/nn/current --edits /data/nn/current hdfs://nn/warehouse/hdfs
      checkpointer lake append --archive /backup/hdfs --as-of 2026-01-01T00:00:00Z hdfs://nn/warehouse/hdfs
    Exit codes: 0 done, 2 usage error or no Spark, 3 image damaged, 4 edits damaged, 6 lake unusable
    """
    if (archive is None) != (as_of is None) or (archive and image):
        raise click.UsageError("--archive needs --as-of, and excludes --image")
    _check_tables(tables)
    named = image or edits or archive
    job = _configured(conf_dir) if conf_dir and not named else _LakeJob(None, ())
    job = replace(
        job,
        image=image or job.image,
        edits=edits or job.edits,
        past=_PastState(archive, as_of, key_file, conf_dir) if archive and as_of else None,
        lake=lake or job.lake or (_configured(conf_dir).lake if conf_dir else ""),
        cluster=cluster,
        tables=tables,
        retain=job.retain if retain is None else retain,
        master=master or job.master,
        memory=driver_memory or job.memory,
    )
    if not job.lake:
        raise click.UsageError("name the lake, or set checkpointer.lake.dir and use --conf")
    if job.image is None and not job.edits and job.past is None:
        raise click.UsageError("use --conf, --image, --edits or --archive")
    if conf_dir is not None:
        os.environ.setdefault(_CONF_DIR, str(conf_dir))
    _append(job, as_json=as_json)


class _PastState(NamedTuple):
    """A moment in an archive, and the cluster's configuration, on which some rules of replay depend."""

    archive: str
    as_of: str
    key_file: Path | None
    conf_dir: Path | None


@dataclass(frozen=True, slots=True)
class _LakeJob:
    image: str | None
    edits: Sequence[str]
    past: _PastState | None = None
    lake: str = ""
    cluster: str = ""
    tables: Sequence[str] = ()
    retain: int = 0
    master: str = _MASTER
    memory: str = _MEMORY


def _check_tables(names: Sequence[str]) -> None:
    if names:
        from pipeline.tables.catalogue import IMAGE_TABLES

        for name in names:
            if name not in IMAGE_TABLES:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(IMAGE_TABLES)}", param_hint="--table")


def _configured(conf_dir: Path) -> _LakeJob:
    from image_tools.cli.image_file import newest_of
    from site_config.checkpoint_config import CheckpointConfig
    from site_config.report import likely_role

    configuration = load_configuration(conf_dir)
    config = CheckpointConfig.from_configuration(configuration, likely_role(configuration))
    images = [each for each in config.image_directories if each.is_dir()]
    return _LakeJob(
        str(newest_of(images)) if images else None,
        _edits_directories(config),
        lake=config.lake_directory,
        retain=config.lake_images_retained,
        master=config.lake_master,
        memory=config.lake_driver_memory,
    )


def _edits_directories(config: CheckpointConfig) -> tuple[str, ...]:
    """Return the directories that the role reads edits from: shared, fetched, or those of its images."""
    if config.shared_edits_directory is not None:
        return (str(config.shared_edits_directory),)
    if config.shared_edits:
        echo(f"the edits in {config.shared_edits} are not in a directory, so only the image is appended", err=True)
        return ()
    folders = config.edits_directories or config.image_directories
    return tuple(str(each) for each in folders if each.is_dir())


def _append(job: _LakeJob, *, as_json: bool) -> None:
    from pipeline.input_checks import check_image

    if job.image is not None:
        check_image(job.image)
    with _image_of(job) as (path, time), context_for(job.master, job.memory) as context:
        from pipeline.lake import ImageOptions, append_edits, append_image, retain_images
        from pipeline.lake.append import DEFAULT_TABLES

        options = ImageOptions(job.cluster, job.tables or DEFAULT_TABLES, time)
        image = None if path is None else append_image(context, path, job.lake, options)
        appended = [
            append_edits(context, each, job.lake, image.cluster if image else job.cluster) for each in job.edits
        ]
        cluster = image.cluster if image else job.cluster
        removed = retain_images(job.lake, job.retain, cluster) if job.retain and image else []
    if as_json:
        echo_json(_content(job, image, appended, removed))
    else:
        _print_appended(image, appended, removed)


@contextmanager
def _image_of(job: _LakeJob) -> Iterator[tuple[str | None, int | None]]:
    """Yield the path and time of the image; a past image is restored, and its time is that of its last transaction."""
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
        yield str(made.image), max(times, default=0) or plan.base.added


def _content(
    job: _LakeJob, image: ImageInLake | None, appended: Sequence[AppendedEdits], removed: Sequence[int]
) -> dict[str, object]:
    return {
        "lake": job.lake,
        "image": None if image is None else image.as_dict(),
        "removedImages": list(removed),
        "edits": [{"cluster": one.cluster, **each._asdict()} for one in appended for each in one.ranges],
        "missing": [{"cluster": one.cluster, **each._asdict()} for one in appended[-1:] for each in one.missing],
    }


def _print_appended(image: ImageInLake | None, appended: Sequence[AppendedEdits], removed: Sequence[int]) -> None:
    echo("no new image" if image is None else f"image {image.txid} of {image.cluster} appended")
    ranges = [each for one in appended for each in one.ranges]
    for each in ranges:
        echo(f"transactions {each.first} .. {each.last} appended")
    if not ranges:
        echo("no new transactions")
    for txid in removed:
        echo(f"image {txid} removed")
    for each in appended[-1].missing if appended else ():
        echo(f"the lake lacks transactions {each.first} .. {each.last}", err=True)


@command.command("list")
@json_option
@click.argument("lake")
def list_(as_json: bool, lake: str) -> None:
    """List the images and the transactions of LAKE.

    \b
    Example: checkpointer lake list hdfs://nn/warehouse/hdfs --json
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    from pipeline.lake import lake_contents

    _check_lake(lake)
    contents = lake_contents(lake)
    if as_json:
        echo_json(contents.as_dict())
    else:
        _print(contents)


def _check_lake(lake: str) -> None:
    from pipeline.lake import LakeError, is_lake

    if not is_lake(lake):
        raise LakeError(
            f"no lake exists at {lake}", hint="Check the path, or create a lake: `checkpointer lake append`."
        )


def _print(contents: LakeContents) -> None:
    images = [
        [str(image.txid), f"{image.time:%Y-%m-%d %H:%M}", f"{image.rows:,}", f"{image.bytes:,}", image.cluster]
        for image in contents.images
    ]
    edits = [
        [str(each.first), str(each.last), f"{each.last - each.first + 1:,}", cluster]
        for cluster, ranges in contents.edits.items()
        for each in ranges
    ]
    _print_table(("image", "time", "inodes", "bytes", "cluster"), images)
    _print_table(("first", "last", "transactions", "cluster"), edits)
    for cluster, ranges in contents.missing.items():
        for each in ranges:
            echo(f"missing: {each.first} .. {each.last} of {cluster}")


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column is text."""
    right = [True] * (len(titles) - 1) + [False]
    for line in table_lines(titles, rows, right=right, width=terminal_width()):
        echo(line)
    echo("")


@command.command("report")
@click.option("--cluster", default="", metavar="NAME", help="Cluster, if the lake contains several.")
@click.option("--last", type=click.IntRange(2), default=10, show_default=True, help="Number of newest images.")
@click.option("--since", metavar="TIME", help="Only images from this time on, UTC, e.g. 2026-11-01.")
@click.option("--depth", type=click.IntRange(1, 20), default=2, show_default=True, help="Levels of directories.")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows in a table.")
@audit_option
@json_option
@click.argument("lake")
def report(
    cluster: str, last: int, since: str | None, depth: int, top: int, audit: tuple[Path, ...], as_json: bool, lake: str
) -> None:
    """Report growth over the newest images of LAKE, and operations by day and user since the oldest of them.

    A directory counts everything below it. Rows are sorted by their change from the oldest to the newest image; --json
    contains the totals of every image, and each user's operations of every day. Edits contain only the users who
    create; with --audit, users are those of the NameNode's audit logs, whose times are read in this host's time zone.
    Then opens (files opened for reading) and lookups (listings, status and other queries) are counted, too.

    The command runs without Spark. `checkpointer report LAKE` makes the full report of one image.

    \b
    Examples:
      checkpointer lake report hdfs://nn/warehouse/hdfs --last 30 --depth 3
      checkpointer lake report hdfs://nn/warehouse/hdfs --audit '/var/log/hdfs-audit.log*'
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    from archive.audit import read_audit
    from pipeline.lake import LakeError, images_in_lake
    from pipeline.lake.activity import measure_activity
    from pipeline.lake.growth import measure_growth
    from pipeline.lake.reading import parse_time

    start = None if since is None else parse_time(since)
    if since is not None and start is None:
        raise click.BadParameter(f"{since!r} is not a time such as 2026-11-01", param_hint="--since")
    _check_lake(lake)
    images = [image for image in images_in_lake(lake, cluster) if start is None or image.time >= start][-last:]
    if len(images) < 2:
        raise LakeError(
            f"growth needs two images, and {lake} has {len(images)}", hint="Append another: checkpointer lake append."
        )
    with ProgressObserver(show=not as_json) as observer, observer.ticking():
        growth = measure_growth(lake, images, depth, progress=lambda name: observer.phase(name, None))
        observer.phase("edits", None)
        lines = read_audit(audit) if audit else None
        first = images[0]
        activity = measure_activity(lake, first.cluster, f"{first.time:%Y-%m-%d}", lines, after=first.txid)
    if as_json:
        echo_json({**growth.as_dict(), "operations": activity.as_dict()})
    else:
        _print_growth(growth, top)
        _print_activity(activity, top)


def _print_growth(growth: Growth, top: int) -> None:
    first, last = growth.images[0], growth.images[-1]
    echo(
        f"{counted(len(growth.images), 'image')} of {last.cluster}, from {first.time:%Y-%m-%d %H:%M} (transaction "
        f"{first.txid}) to {last.time:%Y-%m-%d %H:%M} (transaction {last.txid})"
    )
    echo("")
    for name, rows in (("directory", growth.directories), ("owner", growth.owners)):
        _print_table(("bytes", "change", "files", "change", name), [_growth_cells(row) for row in rows[:top]])


def _growth_cells(row: GrowthRow) -> list[str]:
    totals, change = row.totals[-1], row.change
    return [f"{totals.bytes:,}", f"{change.bytes:+,}", f"{totals.files:,}", f"{change.files:+,}", row.name]


def _print_activity(activity: Activity, top: int) -> None:
    """Print the newest days and the busiest users; without audit logs, only the users of creations are known."""
    for each in activity.missing:
        echo(f"the lake lacks transactions {each.first} .. {each.last}", err=True)
    if not activity.days and not activity.users:
        echo("no operations: the lake has no edits of this cluster and time")
        return
    days = [(day, activity.by_kind(kinds), activity.users_of(day)) for day, kinds in activity.days.items()][-top:]
    titles = tuple(activity.by_kind({}))
    _print_table(
        (*titles, "users", "day"),
        [[*(f"{number:,}" for number in (*kinds.values(), users)), day] for day, kinds, users in days],
    )
    of_users = titles if activity.audited else titles[1:2]
    rows = []
    for name, by_day in [*activity.users.items()][:top]:
        kinds = activity.by_kind(sum(by_day.values(), Counter()))
        rows.append([*(f"{kinds[kind]:,}" for kind in of_users), str(len(by_day)), name])
    _print_table((*of_users, "days", "user"), rows)


@command.command("optimize")
@click.option(
    "--hours",
    type=click.IntRange(min=0),
    help="Delete files that only versions older than this use (default: 168). Readers of older versions then fail."
    " Below 168, files of killed appends stay, because a running append may commit them.",
)
@json_option
@click.argument("lake")
def optimize(hours: int | None, as_json: bool, lake: str) -> None:
    """Join small files of LAKE, and delete files that no table refers to any more.

    `lake append` joins the files of each day once the day is over, and deletes files when it removes images. This
    command does both for all tables, and removes the files that killed appends left.

    \b
    Example: checkpointer lake optimize hdfs://nn/warehouse/hdfs
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    from pipeline.lake import join_all, vacuum

    _check_lake(lake)
    join_all(lake)
    deleted = vacuum(lake, hours)
    if as_json:
        echo_json({"lake": lake, "deletedFiles": deleted})
    else:
        echo(f"{counted(deleted, 'file')} deleted")
