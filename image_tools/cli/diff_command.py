"""`checkpointer image diff`: compares two fsimages."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted
from image_format.reader import ImageFile
from image_tools.cli.memory_options import memory_bound
from image_tools.compare.comparison import ImageComparison
from image_tools.compare.difference import ChangeKind, Difference

_DIFFERENT = 1
_MAX_VALUE_CHARS = 200


@click.command("diff")
@click.argument("first", metavar="A", type=EXISTING_FILE)
@click.argument("second", metavar="B", type=EXISTING_FILE)
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of differences to print, 0 for all.",
)
@click.option("--ignore-replay-times", is_flag=True, help="Ignore snapshot times that NameNodes set during replay.")
@memory_bound
def command(first: Path, second: Path, as_json: bool, limit: int, ignore_replay_times: bool) -> None:
    """Compare the contents of two images; exit with code 0 if they are equal, with 1 if they differ.

    The comparison ignores the order of records, serial numbers of the string table, and compression. Below a renamed
    directory, and below a deleted directory in a snapshot, the command lists only inodes that have themselves changed.

    Before layout -66, operations on snapshots have no time. A NameNode that replays them sets the modification time of
    the directory and its snapshots to the time of its own clock. In Hadoop 3.4 and newer, ordered deletion sets the
    times of the snapshots that it marks in the same way. --ignore-replay-times ignores these times.

    \b
    Example: checkpointer image diff fsimage_0000000000000000042 fsimage_0000000000000000099
    """
    with (
        ImageFile.open(first, verify_md5=False, allow_unknown_layout=True) as a,
        ImageFile.open(second, verify_md5=False, allow_unknown_layout=True) as b,
        ProgressObserver(show=not as_json) as observer,
    ):
        comparison = ImageComparison(a, b)
        observer.phase("compare", min(comparison.inodes))
        counts: Counter[str] = Counter()
        shown: list[Difference] = []
        for difference in comparison.differences(observer.advance):
            if ignore_replay_times and comparison.is_replay_time(difference):
                continue
            counts[f"{difference.topic.value} {difference.kind.value}"] += 1
            if not limit or len(shown) < limit:
                shown.append(comparison.named(difference))
    if as_json:
        total = counts.total()
        listed = [difference_content(difference) for difference in shown]
        echo_json({"same": not total, "total": total, "counts": counts, "differences": listed})
    else:
        _print(shown, counts, comparison.inodes)
    if counts:
        sys.exit(_DIFFERENT)


def _print(shown: list[Difference], counts: Counter[str], inodes: tuple[int, int]) -> None:
    for difference in shown:
        echo(difference_line(difference))
    if not counts:
        echo(f"the same: {counted(inodes[0], 'inode')}")
        return
    if left := counts.total() - len(shown):
        echo(f"... and {left} more; --limit 0 prints all")
    echo(f"{counted(counts.total(), 'difference')}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


def difference_line(difference: Difference) -> str:
    parts = [f"{difference.kind.value:<8}", difference.topic.value, difference.subject]
    if difference.detail:
        parts.append(f"({difference.detail})")
    if difference.attribute:
        parts.append(f"{difference.attribute}:")
    if difference.kind in (ChangeKind.CHANGED, ChangeKind.RENAMED):
        parts.append(f"{_value(difference.old)} -> {_value(difference.new)}")
    elif (value := difference.old or difference.new) is not None:
        parts.append(f"[{_value(value)}]")
    return " ".join(filter(None, parts))


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        value = f"[{', '.join(map(str, value))}]"
    text = str(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}... ({len(text)} characters)"


def difference_content(difference: Difference) -> dict[str, Any]:
    content = {
        "topic": difference.topic.value,
        "kind": difference.kind.value,
        "subject": difference.subject,
        "attribute": difference.attribute,
        "old": difference.old,
        "new": difference.new,
        "inode": difference.inode_id,
        "detail": difference.detail,
    }
    return {name: value for name, value in content.items() if value not in (None, "")}
