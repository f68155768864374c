"""Entries of GET /history as text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hadoop_common.text_layout import byte_count
from node_state.history import CHECKPOINT


def history_row(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return time, kind, transaction and detail of an entry, which is JSON of a `HistoryEntry`."""
    txid = entry.get("txid")
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"]))
    return at, str(entry["kind"]), "" if txid is None or txid < 0 else str(txid), entry_detail(entry)


def entry_detail(entry: Mapping[str, Any]) -> str:
    """Return the numbers of a checkpoint, or the target and text of another entry."""
    if entry["kind"] != CHECKPOINT:
        parts = [entry.get("target") or "", entry.get("text") or ""]
        return ": ".join(part for part in parts if part)
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in (entry.get("seconds") or {}).items())
    return f"{entry.get('transactions') or 0:,} transactions, {byte_count(entry.get('size') or 0)}, {phases}"
