"""What a checkpoint amounts to, once its image is saved."""

from __future__ import annotations

from dataclasses import dataclass

from engine.healing import Healed
from engine.saver import SaveResult


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds each phase took since the last image: a load that came before its edits counts too."""

    load: float
    replay: float
    save: float


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A saved checkpoint.

    Attributes:
        base_txid, txid: newest transaction of the old and of the new image.
        transactions: how many were replayed; `ignored`: how many of them changed nothing, as on a NameNode
            (`Namespace.ignore`).
        saved: where the new image lies, its digest and size.
        layout_version: of the new image.
        warnings: what an operator has to know of the new image.
        healed: what the namespace had that no NameNode loads, and the new image has not.
        engine: what made it: `local` or `spark`.
        rollback: whether it is the image that a rolling upgrade could be rolled back to.
    """

    base_txid: int
    txid: int
    transactions: int
    inodes: int
    saved: SaveResult
    timings: Timings
    layout_version: int
    warnings: tuple[str, ...] = ()
    rollback: bool = False
    engine: str = "local"
    healed: tuple[Healed, ...] = ()
    ignored: int = 0
