"""`checkpointer merge`: an offline checkpoint of a storage directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli.dry_run_report import dry_run_content, dry_run_text, ignored_text
from engine.healing import HealingMode
from engine.settings import MergeSettings
from hadoop_common.cli.output import EXISTING_FOLDER, conf_option, echo, echo_json, json_option, load_configuration
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.configuration import Configuration
from hadoop_common.quantities import counted
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import memory_limited, memory_options, with_options
from site_config.engine_settings import EngineChoice, EngineSettings, engine_settings
from site_config.keys import SHARED_EDITS_DIR
from site_config.merge_settings import memory_limit, merge_settings

# Memory for everything except the tables: 200 MB, including the overhead that a memory limit adds for threads. The
# margin of a large limit is a quarter, because a backlog of edits also needs memory for each changed directory.
_MIN_BESIDE_TABLES = 136 << 20
_IN_USE_HINT = (
    "Leave that process alone: it may be the NameNode, for which a daemon makes the checkpoints. --dry-run also works "
    "while the directory is in use; to write an image, merge a copy of the directory."
)

if TYPE_CHECKING:
    from checkpointer.merging.offline import MergePlan
    from engine.saver import MergeResult
    from hadoop_common.disk_space import DiskSpace


@click.command("merge")
@click.argument("directory", metavar="DIR", type=EXISTING_FOLDER)
@conf_option(required=False)
@click.option(
    "--in-progress", is_flag=True, help="Also read segments in progress, each up to its last readable transaction."
)
@click.option(
    "--layout",
    type=click.IntRange(NEWEST_LAYOUT, MIN_MERGE_LAYOUT),
    metavar="N",
    help=f"Layout version of the new image, {MIN_MERGE_LAYOUT.value} .. {NEWEST_LAYOUT.value} "
    "(default: the old image's).",
)
@click.option(
    "--engine",
    type=click.Choice([each.value for each in EngineChoice]),
    help="Engine of the merge (default: checkpoint.engine in --conf, else local).",
)
@click.option("--master", metavar="URL", help="Spark's master, such as local[4] (default: as configured).")
@click.option("--dry-run", is_flag=True, help="Replay and report what the merge would do; write nothing.")
@click.option("--strict", is_flag=True, help="Refuse inconsistent snapshots instead of healing them.")
@click.option(
    "--as-hadoop",
    is_flag=True,
    help="Do not heal; write the image that Hadoop would write, even if NameNodes cannot load it.",
)
@click.option("--allow-unknown-layout", is_flag=True, help="Merge an image of an unknown, newer layout (see above).")
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
    """Merge a stopped NameNode's storage directory: the newest image and the finalized edits become a new image.

    DIR/current contains VERSION, fsimage_N and edits_*. The new image is also written there; existing files are not
    changed. A segment in progress is skipped and reported unless --in-progress is given. Without newer edits, nothing
    is written.

    For a newer --layout, the merge first converts the old image, and then replays by the rules of the new layout. For
    an older --layout, it replays by the rules of the old image, and then converts the result. If the older layout
    cannot represent the contents, the merge fails with exit code 5, as `image convert` does. VERSION is not changed:
    after --layout -67 on a directory of Hadoop 2, start the new release on it with -upgrade, as for every upgrade. The
    old release cannot load the new image, so delete that image and its .md5 file before you return to the old release.
    Work on a copy of the directory.

    --allow-unknown-layout copies contents that it cannot interpret, and stops at an edit that affects them. Edits of an
    unknown layout are always refused.

    Renames, snapshots and symlinks together can lead to a namespace that a NameNode can save, but not load. The merge
    heals such inconsistencies in the new image without losing a file or directory that has a path. It reports each
    inconsistency in one line, in the terms of `image verify` (--json: `healed`). --strict refuses inconsistencies with
    exit code 4 (3 if they are in the old image). --as-hadoop is for comparisons with Hadoop's own images.

    The merge counts operations that change nothing, neither here nor on a NameNode (--json: `ignored`).
    docs/opcodes.md lists them.

    --engine spark merges on Spark, which needs the extra `spark`, and writes the same bytes, but cannot convert
    layouts. --engine auto selects Spark if a master is set and Spark can make the checkpoint.

    --dry-run reads, replays and builds the image without writing or locking anything. It also works while a NameNode
    uses the directory, and on a read-only directory. It reports the transactions, the numbers of created, changed and
    deleted inodes, the size of the new image, the free space, and what would be healed. It takes about as long as the
    merge, and exits with the same code.

    First, the merge reports the free space and an estimate of the new image's size, which is about that of the old
    image and the edits. If the space may be too small, the merge determines the exact size before it writes the image.
    If the space is too small, it writes nothing and exits with code 6. It also exits with code 6 if it needs 200 MB
    more than --memory (a quarter more if --memory is at least 800 MB). Without --memory, the limit is three quarters of
    the system's available memory.

    \b
    Examples:
      checkpointer merge /data/nn --conf /etc/hadoop/conf
      checkpointer merge /data/nn --conf /etc/hadoop/conf --dry-run
      checkpointer merge /copy/of/nn --layout -67
      checkpointer merge /data/nn --engine spark --master local[4]
    """
    if strict and as_hadoop:
        raise click.UsageError("--strict and --as-hadoop cannot be used together.")
    from checkpointer.merging.dry_run import expected_room
    from checkpointer.merging.offline import check_image, plan_directory
    from checkpointer.merging.older_image import naming_older_image

    configuration = None if conf_dir is None else load_configuration(conf_dir)
    healing = HealingMode.STRICT if strict else HealingMode.AS_HADOOP if as_hadoop else HealingMode.HEAL
    limit = MemoryLimit() if configuration is None else memory_limit(configuration)
    settings = merge_settings(configuration)
    settings = replace(
        settings,
        layout_version=layout,
        allow_unknown_layout=allow_unknown_layout,
        rules=replace(settings.rules, healing=healing),
        memory=with_options(limit, memory, spill_dir),
    )
    with ExitStack() as stack:
        stack.enter_context(nullcontext() if dry_run else _locked(directory))
        plan = plan_directory(directory, in_progress=in_progress, allow_unknown_layout=allow_unknown_layout)
        stack.enter_context(naming_older_image(plan, conf_dir))
        for shared in _shared_edits(configuration, directory):
            echo(f"note: edits that exist only in {shared} are not read; docs/edits.md shows how to add them", err=True)
        for path in plan.irregular:
            echo(f"warning: {path} is not a regular file and is skipped", err=True)
        if plan.start_over is not None:
            reason = f"{plan.start_over.cause}; docs/runbook.md explains whether they can be used"
            echo(f"warning: a daemon does not use the images and edits in {plan.folder}: {reason}", err=True)
        if not plan.segments:
            check_image(plan, layout_version=layout, allow_unknown_layout=allow_unknown_layout)
            content = {"merged": False, "txid": plan.image_txid} | ({"dryRun": True} if dry_run else {})
            if layout is not None:
                echo("note: --layout is not applied: `checkpointer image convert` converts an image", err=True)
            _report(as_json, plan, content, "nothing to merge")
            return
        room = expected_room(plan)
        if not as_json:
            echo(room.estimate("this may be too little, so the exact size is computed first"), err=True)
        if dry_run:
            if engine == EngineChoice.SPARK.value or master is not None:
                raise click.UsageError("--dry-run works only with the local engine: omit --engine and --master.")
            _dry_run(plan, settings, as_json=as_json)
            return
        result = _merge(plan, settings, _engine(configuration, engine, master), room, show=not as_json)
    _report_merge(plan, settings, result, as_json=as_json)


def _shared_edits(configuration: Configuration | None, directory: Path) -> list[str]:
    """Return the journals that the NameNodes of the configuration share, except the merged directory."""
    if configuration is None:
        return []
    name = SHARED_EDITS_DIR.name
    found = [configuration.get(key, "") for key in sorted(configuration.keys()) if f"{key}.".startswith(f"{name}.")]
    merged = directory.resolve()
    return [
        each for each in dict.fromkeys(filter(None, found)) if Path(each.removeprefix("file://")).resolve() != merged
    ]


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a storage directory.

    Raises:
        StorageInUseError: another process uses the directory.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(StorageLock(directory))
        except StorageInUseError as error:
            raise StorageInUseError(error.message, hint=_IN_USE_HINT) from error
        yield


def _dry_run(plan: MergePlan, settings: MergeSettings, *, as_json: bool) -> None:
    from checkpointer.merging.dry_run import dry_run

    with ProgressObserver(show=not as_json) as observer, _bounded(settings.memory, EngineSettings()):
        found = dry_run(plan, settings, observer=observer)
    for warning in found.warnings:
        echo(f"warning: {warning}", err=True)
    content = dry_run_content(found) | {"versionFileLayout": plan.version_layout}
    _report(as_json, plan, content, dry_run_text(found))
    found.check_room()


def _merge(
    plan: MergePlan, settings: MergeSettings, engine: EngineSettings, room: DiskSpace, *, show: bool
) -> MergeResult:
    from checkpointer.merging.dry_run import dry_run
    from checkpointer.merging.offline import merge_directory

    with ProgressObserver(show=show) as observer, _bounded(settings.memory, engine):
        if not room.enough:
            # raises an error before the first write if the exact size is too large
            dry_run(plan, settings, observer=observer).check_room()
        return merge_directory(plan, settings, engine=engine, observer=observer)


def _report_merge(plan: MergePlan, settings: MergeSettings, result: MergeResult, *, as_json: bool) -> None:
    timings, image = result.timings, result.saved.paths[0]
    content = {
        "merged": True,
        "baseTxid": result.base_txid,
        "txid": result.txid,
        "transactions": result.transactions,
        "ignored": result.ignored,
        "inodes": result.inodes,
        "engine": result.engine,
        "image": str(image),
        "md5": result.saved.md5,
        "size": result.saved.size,
        "layoutVersion": result.layout_version,
        "versionFileLayout": plan.version_layout,
        "warnings": list(result.warnings),
        "healed": [asdict(healed) for healed in result.healed],
        "seconds": {"load": timings.load, "replay": timings.replay, "save": timings.save},
    }
    text = (
        f"{image}: {counted(result.inodes, 'inode')}, {counted(result.transactions, 'transaction')} merged "
        f"(load {timings.load:.2f} s, replay {timings.replay:.2f} s, save {timings.save:.2f} s)"
    )
    if result.layout_version != plan.version_layout:
        echo(
            f"note: the image has layout {result.layout_version}, but VERSION still has {plan.version_layout}; start "
            "a NameNode of another release with -upgrade",
            err=True,
        )
    for warning in (*result.warnings, *_other_codec(image, settings.codec)):
        echo(f"warning: {warning}", err=True)
    if result.ignored:
        echo(f"note: {ignored_text(result.ignored)}", err=True)
    for healed in result.healed:
        echo(f"healed: {healed}", err=True)
    _report(as_json, plan, content, text)


def _other_codec(image: Path, wanted: str | None) -> Iterator[str]:
    """Yield a warning if an image does not have the configured codec."""
    if not wanted:
        return
    from image_format.codec_choice import advice_on_codec, class_of
    from image_format.reader import ImageFile

    with ImageFile.open(image, verify_md5=False, allow_unknown_layout=True) as written:
        if written.codec != wanted:
            yield f"the image has {class_of(written.codec)}. {advice_on_codec(wanted, written.layout_version)}"


def _bounded(memory: MemoryLimit, engine: EngineSettings) -> AbstractContextManager[None]:
    """Limit the memory of a local merge to the limit of its tables plus a margin for everything else.

    Tables beyond their limit are stored in files. Spark's processes have separate limits.
    """
    if engine.choice is not EngineChoice.LOCAL:
        return nullcontext()
    if memory.size is None:
        return memory_limited(None)
    return memory_limited(memory.size + max(_MIN_BESIDE_TABLES, memory.size // 4))


def _engine(configuration: Configuration | None, name: str | None, master: str | None) -> EngineSettings:
    settings = EngineSettings() if configuration is None else engine_settings(configuration)
    if name is not None:
        settings = replace(settings, choice=EngineChoice(name))
    return settings if master is None else replace(settings, spark=replace(settings.spark, master=master))


def _report(as_json: bool, plan: MergePlan, content: dict[str, Any], text: str) -> None:
    left_out = [str(path) for path in plan.in_progress]
    if as_json:
        read = [
            {
                "file": str(item.segment.path),
                "firstTxid": item.segment.first,
                "lastTxid": item.segment.last,
                "cutBytes": item.cut_bytes,
            }
            for item in plan.opened
        ]
        echo_json({**content, "inProgress": left_out, "inProgressRead": read})
        return
    for line in f"{text}; newest transaction is {content['txid']}".split("\n"):
        echo(line)
    for item in plan.opened:
        cut = f", {item.cut_bytes} bytes after it are not a transaction" if item.cut_bytes else ""
        echo(f"read, still in progress: {item.segment.path} up to txid {item.segment.last}{cut}")
    for path in left_out:
        echo(f"skipped, still in progress: {path}")
