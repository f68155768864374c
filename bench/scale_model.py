"""What a size costs as a line through measured sizes, a fixed part and one for each inode: to plan larger ones by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Line:
    """`fixed` and `slope` of a cost; `deviation` is the largest of a measured value from it, 0.1 is 10 %."""

    fixed: float
    slope: float
    deviation: float

    def at(self, size: float) -> float:
        return self.fixed + self.slope * size


def fit(sizes: Sequence[float], costs: Sequence[float]) -> Line:
    """The line with the least squares of relative deviations, so that the smallest size counts as much as the largest.

    Args:
        sizes: two different ones at least.
        costs: above zero.
    """
    slope, fixed = np.polyfit(np.asarray(sizes, float), np.asarray(costs, float), 1, w=1 / np.asarray(costs, float))
    line = Line(float(fixed), float(slope), 0.0)
    deviation = max(abs(line.at(size) / cost - 1) for size, cost in zip(sizes, costs, strict=True))
    return Line(line.fixed, line.slope, deviation)
