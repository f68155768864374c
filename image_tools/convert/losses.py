"""What an image holds that another layout has no place for; a conversion that would lose it is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from image_format.errors import UnsupportedConversionError
from image_format.kernels import attributes as kernels
from image_format.layout import LayoutVersion, supports

Findings = npt.NDArray[np.int64]
"""Rows of (count, first inode id), by the numbers of `image_format.kernels.attributes`."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`row` of the findings is lost from layouts that lack `since`, or, where `fits_before`, that have it."""

    row: int
    what: str
    since: LayoutVersion
    fits_before: bool = False

    def concerns(self, layout_version: int) -> bool:
        return supports(self.since, layout_version) == self.fits_before


_RULES = (
    _Rule(kernels.STRIPED, "erasure coded files", LayoutVersion.ERASURE_CODING),
    _Rule(kernels.EC_XATTRS, "directories or files with an erasure coding policy", LayoutVersion.ERASURE_CODING),
    _Rule(kernels.PROVIDED_POLICIES, "inodes of storage policy PROVIDED", LayoutVersion.ERASURE_CODING),
    _Rule(kernels.PROVIDED_QUOTAS, "directories with a quota for PROVIDED storage", LayoutVersion.ERASURE_CODING),
    _Rule(kernels.NVDIMM_POLICIES, "inodes of storage policy ALL_NVDIMM", LayoutVersion.NVDIMM_SUPPORT),
    _Rule(kernels.NVDIMM_QUOTAS, "directories with a quota for NVDIMM storage", LayoutVersion.NVDIMM_SUPPORT),
    _Rule(kernels.MARKED_SNAPSHOTS, "snapshots marked as deleted", LayoutVersion.NVDIMM_SUPPORT),
    _Rule(kernels.TYPE_QUOTAS, "directories with storage type quotas", LayoutVersion.QUOTA_BY_STORAGE_TYPE),
    _Rule(kernels.DIFF_BLOCKS, "file diffs with a block list of their own", LayoutVersion.TRUNCATE),
    _Rule(
        kernels.WIDE_REPLICATION,
        "files of a replication above 2047",
        LayoutVersion.ERASURE_CODING,
        fits_before=True,
    ),
)


def empty_findings() -> Findings:
    """Nothing found yet."""
    return np.zeros((kernels.FINDINGS, 2), np.int64)


def may_lose(source: int, target: int) -> bool:
    """Whether an image of layout `source` can hold what `target` has no place for."""
    return any(rule.concerns(target) and not rule.concerns(source) for rule in _RULES)


def check_losses(found: Findings, layout_version: int, section: str, file: str = "") -> None:
    """Refuse to lose what was found in `section`.

    Raises:
        UnsupportedConversionError: it names everything, with the number and the first inode of each.
    """
    lost = [
        f"{rule.what} ({found[rule.row, 0]}, the first is inode {found[rule.row, 1]})"
        for rule in _RULES
        if found[rule.row, 0] and rule.concerns(layout_version)
    ]
    if lost:
        text = f"layout version {layout_version} has no place for {'; '.join(lost)}"
        raise UnsupportedConversionError(text, file=file, section=section)
