"""`checkpointer lake append`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hadoop_common.cli.output import EXISTING_FILE, conf_option, echo, echo_json, json_option
from pipeline.cli.lake_job import MASTER, MEMORY, LakeJob, PastState, configured_job, image_of
from pipeline.cli.spark_command import context_for
from pipeline.libraries import LAKE, require_libraries

if TYPE_CHECKING:
    from pipeline.lake import AppendedEdits
    from pipeline.lake.lake import ImageInLake

_CONF_DIR = "HADOOP_CONF_DIR"


@dataclass(frozen=True, slots=True)
class _Request:
    """The options and the argument of the command; options that were not given are None or empty."""

    conf_dir: Path | None
    image: str | None
    edits: tuple[str, ...]
    archive: str | None
    as_of: str | None
    key_file: Path | None
    cluster: str
    tables: tuple[str, ...]
    retain: int | None
    master: str | None
    memory: str | None
    lake: str | None

    def job(self) -> LakeJob:
        """Return the job, completed by the configuration.

        Raises:
            UsageError: options contradict each other, or the lake or its input is missing.
        """
        if (self.archive is None) != (self.as_of is None) or (self.archive and self.image):
            raise click.UsageError("--archive requires --as-of, and cannot be used with --image")
        _check_tables(self.tables)
        conf_dir, named = self.conf_dir, self.image or self.edits or self.archive
        job = configured_job(conf_dir) if conf_dir and not named else LakeJob(None, ())
        job = replace(
            job,
            image=self.image or job.image,
            edits=self.edits or job.edits,
            past=PastState(self.archive, self.as_of, self.key_file, conf_dir) if self.archive and self.as_of else None,
            lake=self.lake or job.lake or (configured_job(conf_dir).lake if conf_dir and named else ""),
            cluster=self.cluster,
            tables=self.tables,
            retain=job.retain if self.retain is None else self.retain,
            master=self.master or job.master,
            memory=self.memory or job.memory,
        )
        if not job.lake:
            raise click.UsageError("name the lake, or set checkpointer.lake.dir and use --conf")
        if job.image is None and not job.edits and job.past is None:
            raise click.UsageError("use --conf, --image, --edits or --archive")
        return job


@click.command("append")
@conf_option(required=False)
@click.option("--image", help="An image, or a storage directory with its newest image.")
@click.option("--edits", multiple=True, help="A directory of finalized segments, or one segment. May be repeated.")
@click.option("--archive", metavar="DIR_OR_URL", help="Append a past image that this archive restores, with --as-of.")
@click.option("--as-of", metavar="MOMENT", help="Moment of --archive: a txid, or a time such as 2026-11-28T14:03:00Z.")
@click.option("--key-file", type=EXISTING_FILE, metavar="FILE", help="Key of an encrypted archive.")
@click.option("--cluster", default="", metavar="NAME", help="Name of the cluster (default: the cluster in VERSION).")
@click.option(
    "--table", "tables", multiple=True, metavar="NAME", help="Table of the image to append (default: all but blocks)."
)
@click.option(
    "--retain", type=click.IntRange(min=0), help="Images of this cluster to keep, 0 for all (default: --conf, or 0)."
)
@click.option("--master", help=f"Spark's master (default: --conf, or {MASTER}).")
@click.option("--driver-memory", "memory", help=f"Heap of Spark's driver (default: --conf, or {MEMORY}).")
@json_option
@click.argument("lake", required=False)
def command(as_json: bool, **given: Any) -> None:
    """Append an image and edits to LAKE. Existing rows never change, so a second run appends nothing.

    With --conf, the command appends the newest image and all finalized segments of the configured directories to
    checkpointer.lake.dir. IMAGE and EDITS may be URIs of any file system that Spark supports. LAKE may be a URI of any
    file system that the `deltalake` library supports, such as hdfs:// and s3://. To use the logical address of an HDFS
    cluster with high availability, set HADOOP_CONF_DIR. The next run completes a run that was killed. Several processes
    may append at the same time.

    \b
    Examples:
      checkpointer lake append --conf /etc/hadoop/conf
      checkpointer lake append --image /data/nn/current --edits /data/nn/current hdfs://nn/warehouse/hdfs
      checkpointer lake append --archive /backup/hdfs --as-of 2026-01-01T00:00:00Z hdfs://nn/warehouse/hdfs
    Exit codes: 0 done, 2 usage error or no Spark, 3 image damaged, 4 edits damaged, 6 lake unusable
    """
    request = _Request(**given)
    job = request.job()
    if request.conf_dir is not None:
        os.environ.setdefault(_CONF_DIR, str(request.conf_dir))
    _append(job, as_json=as_json)


def _check_tables(names: Sequence[str]) -> None:
    if names:
        from pipeline.tables.catalogue import IMAGE_TABLES

        for name in names:
            if name not in IMAGE_TABLES:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(IMAGE_TABLES)}", param_hint="--table")


def _append(job: LakeJob, *, as_json: bool) -> None:
    require_libraries(LAKE)
    from pipeline.input_checks import check_image

    if job.image is not None:
        check_image(job.image)
    with image_of(job) as (path, time), context_for(job.master, job.memory) as context:
        from pipeline.lake import ImageOptions, append_edits, append_image, retain_images
        from pipeline.lake.append import DEFAULT_TABLES, cluster_of_image

        # the edits of a run belong to the cluster of its image, even if the lake already contains the image
        cluster = job.cluster if path is None else cluster_of_image(context, path, job.lake, job.cluster)
        options = ImageOptions(cluster, job.tables or DEFAULT_TABLES, time)
        image = None if path is None else append_image(context, path, job.lake, options)
        appended = [append_edits(context, each, job.lake, cluster) for each in job.edits]
        removed = retain_images(job.lake, job.retain, cluster) if job.retain and image else []
    if as_json:
        echo_json(_content(job, image, appended, removed))
    else:
        _print_appended(image, appended, removed)


def _content(
    job: LakeJob, image: ImageInLake | None, appended: Sequence[AppendedEdits], removed: Sequence[int]
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
