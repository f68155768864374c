"""Differences between two images according to the independent comparer."""

from __future__ import annotations

from pathlib import Path

from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from image_tools.compare.difference import Difference


def differences(a: Path, b: Path) -> list[Difference]:
    with ImageFile.open(a, verify_md5=False) as first, ImageFile.open(b, verify_md5=False) as second:
        comparison = ImageComparison(first, second)
        return [comparison.named(each) for each in comparison.differences()]
