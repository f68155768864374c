"""Runs all checks of an image and collects their findings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from image_format.reader import map_image
from image_tools.loadable import load_faults
from image_tools.verify.catalogue import Severity
from image_tools.verify.diffs import DiffCheck
from image_tools.verify.directories import DirectoryCheck
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import Bytes, ImageFrame, check_digest, read_frame
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.layout_places import check_layout_losses
from image_tools.verify.leases import LeaseCheck
from image_tools.verify.managers import ErasureCodingCheck, check_caches, check_secrets
from image_tools.verify.name_ends import NameEndCheck
from image_tools.verify.namesystem import BlockMaxima, NamesystemCheck
from image_tools.verify.reach import Reachability
from image_tools.verify.references import ReferenceCheck
from image_tools.verify.snapshots import SnapshotCheck
from image_tools.verify.strings import StringTableCheck
from image_tools.verify.view import SectionView

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CheckedTree:
    """The namespace after the checks."""

    inodes: InodeArrays
    references: ReferenceCheck
    directories: DirectoryCheck
    reach: Reachability


@dataclass(slots=True)
class Audit:
    """The state of one run of all checks; unreadable parts are None."""

    findings: Findings
    md5: bytes | None = None
    frame: ImageFrame | None = None
    txid: int = 0
    strings: StringTableCheck | None = None
    inodes: InodeArrays | None = None
    tree: CheckedTree | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification.

    Attributes:
        valid: whether no finding is an error.
        txid, inodes, directories: transaction id, and numbers of readable records of INODE and INODE_DIR.
        findings: the findings, up to the limit for each code.
    """

    path: Path
    valid: bool
    txid: int
    inodes: int
    directories: int
    findings: Findings

    def as_dict(self) -> dict[str, Any]:
        found = self.findings
        return {
            "file": str(self.path),
            "valid": self.valid,
            "txid": self.txid,
            "inodes": self.inodes,
            "directoriesWithChildren": self.directories,
            "errors": found.severities[Severity.ERROR],
            "warnings": found.severities[Severity.WARNING],
            "infos": found.severities[Severity.INFO],
            "counts": dict(sorted((code, count) for code, count in found.counts.items() if count)),
            "findings": [finding.as_dict() for finding in found.listed],
        }


def verify_image(path: Path, *, limit: int | None = None, progress: Progress | None = None) -> Verification:
    """Check an image completely; report damage as findings, never as an exception.

    Args:
        path: path of the image.
        limit: maximum number of listed findings for each code, None for all; all findings are counted.
        progress: called with the name of each step before it begins.

    Raises:
        ImageStorageError: the file cannot be read, or there is not enough disk space for decompression.
        ShrunkFileError: the file became shorter during the check.
    """
    audit = audit_image(path, Findings(limit), None, progress=progress)
    inodes = 0 if audit.inodes is None else audit.inodes.count
    directories = 0 if audit.tree is None else int(audit.tree.directories.offsets.size)
    return Verification(path, audit.findings.valid, audit.txid, inodes, directories, audit.findings)


def audit_image(
    path: Path,
    findings: Findings,
    fixes: Fixes | None,
    *,
    outer: bool = True,
    data: Bytes | None = None,
    spool_dir: Path | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Run the checks; with `fixes`, record the corrections of all sections except INODE and STRING_TABLE.

    Args:
        outer: whether to also check the digest file and the file's name.
        data: the bytes of the image, if they differ from the file at `path`.
        spool_dir: folder for large decompressed sections.

    Raises:
        ImageStorageError, ShrunkFileError: see `verify_image`.
    """
    step = progress or (lambda _: None)
    audit = Audit(findings)
    mapped = map_image(path) if data is None else None
    if data is None:
        data = np.frombuffer(b"" if mapped is None else mapped, np.uint8)
    with nullcontext() if mapped is None else mapped.whole():
        if outer:
            step("digest")
            audit.md5 = check_digest(path, findings)
        step("frame")
        audit.frame = read_frame(path, data, findings, spool_dir)
        if audit.frame is not None:
            audit.frame.mapped = mapped
            _audit_sections(audit, audit.frame, findings, fixes, step, outer=outer)
    return audit


def _audit_sections(
    audit: Audit, frame: ImageFrame, findings: Findings, fixes: Fixes | None, step: Progress, *, outer: bool
) -> None:
    step("tables")
    namesystem = NamesystemCheck(frame, findings, check_name=outer)
    audit.txid = int(namesystem.info.transactionId)
    check_secrets(frame, findings, fixes)
    check_caches(frame, findings, fixes)
    policies = ErasureCodingCheck(frame, findings, fixes)
    audit.strings = strings = StringTableCheck(SectionView(frame, "STRING_TABLE", findings))
    step("inodes")
    maxima = BlockMaxima(int(namesystem.info.genstampV1Limit))
    audit.inodes = inodes = InodeArrays(frame, findings, strings, policies.known, maxima)
    inodes.check(findings)
    check_layout_losses(frame, findings)
    # If inodes were lost, every reference to these inodes would be another finding.
    if inodes.view.present and not inodes.view.damaged:
        _audit_tree(audit, frame, findings, fixes, step, maxima)
    namesystem.check_counters(maxima, fixes)
    _add_load_faults(frame, findings)


def _add_load_faults(frame: ImageFrame, findings: Findings) -> None:
    """Report faults that make a NameNode refuse a section, unless the section already has an error."""
    reported = {each.section for each in findings.listed if each.severity is Severity.ERROR}
    for fault in load_faults(lambda name: frame.readable(name, Findings()), frame.layout_version):
        if fault.section not in reported:
            findings.add("record-unloadable", fault.what, frame.place(fault.section), fault.offset)


def _audit_tree(
    audit: Audit, frame: ImageFrame, findings: Findings, fixes: Fixes | None, step: Progress, maxima: BlockMaxima
) -> None:
    inodes, strings = audit.inodes, audit.strings
    assert inodes is not None
    assert strings is not None
    step("directories")
    references = ReferenceCheck(frame, findings, inodes)
    directories = DirectoryCheck(frame, findings, inodes, references)
    diffs = DiffCheck(frame, findings, inodes, references)
    snapshots = SnapshotCheck(frame, findings, inodes, strings)
    broken = (references.view, directories.view, diffs.view, snapshots.view)
    if any(view.damaged for view in broken) or not directories.view.present:
        return
    references.check(directories.owner)
    if fixes is not None:
        references.fix(fixes)
    directories.check(fixes)
    step("snapshots")
    snapshots.check(fixes)
    lists = diffs.check(directories, snapshots, strings, maxima, fixes)
    NameEndCheck(inodes, lists, diffs).check(fixes)
    step("reachability")
    reach = Reachability(inodes, lists)
    inodes.report(
        findings, "inode-unreachable", reach.unreachable(), lambda _: "the inode is not reachable from the root"
    )
    LeaseCheck(frame, findings, inodes, directories, references).check(fixes)
    audit.tree = CheckedTree(inodes, references, directories, reach)
