"""`checkpointer archive split`: moves the objects of one of several clusters to a new archive."""

from __future__ import annotations

import os
from pathlib import Path

import click

from archive.cli.options import archive_options
from archive.clusters import move_cluster
from hadoop_common.cli.output import PRIVATE_UMASK, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted


@click.command("split")
@archive_options
@click.option(
    "--block-pool", required=True, metavar="ID", help="Block pool id of the cluster (blockpoolID in VERSION)."
)
@click.option("--to", "target", required=True, metavar="DIR_OR_URL", help="Directory or URL of the new archive.")
@click.option("--immutable", is_flag=True, help="Only append objects, for stores with an object lock.")
@json_option
def command(location: str, key_file: Path | None, block_pool: str, target: str, immutable: bool, as_json: bool) -> None:
    """Move the objects of one of several clusters in an archive to a new archive, with all archived moments.

    `checkpointer archive check` shows whether an archive contains several clusters. The command verifies the copies and
    lists them in the new archive before it removes the originals from the catalogue of the old archive. It deletes no
    objects, and can be repeated after an interruption.

    \b
    Example:
      checkpointer archive split --archive s3://bucket/hdfs --block-pool BP-1-10.0.0.1-1 --to s3://bucket/hdfs-2
    """
    from archive.archive import open_archive

    os.umask(PRIVATE_UMASK)
    with (
        open_archive(location, key_file, immutable=immutable) as archive,
        open_archive(target, key_file, immutable=immutable) as separate,
        ProgressObserver(show=not as_json) as observer,
    ):
        observer.phase("copy", None)
        moved = move_cluster(archive, block_pool, separate, observer.advance)
        old, new = archive.store.location, separate.store.location
    info, size = moved.info, sum(each.stored for each in moved.records)
    if as_json:
        echo_json(
            {
                "clusterId": info.cluster_id,
                "namespaceId": info.namespace_id,
                "blockPoolId": info.blockpool_id,
                "objects": len(moved.records),
                "bytes": size,
                "txid": moved.newest_txid,
            }
        )
        return
    echo(f"{new} contains {counted(len(moved.records), 'object')} of {info.namespace_text}: {size:,} bytes")
    echo(f"newest transaction {moved.newest_txid}; the originals remain in {old}, which no longer lists them")
    check = "checkpointer archive check --archive"
    echo(f"next: `{check} {new}`, then `{check} {old} --repair`")
