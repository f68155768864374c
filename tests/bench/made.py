"""Generated name directories for tests."""

from __future__ import annotations

from pathlib import Path

from bench.edits import write_edits
from bench.image import BaseImage, write_image
from bench.tree import Tree
from hadoop_common.names import SEEN_TXID
from image_format.layout import NEWEST_LAYOUT

INODES, TRANSACTIONS = 2_000, 3_000


def make(
    folder: Path,
    mix: str = "",
    *,
    snapshots: bool = False,
    seed: int = 1,
    inodes: int = INODES,
    layout: int = NEWEST_LAYOUT,
) -> BaseImage:
    """Make a storage directory in `folder`, with edits if a mix is named.

    Raises:
        ValueError: a mix is named for an older layout; `bench.edits` writes only edits of the newest layout.
    """
    if mix and layout != NEWEST_LAYOUT:
        raise ValueError(f"edits have layout {NEWEST_LAYOUT}, so they cannot follow an image of layout {layout}")
    current = folder / "current"
    current.mkdir(parents=True)
    base = write_image(current, Tree(inodes, seed), snapshots=snapshots, layout=layout)
    if mix:
        write_edits(base, TRANSACTIONS, mix, seed=seed + 1, segment=2_000)
        (current / SEEN_TXID).write_text(f"{base.txid + TRANSACTIONS}\n")
    return base
