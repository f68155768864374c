"""`checkpointer image verify`: whether an fsimage is consistent, and a repaired copy of one that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.disk_room import disk_room
from hadoop_common.file_kind import HEAD_BYTES, FileKind, file_kind
from hadoop_common.quantities import counted
from hadoop_common.regular_file import open_regular
from image_format.errors import ImageFormatError, MissingDigestError
from image_format.md5_file import md5_path
from image_tools.cli.image_argument import IMAGE
from image_tools.cli.memory_options import memory_bound
from image_tools.verify.catalogue import Severity

if TYPE_CHECKING:
    from image_tools.verify.checker import Progress, Verification
    from image_tools.verify.repair import Repair

_NEW = click.Path(dir_okay=False, path_type=Path)
_LISTED = 20
_NO_DIGEST = "digest-missing"
_NO_DIGEST_HINT = (
    "Copy the .md5 file from where the image comes from. A NameNode does not load an image without it; "
    "--repair OUT writes a copy with a new one, which vouches for the bytes as they are now."
)
_HINT = "Run it again with --repair OUT to write a repaired copy, or use an intact copy of the image."
_BEYOND_REPAIR = (
    "Use an intact copy of the image, or an older one with its edits (`checkpointer merge`). This one is beyond "
    "repair: no repaired copy of it can be written."
)


@click.command("verify")
@click.argument("path", metavar="FSIMAGE", type=IMAGE)
@click.option("--repair", "output", metavar="OUT", type=_NEW, help="Write a repaired copy, OUT.md5 and a report.")
@click.option("--report", metavar="FILE", type=_NEW, help="Where the report goes (default: OUT.report.json).")
@click.option("--drop-unreachable", is_flag=True, help="Drop unreachable inodes instead of attaching to /lost+found.")
@click.option("--force", is_flag=True, help="Replace an existing OUT and report.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_LISTED,
    show_default=True,
    help="Findings listed of each kind; all are counted, and the report has all.",
)
@json_option
@memory_bound
def command(
    path: Path, output: Path | None, report: Path | None, drop_unreachable: bool, force: bool, limit: int, as_json: bool
) -> None:
    """Check an image and everything in it: digest, frame, each record, and whether they are consistent.

    FSIMAGE is an image, or a storage directory, whose newest image is checked.

    Exit code 0: valid (warnings and infos may be there), or repaired. 3: damaged, without an .md5 file (which is
    said), or beyond repair; then nothing is written. The image itself is never changed. docs/verify.md lists the codes
    and what a repair does about each.

    \b
    Example: checkpointer image verify /data/nn/current/fsimage_0000000000000000042
             checkpointer image verify fsimage_0000000000000000042 --repair repaired/fsimage_0000000000000000042
    """
    from image_tools.verify.checker import verify_image
    from image_tools.verify.repair import repair_image

    if output is None:
        if report is not None or drop_unreachable or force:
            raise click.UsageError("--report, --drop-unreachable and --force go with --repair")
        with _progress(show=not as_json) as progress:
            found = verify_image(path, limit=limit, progress=progress)
        _show_findings(found, as_json=as_json)
        return
    target = report or output.with_name(output.name + ".report.json")
    _check_targets(path, output, target, force=force)
    if not as_json:
        echo(disk_room(output.absolute().parent, path.stat().st_size).estimate(), err=True)
    with _progress(show=not as_json) as progress:
        done = repair_image(path, output, target, drop=drop_unreachable, progress=progress)
    _show_repair(done, target, limit, as_json=as_json)


def _check_targets(path: Path, output: Path, report: Path, *, force: bool) -> None:
    """Neither the image nor its digest file is overwritten, nor anything else without --force."""
    sources = {path.resolve(), md5_path(path).resolve()}
    targets = [output, md5_path(output), report]
    if sources & {target.resolve() for target in targets}:
        raise click.UsageError("an image is not repaired in place; give OUT another name or directory")
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError("the report must not be the image or its digest file")
    existing = [str(target) for target in targets if target.exists()]
    if existing and not force:
        raise click.UsageError(f"{', '.join(existing)} exists already; --force replaces it")


@contextmanager
def _progress(*, show: bool) -> Iterator[Progress]:
    """Each step is a phase; how long it takes is not known beforehand."""
    with ProgressObserver(show=show) as observer:
        yield lambda step: observer.phase(step, None)


def _show_findings(found: Verification, *, as_json: bool) -> None:
    if as_json:
        echo_json(found.as_dict())
    else:
        for finding in found.findings.listed:
            echo(str(finding))
        _echo_unlisted(found.findings.counts, Counter(finding.code for finding in found.findings.listed))
        if found.valid:
            echo(
                f"{found.path}: valid; txid {found.txid}, {found.inodes} inodes, "
                f"{found.directories} directories with children"
            )
    if not found.valid:
        severities = found.findings.severities
        errors, warnings = severities[Severity.ERROR], severities[Severity.WARNING]
        if errors == found.findings.counts[_NO_DIGEST]:
            raise MissingDigestError(
                "its contents are consistent, but without an .md5 file nobody can say that they are what was written",
                file=str(found.path),
                hint=_NO_DIGEST_HINT,
            )
        if kind := _other_kind(found):
            raise ImageFormatError(f"it is {kind.name}, not an fsimage", file=str(found.path), hint=kind.hint)
        told = f"{counted(errors, 'error')} and {counted(warnings, 'warning')}"
        raise ImageFormatError(f"the image has {told}", file=str(found.path), hint=_hint(found))


def _other_kind(found: Verification) -> FileKind | None:
    """What the file is, where it is no image and its first bytes tell."""
    if not found.findings.counts["frame-magic"]:
        return None
    with open_regular(found.path) as source:
        return file_kind(source.read(HEAD_BYTES))


def _hint(found: Verification) -> str:
    findings = found.findings
    blocked = findings.unrepairable is not None or findings.counts["frame-layout-unknown"]
    return _BEYOND_REPAIR if blocked else _HINT


def _show_repair(done: Repair, report: Path, limit: int, *, as_json: bool) -> None:
    counts = Counter(finding.code for finding in done.changes)
    if not done.digest_checked:
        echo(
            f"warning: the digest did not confirm the bytes of {done.source}: "
            "changed values that satisfy all rules are in the copy, too, and its .md5 file vouches for them",
            err=True,
        )
    if as_json:
        echo_json(
            {
                "file": str(done.source),
                "repaired": done.output is not None,
                "output": done.output,
                "report": None if done.output is None else report,
                "txid": done.txid,
                "md5": done.md5 or None,
                "digestChecked": done.digest_checked,
                "changes": sum(counts.values()),
                "counts": dict(sorted(counts.items())),
                "left": len(done.left),
            }
        )
        return
    if done.output is None:
        echo(f"{done.source}: nothing to repair, nothing written")
        return
    shown: Counter[str] = Counter()
    for finding in done.changes:
        if shown[finding.code] < limit:
            shown[finding.code] += 1
            echo(f"repaired {finding}" + (f"; {finding.change}" if finding.change else ""))
    _echo_unlisted(counts, shown)
    echo(f"{done.output}: {sum(counts.values())} repairs, MD5 {done.md5}; report {report}")


def _echo_unlisted(counts: Counter[str], listed: Counter[str]) -> None:
    for code, count in sorted((counts - listed).items()):
        echo(f"… and {count} more {code}")
