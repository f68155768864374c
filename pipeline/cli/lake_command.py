"""`checkpointer lake`: appends images and edits to permanent tables, and lists the content of a lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration, terminal_width
from hadoop_common.text_layout import table_lines
from pipeline.cli.spark_command import spark_for

if TYPE_CHECKING:
    from pipeline.lake import LakeContents
    from site_config.checkpoint_config import CheckpointConfig

_MASTER = "local[2]"
_MEMORY = "1g"


@click.group("lake")
def command() -> None:
    """Keep images and edits as Parquet tables, for any engine that reads Parquet.

    LAKE/inodes/txid=N contains the inodes of one image, LAKE/edits/day=YYYY-MM-DD the transactions of a day (UTC).
    """


@command.command("append")
@conf_option(required=False)
@click.option("--image", help="An image, or a storage directory with its newest image.")
@click.option("--edits", multiple=True, help="A directory of finalized segments, or one segment. May be repeated.")
@click.option(
    "--retain", type=click.IntRange(min=0), help="Number of images to keep, 0 for all (default: --conf, or 0)."
)
@click.option("--master", help=f"Spark's master (default: --conf, or {_MASTER}).")
@click.option("--driver-memory", help=f"Heap of Spark's driver (default: --conf, or {_MEMORY}).")
@json_option
@click.argument("lake", required=False)
def append(
    conf_dir: Path | None,
    image: str | None,
    edits: tuple[str, ...],
    retain: int | None,
    master: str | None,
    driver_memory: str | None,
    as_json: bool,
    lake: str | None,
) -> None:
    """Append an image and edits to LAKE. Existing content never changes, so a second run appends nothing.

    With --conf the command appends the newest image and all finalized segments of the configured directories to
    checkpointer.lake.dir. Paths may be URIs of any file system that Spark knows, such as hdfs:// and s3a://. The next
    run finishes a run that was killed. Only one process may append at a time.

    \b
    Examples:
      checkpointer lake append --conf /etc/hadoop/conf
      checkpointer lake append --image /data/nn/current --edits /data/nn/current hdfs://nn/warehouse/hdfs
    Exit codes: 0 done, 2 wrong usage or no Spark, 3 image damaged, 4 edits damaged, 6 lake unusable
    """
    job = _configured(conf_dir) if conf_dir else _Job(None, (), "")
    job = _Job(
        image if image or edits else job.image,
        edits if image or edits else job.edits,
        lake or job.lake,
        job.retain if retain is None else retain,
        master or job.master,
        driver_memory or job.memory,
    )
    if not job.lake:
        raise click.UsageError("name the lake, or set checkpointer.lake.dir and use --conf")
    if job.image is None and not job.edits:
        raise click.UsageError("use --conf, or --image or --edits")
    _append(job, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Job:
    image: str | None
    edits: Sequence[str]
    lake: str
    retain: int = 0
    master: str = _MASTER
    memory: str = _MEMORY


def _configured(conf_dir: Path) -> _Job:
    from site_config.checkpoint_config import CheckpointConfig
    from site_config.report import likely_role

    configuration = load_configuration(conf_dir)
    config = CheckpointConfig.from_configuration(configuration, likely_role(configuration))
    images = [str(each) for each in config.image_directories if each.is_dir()]
    return _Job(
        images[0] if images else None,
        _edits_directories(config),
        config.lake_directory,
        config.lake_images_retained,
        config.lake_master,
        config.lake_driver_memory,
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


def _append(job: _Job, *, as_json: bool) -> None:
    from pipeline.input_checks import check_image

    if job.image is not None:
        check_image(job.image)
    with spark_for(job.master, job.memory) as spark:
        from pipeline.lake import append_edits, append_image, retain_images

        image = append_image(spark, job.image, job.lake) if job.image is not None else None
        appended = [append_edits(spark, each, job.lake) for each in job.edits]
        removed = retain_images(spark, job.lake, job.retain) if job.retain else []
    ranges = [each for one in appended for each in one.ranges]
    missing = list(appended[-1].missing) if appended else []
    if as_json:
        spans = {"edits": ranges, "missing": missing}
        found = {name: [each._asdict() for each in span] for name, span in spans.items()}
        echo_json({"lake": job.lake, "image": image, "removedImages": removed, **found})
        return
    echo("no new image" if image is None else f"image {image} appended")
    for each in ranges:
        echo(f"transactions {each.first} .. {each.last} appended")
    if not ranges:
        echo("no new transactions")
    for txid in removed:
        echo(f"image {txid} removed")
    for each in missing:
        echo(f"the lake lacks transactions {each.first} .. {each.last}", err=True)


@command.command("list")
@click.option("--master", default=_MASTER, show_default=True, help="Spark's master.")
@json_option
@click.argument("lake")
def list_(master: str, as_json: bool, lake: str) -> None:
    """List the images and the transactions of LAKE.

    \b
    Example: checkpointer lake list hdfs://nn/warehouse/hdfs --json
    Exit codes: 0 done, 2 wrong usage or no Spark, 6 lake unusable
    """
    with spark_for(master, _MEMORY, small=True) as spark:
        from pipeline.lake import LakeError, lake_contents

        contents = lake_contents(spark, lake)
    if not contents.images and not contents.edits:
        raise LakeError(
            f"no lake exists at {lake}", hint="Check the path, or create a lake: `checkpointer lake append`."
        )
    if as_json:
        echo_json(contents.as_dict())
    else:
        _print(contents)


def _print(contents: LakeContents) -> None:
    images = [[str(image["txid"]), f"{image['rows']:,}", f"{image['bytes']:,}"] for image in contents.images]
    edits = [[str(each.first), str(each.last), f"{each.last - each.first + 1:,}"] for each in contents.edits]
    for titles, rows in ((("image", "inodes", "bytes"), images), (("first", "last", "transactions"), edits)):
        for line in table_lines(titles, rows, right=[True] * 3, width=terminal_width()):
            echo(line)
        echo("")
    for each in contents.missing:
        echo(f"missing: {each.first} .. {each.last}")
