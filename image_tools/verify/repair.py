"""Repairs an image into a new file, in passes, until verification finds nothing more to repair."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_common.durable import TEMPORARY_SUFFIX, refuse_special, write_atomically
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.names import image_name, parse_image
from image_format.errors import ImageStorageError, RecordError, TransactionIdError
from image_format.output import DigestingFileSet, WrittenFiles
from image_format.publish import place_image
from image_tools.verify.catalogue import CODES
from image_tools.verify.checker import Audit, Progress, audit_image
from image_tools.verify.findings import Finding, Findings, UnrepairableError
from image_tools.verify.fixes import Fixes, write_fixed
from image_tools.verify.inode_fixes import fix_inodes
from image_tools.verify.lost_found import attach_unreachable, drop_unreachable

_MAX_PASSES = 12
_UNREACHABLE = "inode-unreachable"
_UNCHECKED = {"digest-missing", "digest-mismatch"}
# Findings about the file, not its content.
_OUTER = {*_UNCHECKED, "txid-name"}
_HINT = "Use an intact copy of the image, or an older image with its edits."


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair.

    Attributes:
        output: the new image; None if no file was written, because nothing was repaired.
        passes: number of written images, including intermediate images.
        changes: all repaired findings.
        left: findings that remain.
        md5: MD5 of the new image, in hexadecimal; `size`: its size in bytes.
    """

    source: Path
    output: Path | None
    txid: int
    passes: int
    changes: tuple[Finding, ...]
    left: tuple[Finding, ...]
    md5: str = ""
    size: int = 0

    @property
    def digest_checked(self) -> bool:
        """Whether the digest file confirmed the source's bytes, which the new digest cannot show."""
        return not any(finding.code in _UNCHECKED for finding in self.changes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": str(self.source),
            "output": None if self.output is None else str(self.output),
            "txid": self.txid,
            "passes": self.passes,
            "md5": self.md5,
            "size": self.size,
            "digestChecked": self.digest_checked,
            "changes": [_change(finding) for finding in self.changes],
            "left": [finding.as_dict() for finding in self.left],
        }


def _change(finding: Finding) -> dict[str, Any]:
    return {**finding.as_dict(), "change": finding.change or CODES[finding.code].repair}


@dataclass(frozen=True, slots=True)
class _Pass:
    """The result of one pass over an image."""

    audit: Audit
    changes: list[Finding]
    left: list[Finding]
    written: WrittenFiles | None


def repair_image(
    path: Path, output: Path, report: Path, *, drop: bool = False, progress: Progress | None = None
) -> Repair:
    """Write a repaired copy of an image, its digest file and a report; replace existing files.

    Every pass verifies the image of the previous pass. An image is published only when a pass finds nothing more to
    repair. If the first pass finds nothing to repair, no file is written.

    Args:
        path: the image, opened read-only.
        output: the new image; a name fsimage_TXID must contain the image's txid.
        report: JSON file with an entry for each change.
        drop: whether to drop unreachable inodes instead of attaching them to /lost+found.

    Raises:
        UnrepairableError: damage cannot be repaired; nothing was written.
        TransactionIdError: the output's name contains a different txid.
        ImageStorageError: a file cannot be read or written.
    """
    refuse_special(output)
    changes: list[Finding] = []
    with _scratch(output) as scratch:
        source, written = path, None
        for number in range(_MAX_PASSES):
            target = scratch[number % 2]
            step = _run_pass(source, target, first=number == 0, drop=drop, progress=progress)
            if number == 0:
                _check_name(output, step.audit.txid)
            changes += step.changes
            if step.written is None:
                if written is None:
                    return Repair(path, None, step.audit.txid, 0, (), tuple(step.left))
                done = Repair(
                    path,
                    output,
                    step.audit.txid,
                    number,
                    tuple(changes),
                    tuple(step.left),
                    written.md5.hex(),
                    written.size,
                )
                _publish(source, done, report)
                return done
            source, written = target, step.written
    text = f"after {_MAX_PASSES} passes this finding remains: {step.changes[0]}"
    raise UnrepairableError(text, file=str(path), hint=_HINT)


def _run_pass(source: Path, target: Path, *, first: bool, drop: bool, progress: Progress | None) -> _Pass:
    """Check `source`; if repairs are possible, write the result to `target`.

    Raises:
        UnrepairableError: damage cannot be repaired.
    """
    try:
        return _check_and_write(source, target, first, drop, progress)
    except RecordError as error:
        raise UnrepairableError(f"cannot be repaired: {error.message}", file=str(source), hint=_HINT) from error


def _check_and_write(source: Path, target: Path, first: bool, drop: bool, progress: Progress | None) -> _Pass:
    findings, fixes = Findings(), Fixes()
    audit = audit_image(source, findings, fixes, outer=first, progress=progress)
    obstacle = findings.unrepairable
    if findings.counts["frame-layout-unknown"]:
        text = "the layout version is newer than every known version, so its rules are unknown"
        raise UnrepairableError(text, file=str(source), hint=_HINT)
    if obstacle is not None:
        raise UnrepairableError(f"cannot be repaired: {obstacle}", file=str(source), hint=_HINT)
    changes = [finding for finding in findings.listed if finding.wants_repair]
    left = [finding for finding in findings.listed if not finding.wants_repair]
    if not changes:
        return _Pass(audit, changes, left, None)
    codes = {finding.code for finding in changes} - _OUTER
    if codes == {_UNREACHABLE}:
        happened = _place_unreachable(audit, fixes, drop=drop)
        changes = [dataclasses.replace(f, change=happened.get(f.inode or 0, f.change)) for f in changes]
    else:
        # Other repairs may change which inodes are reachable, so unreachable inodes come last.
        changes = [finding for finding in changes if finding.code != _UNREACHABLE]
        assert audit.inodes is not None
        assert audit.strings is not None
        fix_inodes(audit.inodes, audit.strings, fixes)
    if progress is not None:
        progress("write")
    return _Pass(audit, changes, left, _write(audit, fixes, target))


def _place_unreachable(audit: Audit, fixes: Fixes, *, drop: bool) -> dict[int, str]:
    assert audit.tree is not None
    if drop:
        return drop_unreachable(audit.tree, fixes)
    return attach_unreachable(audit.tree, audit.txid, fixes)


def _write(audit: Audit, fixes: Fixes, target: Path) -> WrittenFiles:
    frame, strings = audit.frame, audit.strings
    assert frame is not None
    assert strings is not None
    table = strings.encode()
    if table is not None:
        fixes.replace("STRING_TABLE", 0, strings.size, table)
    with DigestingFileSet([target]) as files:
        write_fixed(frame, fixes, files.write)
        written = files.close()
    if frame.mapped is not None:
        frame.mapped.check_whole()
    return written


def _check_name(output: Path, txid: int) -> None:
    named = parse_image(output.name)
    if named is not None and named.txid != txid:
        text = f"the name has transaction {named.txid}, but NS_INFO has {txid}"
        hint = f"Name it {image_name(txid, named.rollback)}."
        raise TransactionIdError(text, file=str(output), hint=hint)


@contextmanager
def _scratch(output: Path) -> Iterator[tuple[Path, Path]]:
    """Provide the paths of two temporary files next to the output; remove the files at the end."""
    first, second = (output.with_name(f"{output.name}.{number}{TEMPORARY_SUFFIX}") for number in (1, 2))
    try:
        yield first, second
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)


def _publish(unfinished: Path, done: Repair, report: Path) -> None:
    """Write the report and the digest file, then the image, so that the image never exists without these files."""
    assert done.output is not None
    try:
        write_atomically(report, (json.dumps(done.as_dict(), indent=2) + "\n").encode())
        place_image(unfinished, done.output, bytes.fromhex(done.md5))
    except OSError as error:
        hint = hint_for(error, "Free space there, or choose another directory, and repair again.")
        raise ImageStorageError(f"cannot write {done.output}: {error_text(error, done.output)}", hint=hint) from error
