"""`checkpointer lake report`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archive.cli.audit_option import audit_option
from hadoop_common.cli.output import echo, echo_json, json_option, print_table
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted
from pipeline.libraries import LAKE, require_libraries

if TYPE_CHECKING:
    from pipeline.lake.activity import Activity
    from pipeline.lake.growth import Growth, GrowthRow


@click.command("report")
@click.option("--cluster", default="", metavar="NAME", help="Cluster, if the lake contains several.")
@click.option("--last", type=click.IntRange(2), default=10, show_default=True, help="Number of newest images.")
@click.option("--since", metavar="TIME", help="Report only images from this time on, UTC, e.g. 2026-11-01.")
@click.option("--depth", type=click.IntRange(1, 20), default=2, show_default=True, help="Levels of directories.")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows in a table.")
@audit_option
@json_option
@click.argument("lake")
def command(
    cluster: str, last: int, since: str | None, depth: int, top: int, audit: tuple[Path, ...], as_json: bool, lake: str
) -> None:
    """Report growth over the newest images of LAKE, and operations by day and user since the oldest of these images.

    The counts of a directory include everything below it. Rows are sorted by their change from the oldest to the newest
    image; --json contains the totals of every image, and each user's operations of every day. Edits contain only the
    users who create inodes. With --audit, the command reads the users from the NameNode's audit logs, and interprets
    the times in these logs in this host's time zone. It then also counts opens (files opened for reading) and lookups
    (listings, status and other queries).

    The command runs without Spark. `checkpointer report LAKE` makes the full report of one image.

    \b
    Examples:
      checkpointer lake report hdfs://nn/warehouse/hdfs --last 30 --depth 3
      checkpointer lake report hdfs://nn/warehouse/hdfs --audit '/var/log/hdfs-audit.log*'
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    require_libraries(LAKE)
    from archive.audit import read_audit
    from pipeline.lake import LakeError, images_in_lake, require_lake
    from pipeline.lake.activity import measure_activity
    from pipeline.lake.growth import measure_growth
    from pipeline.lake.reading import parse_time

    start = None if since is None else parse_time(since)
    if since is not None and start is None:
        raise click.BadParameter(f"{since!r} is not a time such as 2026-11-01", param_hint="--since")
    require_lake(lake)
    images = [image for image in images_in_lake(lake, cluster) if start is None or image.time >= start][-last:]
    if len(images) < 2:
        raise LakeError(
            f"growth needs two images, and {lake} has {len(images)}" + (f" since {since}" if since else ""),
            hint="Append another image: checkpointer lake append."
            + (" An earlier --since includes older images." if since else ""),
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
        print_table(("bytes", "change", "files", "change", name), [_growth_cells(row) for row in rows[:top]])


def _growth_cells(row: GrowthRow) -> list[str]:
    totals, change = row.totals[-1], row.change
    return [f"{totals.bytes:,}", f"{change.bytes:+,}", f"{totals.files:,}", f"{change.files:+,}", row.name]


def _print_activity(activity: Activity, top: int) -> None:
    """Print the newest days and the busiest users; without audit logs, only the users who created inodes are known."""
    for each in activity.missing:
        echo(f"the lake lacks transactions {each.first} .. {each.last}", err=True)
    if not activity.days and not activity.users:
        echo("no operations: the lake has no edits of this cluster and time")
        return
    days = [(day, activity.by_kind(kinds), activity.users_of(day)) for day, kinds in activity.days.items()][-top:]
    titles = tuple(activity.by_kind({}))
    print_table(
        (*titles, "users", "day"),
        [[*(f"{number:,}" for number in (*kinds.values(), users)), day] for day, kinds, users in days],
    )
    of_users = titles if activity.audited else titles[1:2]
    rows = []
    for name, by_day in [*activity.users.items()][:top]:
        kinds = activity.by_kind(sum(by_day.values(), Counter()))
        rows.append([*(f"{kinds[kind]:,}" for kind in of_users), str(len(by_day)), name])
    print_table((*of_users, "days", "user"), rows)
