"""What an operator is shown about missing transactions: which, where they were looked for, and how to go on without."""

from __future__ import annotations

from collections.abc import Mapping

from journal.errors import TransactionGapError


def closing_images(gap: TransactionGapError, images: Mapping[str, int]) -> dict[str, int]:
    """Those of `images`, newest image by NameNode, from which the edits go on without the missing ones."""
    needed = gap.expected if gap.found is None else gap.found - 1
    return {address: txid for address, txid in images.items() if txid >= needed}


def gap_alarm(gap: TransactionGapError, location: str, images: Mapping[str, int]) -> str:
    """One sentence on a gap.

    Args:
        location: where segments were looked for.
        images: newest image by NameNode, as far as they answer.
    """
    until = "on" if gap.found is None else f"to {gap.found - 1}"
    missing = f"transactions from {gap.expected} {until} are missing in {location}"
    closing = closing_images(gap, images)
    if closing:
        address, txid = min(closing.items(), key=lambda item: item[1])
        return f"{missing}; the image at txid {txid} of {address} closes the gap: fetch it, or bring the segments back"
    asked = ", ".join(f"{address} has {txid}" for address, txid in images.items()) or "no NameNode answered"
    return f"{missing}; no image that closes the gap is known ({asked}): bring the segments back"
