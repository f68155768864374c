"""Rules for content that a layout cannot represent, and the losses of a conversion, without I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from image_format.errors import UnsupportedConversionError
from image_format.kernels import attributes as kernels
from image_format.layout import OLDEST_LAYOUT, LayoutVersion, supports

Findings = npt.NDArray[np.int64]
"""Rows of (count, first inode id), indexed by the constants of `image_format.kernels.attributes`."""


@dataclass(frozen=True, slots=True)
class _LossRule:
    """Rule for content that layouts without the feature `since` cannot represent; `row` is its row in the findings.

    With `fits_before`, layouts with the feature cannot represent the content. NameNodes of the layout `loads_from` and
    newer layouts still load an image with this content, but drop or ignore it.
    """

    row: int
    what: str
    since: LayoutVersion
    fits_before: bool = False
    loads_from: LayoutVersion | None = None

    def loads(self, layout_version: int) -> bool:
        return self.loads_from is not None and supports(self.loads_from, layout_version)

    def concerns(self, layout_version: int) -> bool:
        return supports(self.since, layout_version) == self.fits_before


@dataclass(frozen=True, slots=True)
class Loss:
    """Content that a layout cannot represent: description, number of inodes, and the first inode.

    Attributes:
        loads: whether a NameNode of the layout loads an image with this content.
    """

    what: str
    count: int
    first: int
    loads: bool

    def __str__(self) -> str:
        return f"{self.what} ({self.count}, the first is inode {self.first})"


_EC, _NVDIMM = LayoutVersion.ERASURE_CODING, LayoutVersion.NVDIMM_SUPPORT
_ALWAYS = OLDEST_LAYOUT
_RULES = (
    _LossRule(kernels.STRIPED, "erasure-coded files", _EC),
    _LossRule(kernels.EC_XATTRS, "directories or files with an erasure coding policy", _EC, loads_from=_ALWAYS),
    _LossRule(kernels.PROVIDED_POLICIES, "inodes with storage policy PROVIDED", _EC),
    _LossRule(kernels.PROVIDED_QUOTAS, "directories with a quota for PROVIDED storage", _EC),
    _LossRule(kernels.NVDIMM_POLICIES, "inodes with storage policy ALL_NVDIMM", _NVDIMM, loads_from=_EC),
    _LossRule(kernels.NVDIMM_QUOTAS, "directories with a quota for NVDIMM storage", _NVDIMM),
    _LossRule(kernels.SM4_ZONES, "encryption zones with the cipher SM4", _NVDIMM, loads_from=_ALWAYS),
    _LossRule(kernels.MARKED_SNAPSHOTS, "snapshots marked as deleted", _NVDIMM, loads_from=_ALWAYS),
    _LossRule(
        kernels.TYPE_QUOTAS,
        "directories with storage type quotas",
        LayoutVersion.QUOTA_BY_STORAGE_TYPE,
        loads_from=_ALWAYS,
    ),
    _LossRule(kernels.DIFF_BLOCKS, "file diffs with separate block lists", LayoutVersion.TRUNCATE, loads_from=_ALWAYS),
    _LossRule(kernels.WIDE_REPLICATION, "files with a replication above 2047", _EC, fits_before=True),
)


def empty_findings() -> Findings:
    return np.zeros((kernels.FINDINGS, 2), np.int64)


def may_lose(source: int, target: int) -> bool:
    """Return whether an image of layout `source` may contain data that `target` cannot represent."""
    return any(rule.concerns(target) and not rule.concerns(source) for rule in _RULES)


def losses(found: Findings, layout_version: int) -> list[Loss]:
    """Return a loss for each kind of content in `found` that the layout cannot represent."""
    return [
        Loss(rule.what, int(found[rule.row, 0]), int(found[rule.row, 1]), rule.loads(layout_version))
        for rule in _RULES
        if found[rule.row, 0] and rule.concerns(layout_version)
    ]


def check_losses(found: Findings, layout_version: int, section: str, file: str = "") -> None:
    """Refuse a conversion that would lose content of `section`.

    Raises:
        UnsupportedConversionError: content would be lost; the error lists every loss with its count and first inode.
    """
    lost = losses(found, layout_version)
    if lost:
        text = f"layout version {layout_version} cannot represent {'; '.join(map(str, lost))}"
        raise UnsupportedConversionError(text, file=file, section=section)
