"""Text form of a history's entries."""

from __future__ import annotations

import time

from hadoop_common.quantities import counted
from hadoop_common.text_layout import byte_count
from node_state.history import CHECKPOINT, HistoryEntry


def history_row(entry: HistoryEntry) -> tuple[str, str, str, str]:
    """Return an entry's time, kind, transaction and detail."""
    txid = "" if entry.txid is None or entry.txid < 0 else str(entry.txid)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    return at, entry.kind, txid, entry_detail(entry)


def entry_detail(entry: HistoryEntry) -> str:
    """Return the numbers of a checkpoint, or the target and text of any other entry."""
    if entry.kind != CHECKPOINT:
        return ": ".join(part for part in (entry.target, entry.text) if part)
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in entry.seconds.items())
    return f"{counted(entry.transactions or 0, 'transaction', ',')}, {byte_count(entry.size or 0)}, {phases}"
