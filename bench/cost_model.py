"""A linear model of a merge's cost by inodes and transactions, fitted to measurements, to predict larger sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_PREDICTED = (300_000_000, 1_000_000_000)
_VALIDITY = (
    "The margins are the largest residuals above. The predictions assume that the page cache contains the old image, "
    "and that the disk writes the new image as fast as its digest is computed. A larger image is read from the disk, "
    "which takes longer: [docs/performance.md](../docs/performance.md#whole-checkpoints-up-to-300-million-inodes) "
    "contains measurements of up to 300,000,000 inodes and the model that follows from them."
)
_LEAST = 3
"""Minimum number of measurements for a function with three constants."""


@dataclass(frozen=True)
class Measurement:
    """One merge: seconds of load, replay and write, and the peak of anonymous memory in bytes."""

    inodes: int
    transactions: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class CostModel:
    """Constant cost of a merge, and the additional cost of each inode and each transaction."""

    constant: float
    inode: float
    transaction: float

    def at(self, inodes: int, transactions: int) -> float:
        return self.constant + self.inode * inodes + self.transaction * transactions

    @classmethod
    def fitted(cls, measured: Sequence[Measurement], cost: Callable[[Measurement], float]) -> CostModel:
        """Return the model with the least sum of squared relative errors.

        Raises:
            ValueError: fewer than three measurements exist.
        """
        if len(measured) < _LEAST:
            raise ValueError(f"{len(measured)} measurements do not determine three constants")
        costs = np.array([cost(each) for each in measured])
        terms = np.array([(1, each.inodes, each.transactions) for each in measured], np.float64)
        # columns are scaled to similar sizes, since the numbers of inodes are large
        scale = terms.max(axis=0)
        found, *_ = np.linalg.lstsq(terms / scale / costs[:, None], np.ones(costs.size), rcond=None)
        return cls(*(found / scale).tolist())


def model_section(measured: Sequence[Measurement]) -> list[str]:
    """Return both models as Markdown: slopes, their errors for each measurement, and predictions."""
    seconds = CostModel.fitted(measured, lambda each: each.seconds)
    memory = CostModel.fitted(measured, lambda each: each.memory)
    time = f"{seconds.constant:.2f} s, {1e9 * seconds.inode:.0f} ns per inode, {1e9 * seconds.transaction:.0f} ns"
    size = f"{memory.constant / 1e6:.0f} MB, {memory.inode:.1f} bytes per inode, {memory.transaction:.0f} bytes"
    out = [
        "## A linear model",
        "",
        f"- load, replay and write: {time} per transaction",
        f"- anonymous memory: {size} per transaction",
        "",
        "| inodes | transactions | seconds | model | residual | memory MB | model | residual |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in sorted(measured, key=lambda each: (each.inodes, each.transactions)):
        clock, room = (model.at(each.inodes, each.transactions) for model in (seconds, memory))
        time = f"{each.seconds:.2f} | {clock:.2f} | {each.seconds / clock - 1:+.0%}"
        size = f"{each.memory / 1e6:.0f} | {room / 1e6:.0f} | {each.memory / room - 1:+.0%}"
        out.append(f"| {each.inodes:,} | {each.transactions:,} | {time} | {size} |")
    transactions = max(each.transactions for each in measured)
    off = [
        max(abs(cost(each) / model.at(each.inodes, each.transactions) - 1) for each in measured)
        for model, cost in ((seconds, lambda each: each.seconds), (memory, lambda each: each.memory))
    ]
    for inodes in _PREDICTED:
        clock, room = (model.at(inodes, transactions) for model in (seconds, memory))
        time, size = f"{clock:.0f} | predicted, ±{off[0]:.0%}", f"{room / 1e6:,.0f} | predicted, ±{off[1]:.0%}"
        out.append(f"| {inodes:,} | {transactions:,} | | {time} | | {size} |")
    return [*out, "", textwrap.fill(_VALIDITY, 120, break_on_hyphens=False)]
