"""`checkpointer image verify`: checks an fsimage and optionally writes a repaired copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.disk_space import disk_space
from hadoop_common.file_kind import HEAD_BYTES, FileKind, file_kind
from hadoop_common.quantities import counted
from hadoop_common.regular_file import open_regular
from image_format.errors import ImageFormatError, MissingDigestError
from image_format.md5_file import md5_path
from image_tools.cli.image_file import IMAGE
from image_tools.cli.memory_options import memory_bound
from image_tools.verify.catalogue import Severity

if TYPE_CHECKING:
    from image_tools.verify.checker import Progress, Verification
    from image_tools.verify.repair import Repair

_NEW = click.Path(dir_okay=False, path_type=Path)
_LISTED = 20
_NO_DIGEST = "digest-missing"
_NO_DIGEST_HINT = (
    "Copy the .md5 file from the source of the image. A NameNode does not load an image without this file; "
    "--repair OUT writes a copy with a new .md5 file for the present bytes."
)
_HINT = "Use an intact copy of the image, or write a repaired copy with --repair OUT."
_BEYOND_REPAIR = (
    "Use an intact copy of the image, or an older image with its edits (`checkpointer merge`). This image is beyond "
    "repair."
)


@click.command("verify")
@click.argument("path", metavar="FSIMAGE", type=IMAGE)
@click.option("--repair", "output", metavar="OUT", type=_NEW, help="Write a repaired copy, OUT.md5 and a report.")
@click.option("--report", metavar="FILE", type=_NEW, help="File for the report (default: OUT.report.json).")
@click.option(
    "--drop-unreachable", is_flag=True, help="Drop unreachable inodes instead of attaching them to /lost+found."
)
@click.option("--force", is_flag=True, help="Replace an existing OUT and report.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_LISTED,
    show_default=True,
    help="Number of findings to list for each kind; counts and the report include all findings.",
)
@json_option
@memory_bound
def command(
    path: Path, output: Path | None, report: Path | None, drop_unreachable: bool, force: bool, limit: int, as_json: bool
) -> None:
    """Check an image completely: digest, file structure, each record, and consistency between records.

    FSIMAGE is an image, or a storage directory with its newest image.

    Exit code 0: valid (perhaps with warnings and infos), or repaired. 3: damaged, without an .md5 file, or beyond
    repair; then nothing is written. The image itself is never changed. docs/verify.md lists all codes and their
    repairs.

    \b
    Example: checkpointer image verify /data/nn/current/fsimage_0000000000000000042
             checkpointer image verify fsimage_0000000000000000042 --repair repaired/fsimage_0000000000000000042
    """
    from image_tools.verify.checker import verify_image
    from image_tools.verify.repair import repair_image

    if output is None:
        if report is not None or drop_unreachable or force:
            raise click.UsageError("--report, --drop-unreachable and --force need --repair")
        with _progress(show=not as_json) as progress:
            found = verify_image(path, limit=limit, progress=progress)
        _show_findings(found, as_json=as_json)
        return
    target = report or output.with_name(output.name + ".report.json")
    _check_targets(path, output, target, force=force)
    if not as_json:
        echo(disk_space(output.absolute().parent, path.stat().st_size).estimate(), err=True)
    with _progress(show=not as_json) as progress:
        done = repair_image(path, output, target, drop=drop_unreachable, progress=progress)
    _show_repair(done, target, limit, as_json=as_json)


def _check_targets(path: Path, output: Path, report: Path, *, force: bool) -> None:
    """Refuse to overwrite the image or its digest file; without --force, refuse to overwrite any file."""
    sources = {path.resolve(), md5_path(path).resolve()}
    targets = [output, md5_path(output), report]
    if sources & {target.resolve() for target in targets}:
        raise click.UsageError("an image cannot be repaired in place; choose another name or directory for OUT")
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError("the report must not be the image or its digest file")
    existing = [str(target) for target in targets if target.exists()]
    if existing and not force:
        raise click.UsageError(f"{', '.join(existing)} already exists; --force replaces it")


@contextmanager
def _progress(*, show: bool) -> Iterator[Progress]:
    """Report each step as a progress phase of unknown length."""
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
                f"{found.path}: valid; txid {found.txid}, {counted(found.inodes, 'inode')}, "
                f"directories with children: {found.directories}"
            )
    if not found.valid:
        severities = found.findings.severities
        errors, warnings = severities[Severity.ERROR], severities[Severity.WARNING]
        if errors == found.findings.counts[_NO_DIGEST]:
            raise MissingDigestError(
                "the content is consistent, but without an .md5 file the bytes cannot be verified",
                file=str(found.path),
                hint=_NO_DIGEST_HINT,
            )
        if kind := _other_kind(found):
            raise ImageFormatError(f"the file is {kind.name}, not an fsimage", file=str(found.path), hint=kind.hint)
        counts_text = f"{counted(errors, 'error')} and {counted(warnings, 'warning')}"
        raise ImageFormatError(f"the image has {counts_text}", file=str(found.path), hint=_hint(found))


def _other_kind(found: Verification) -> FileKind | None:
    """Return the kind of a file that is not an image, if its first bytes identify it."""
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
            f"warning: no digest confirms the bytes of {done.source}: "
            "the copy and its new .md5 file include any undetected changes of values",
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
    echo(f"{done.output}: {counted(sum(counts.values()), 'repair')}, MD5 {done.md5}; report {report}")


def _echo_unlisted(counts: Counter[str], listed: Counter[str]) -> None:
    for code, count in sorted((counts - listed).items()):
        echo(f"… and {count} more {code}")
