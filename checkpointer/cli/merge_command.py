"""`checkpointer merge`: an offline checkpoint of a storage directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli.dry_run_report import dry_run_content, dry_run_text, ignored_text
from engine.healing import Healing
from engine.replay_rules import ReplayRules
from engine.settings import MergeSettings
from hadoop_common.cli.existing_path import EXISTING_FOLDER
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.configuration import Configuration
from hadoop_common.storage_lock import StorageLock
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import held, memory_options, with_options
from site_config.engine_settings import EngineChoice, EngineSettings, engine_settings
from site_config.memory_settings import memory_limit
from site_config.merge_settings import image_codec, max_op_size, replay_rules, sub_section_rule

# With the little that a bound leaves for threads, 200 MB.
_BESIDE_TABLES = 136 << 20

if TYPE_CHECKING:
    from checkpointer.merging.offline import MergePlan


@click.command("merge")
@click.argument("directory", metavar="DIR", type=EXISTING_FOLDER)
@conf_option(required=False)
@click.option(
    "--in-progress", is_flag=True, help="Read segments in progress too, each up to its last good transaction."
)
@click.option(
    "--layout", type=int, metavar="N", help="Layout version of the new image, -60 .. -67 (default: as the old)."
)
@click.option(
    "--engine",
    type=click.Choice([each.value for each in EngineChoice]),
    help="What merges (default: checkpoint.engine of --conf, else local).",
)
@click.option("--master", metavar="URL", help="Spark's master, such as local[4] (default: as configured).")
@click.option("--dry-run", is_flag=True, help="Replay and report what the merge would do; write nothing.")
@click.option("--strict", is_flag=True, help="Refuse inconsistent snapshots instead of healing them.")
@click.option("--as-hadoop", is_flag=True, help="Heal nothing: write what Hadoop would, even if no NameNode loads it.")
@click.option("--allow-unknown-layout", is_flag=True, help="Merge an image newer than every known layout (see above).")
@memory_options("index and edits", configured=True)
@json_option
def command(
    directory: Path,
    conf_dir: Path | None,
    in_progress: bool,
    layout: int | None,
    engine: str | None,
    master: str | None,
    dry_run: bool,
    strict: bool,
    as_hadoop: bool,
    allow_unknown_layout: bool,
    memory: int | None,
    spill_dir: Path | None,
    as_json: bool,
) -> None:
    """Merge a stopped NameNode's storage directory: newest image + finalized edits give a new image beside them.

    DIR/current holds VERSION, fsimage_N and edits_*. Old files stay as they are, and so does an in-progress
    segment, which is named; with --in-progress it is read too, but not changed. With no newer edits nothing is
    written.

    --layout with a newer layout than the old image's converts the old image first and replays by the rules of the new
    layout. With an older layout it replays by the rules of the old image's and converts the result; what that layout
    has no place for is refused with exit code 5, as `image convert` refuses it. VERSION is left alone: after
    --layout -67 on a directory of Hadoop 2, start the new release on it with -upgrade, as for every upgrade; the old
    release does not load the new image, so delete it and its .md5 file before going back. Work on a copy of the
    directory.

    --allow-unknown-layout copies what is not understood and stops at an edit that touches it. Edits of an unknown
    layout are always refused.

    Renames, snapshots and symlinks together can bring a NameNode to a namespace whose image it could not load.
    Such inconsistencies are healed in the new image, without loss of what a path leads to, and reported one per line in
    the terms of `image verify` (--json: `healed`). --strict refuses them with exit code 4 (3 where they are in the
    old image); --as-hadoop is for comparing with Hadoop's own images.

    Operations that change nothing, as on a NameNode, are counted (--json: `ignored`); docs/opcodes.md lists them.

    --engine spark merges on Spark (pip install 'hdfs-checkpointer[spark]') and writes the same bytes; it converts no
    layouts. auto takes it for large images, or where a master is given.

    --dry-run reads, replays and makes the image, but writes nothing and takes no lock, so that it also goes beside
    a running NameNode and on a read-only directory. It reports the transactions, how many inodes are created, changed
    and deleted, the size of the new image and whether there is room for it, and what would be healed. It ends with
    the exit code that the merge would end with, and takes about its time.

    The room that the new image takes, about the size of the old one and of the edits, and what is free are told
    first. Where that may not be enough, the image is made without being written to see whether it is; if not, the merge
    ends with exit code 6 and has written nothing. So it does where it needs 200 MB more than --memory, or without that
    option more than three quarters of what the system has left.

    \b
    Examples:
      checkpointer merge /data/nn --conf /etc/hadoop/conf
      checkpointer merge /data/nn --conf /etc/hadoop/conf --dry-run
      checkpointer merge /copy/of/nn --layout -67
      checkpointer merge /data/nn --engine spark --master local[4]
    """
    if strict and as_hadoop:
        raise click.UsageError("--strict and --as-hadoop exclude each other.")
    from checkpointer.merging.offline import check_image, merge_directory, plan_directory
    from checkpointer.merging.older_image import naming_older_image

    configuration = None if conf_dir is None else load_configuration(conf_dir)
    rules = ReplayRules() if configuration is None else replay_rules(configuration)
    healing = Healing.STRICT if strict else Healing.AS_HADOOP if as_hadoop else Healing.HEAL
    configured = MemoryLimit() if configuration is None else memory_limit(configuration)
    settings = MergeSettings(
        codec=None if configuration is None else image_codec(configuration),
        layout_version=layout,
        allow_unknown_layout=allow_unknown_layout,
        sub_sections=None if configuration is None else sub_section_rule(configuration),
        rules=replace(rules, healing=healing),
        memory=with_options(configured, memory, spill_dir),
    )
    if configuration is not None:
        settings = replace(settings, max_op_size=max_op_size(configuration))
    with ExitStack() as stack:
        stack.enter_context(nullcontext() if dry_run else StorageLock(directory))
        plan = plan_directory(directory, in_progress=in_progress, allow_unknown_layout=allow_unknown_layout)
        stack.enter_context(naming_older_image(plan))
        for path in plan.oddities:
            echo(f"warning: {path} is not a regular file and is left out", err=True)
        if not plan.segments:
            check_image(plan, layout_version=layout, allow_unknown_layout=allow_unknown_layout)
            told = {"merged": False, "txid": plan.image_txid} | ({"dryRun": True} if dry_run else {})
            _report(as_json, plan, told, "nothing to merge")
            return
        from checkpointer.merging.dry_run import dry_run as measure
        from checkpointer.merging.dry_run import expected_room

        room = expected_room(plan)
        if not as_json:
            echo(room.estimate("maybe too little, the image is measured first"), err=True)
        if dry_run:
            if engine == EngineChoice.SPARK.value or master is not None:
                raise click.UsageError("--dry-run works with the local engine only: omit --engine and --master.")
            with ProgressObserver(show=not as_json) as observer, _bounded(settings.memory, EngineSettings()):
                found = measure(plan, settings, observer=observer)
            for warning in found.warnings:
                echo(f"warning: {warning}", err=True)
            content = dry_run_content(found) | {"versionFileLayout": plan.version_layout}
            _report(as_json, plan, content, dry_run_text(found))
            found.check_room()
            return
        runner = _engine(configuration, engine, master)
        with ProgressObserver(show=not as_json) as observer, _bounded(settings.memory, runner):
            if not room.enough:
                # the exact size decides, before the first byte is written
                measure(plan, settings, observer=observer).check_room()
            result = merge_directory(plan, settings, engine=runner, observer=observer)
    timings = result.timings
    content = {
        "merged": True,
        "baseTxid": result.base_txid,
        "txid": result.txid,
        "transactions": result.transactions,
        "ignored": result.ignored,
        "inodes": result.inodes,
        "engine": result.engine,
        "image": str(result.saved.paths[0]),
        "md5": result.saved.md5,
        "size": result.saved.size,
        "layoutVersion": result.layout_version,
        "versionFileLayout": plan.version_layout,
        "warnings": list(result.warnings),
        "healed": [asdict(healed) for healed in result.healed],
        "seconds": {"load": timings.load, "replay": timings.replay, "save": timings.save},
    }
    text = (
        f"{content['image']}: {result.inodes} inodes, {result.transactions} transactions merged "
        f"(load {timings.load:.2f} s, replay {timings.replay:.2f} s, save {timings.save:.2f} s)"
    )
    if result.layout_version != plan.version_layout:
        echo(
            f"note: the image is of layout {result.layout_version}, VERSION still says {plan.version_layout}; "
            "a NameNode of another release takes the directory over with -upgrade",
            err=True,
        )
    for warning in (*result.warnings, *_other_codec(result.saved.paths[0], settings.codec)):
        echo(f"warning: {warning}", err=True)
    if result.ignored:
        echo(f"note: {ignored_text(result.ignored)}", err=True)
    for healed in result.healed:
        echo(f"healed: {healed}", err=True)
    _report(as_json, plan, content, text)


def _other_codec(image: Path, wanted: str | None) -> Iterator[str]:
    """Say why an image has another codec than the configured one."""
    if not wanted:
        return
    from image_format.codec_choice import advice_on_codec, class_of
    from image_format.reader import ImageFile

    with ImageFile.open(image, verify_md5=False, allow_unknown_layout=True) as written:
        if written.codec != wanted:
            yield f"the image has {class_of(written.codec)}. {advice_on_codec(wanted, written.layout_version)}"


def _bounded(memory: MemoryLimit, engine: EngineSettings) -> AbstractContextManager[None]:
    """What goes beyond the limit of the tables is in files; all else of a merge here has room beside them.

    Spark's processes have bounds of their own.
    """
    if engine.choice is not EngineChoice.LOCAL:
        return nullcontext()
    return held(None if memory.size is None else memory.size + _BESIDE_TABLES)


def _engine(configuration: Configuration | None, name: str | None, master: str | None) -> EngineSettings:
    settings = EngineSettings() if configuration is None else engine_settings(configuration)
    if name is not None:
        settings = replace(settings, choice=EngineChoice(name))
    return settings if master is None else replace(settings, spark=replace(settings.spark, master=master))


def _report(as_json: bool, plan: MergePlan, content: dict[str, Any], text: str) -> None:
    left_alone = [str(path) for path in plan.in_progress]
    read = [
        {
            "file": str(item.segment.path),
            "firstTxid": item.segment.first,
            "lastTxid": item.segment.last,
            "cutBytes": item.cut_bytes,
        }
        for item in plan.opened
    ]
    if as_json:
        echo_json({**content, "inProgress": left_alone, "inProgressRead": read})
        return
    for line in f"{text}; newest transaction is {content['txid']}".split("\n"):
        echo(line)
    for item in read:
        cut = f", {item['cutBytes']} bytes after it are not a transaction" if item["cutBytes"] else ""
        echo(f"read, still in progress: {item['file']} up to txid {item['lastTxid']}{cut}")
    for path in left_alone:
        echo(f"left alone, still in progress: {path}")
