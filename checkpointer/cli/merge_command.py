"""`checkpointer merge`: an offline checkpoint of a storage directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkpointer.cli.output import ProgressObserver, conf_option, echo_json, json_option, load_configuration
from checkpointer.config import image_codec
from checkpointer.offline import MergePlan, check_image, merge_directory, plan_directory
from checkpointer.storage.lock import StorageLock


@click.command("merge")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@conf_option(required=False)
@json_option
def command(directory: Path, conf_dir: Path | None, as_json: bool) -> None:
    """Merge a stopped NameNode's storage directory: newest image + finalized edits give a new image beside them.

    DIR/current holds VERSION, fsimage_N and edits_*. Old files stay as they are, and so does an in-progress
    segment, which is named. With no newer edits nothing is written.

    \b
    Example: checkpointer merge /data/nn --conf /etc/hadoop/conf
    """
    codec = None if conf_dir is None else image_codec(load_configuration(conf_dir))
    with StorageLock(directory):
        plan = plan_directory(directory)
        if not plan.segments:
            check_image(plan)
            _report(as_json, plan, {"merged": False, "txid": plan.image_txid}, "nothing to merge")
            return
        with ProgressObserver(show=not as_json) as observer:
            result = merge_directory(plan, codec=codec, observer=observer)
    timings = result.timings
    content = {
        "merged": True,
        "baseTxid": result.base_txid,
        "txid": result.txid,
        "transactions": result.transactions,
        "inodes": result.inodes,
        "image": str(result.saved.paths[0]),
        "md5": result.saved.md5,
        "size": result.saved.size,
        "seconds": {"load": timings.load, "replay": timings.replay, "save": timings.save},
    }
    text = (
        f"{content['image']}: {result.inodes} inodes, {result.transactions} transactions merged "
        f"(load {timings.load:.2f} s, replay {timings.replay:.2f} s, save {timings.save:.2f} s)"
    )
    _report(as_json, plan, content, text)


def _report(as_json: bool, plan: MergePlan, content: dict[str, Any], text: str) -> None:
    left_alone = [str(path) for path in plan.in_progress]
    if as_json:
        echo_json({**content, "inProgress": left_alone})
        return
    click.echo(f"{text}; newest transaction is {content['txid']}")
    for path in left_alone:
        click.echo(f"left alone, still in progress: {path}")
