"""Text lines for the response of GET /status."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from hadoop_common.quantities import ago_text, counted, duration
from hadoop_common.text_layout import byte_count, wrapped
from node_state.state import LeaderState, from_json

_LABEL = 16


def status_lines(state: Mapping[str, Any], now: float, width: int | None) -> Iterator[str]:
    """Yield lines of text, one fact per line.

    Args:
        state: the response of GET /status, with the daemon's `url` and `ready` added.
        now: seconds since the epoch.
        width: width of the terminal; None for unlimited lines.
    """
    ready = "ready" if state["ready"] else "NOT READY"
    yield f"{state['role']} at {state['url']}, {ready}, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}"
    for label, text in _facts(state, now):
        yield from wrapped(f"{label:<{_LABEL}}", text, width)


def _facts(state: Mapping[str, Any], now: float) -> Iterator[tuple[str, str]]:
    yield "phase", str(state["phase"])
    if state.get("clusterId"):
        yield "cluster", state["clusterId"]
    if state.get("cancelled"):
        stop = state["cancelled"]
        yield "cancelled", f"no checkpoint can begin for {duration(stop['secondsLeft'])}: {stop['reason']}"
    if state.get("leader"):
        yield "leadership", str(from_json(LeaderState, state["leader"]))
    if not state.get("enabled", True):
        yield "checkpoints", "switched off by the configuration"
    yield "image", _image(state, now)
    yield "edits", _edits(state)
    if state.get("lastSeconds"):
        yield "last took", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in state["lastSeconds"].items())
    yield (
        "since its start",
        f"{counted(state.get('checkpoints') or 0, 'checkpoint')}, {counted(state.get('failures') or 0, 'failure')}",
    )
    if shadow := state.get("shadow"):
        last = f", the last image at txid {shadow['txid']}, {ago_text(shadow['comparedAt'], now)}"
        newest = last if shadow["compared"] else ""
        yield "shadow mode", f"{shadow['equal']} of {shadow['compared']} equal in 7 days{newest}"
    for target in state.get("targets") or ():
        yield "NameNode", _target(target, now)
    for path, what in (state.get("storage") or {}).items():
        yield "storage", f"{path}: {what}"
    for node in state.get("journalNodes") or ():
        yield "JournalNode", f"{node['address']}: " + (node.get("fault") or "answers")
    for alarm in state["alarms"] or ["none"]:
        yield "alarm", alarm
        if step := (state.get("nextSteps") or {}).get(alarm):
            yield "", f"next: {step}"
    if state.get("lastError"):
        yield "last error", f"{state['lastError']} ({ago_text(state.get('lastErrorAt'), now)})"


def _image(state: Mapping[str, Any], now: float) -> str:
    txid = state.get("imageTxid")
    parts = ["none" if txid == -1 else "unknown" if txid is None else f"txid {txid}"]
    # the newest image may have been fetched since, or the last image may be a rollback image
    if state.get("savedAt") is not None and state.get("savedTxid") == txid:
        parts.append(f"made {ago_text(state['savedAt'], now)} ({_reason(state.get('lastReason'))})")
        if state.get("imageBytes"):
            parts.append(byte_count(state["imageBytes"]))
    return ", ".join(parts)


def _reason(name: str | None) -> str:
    return {"txns": "by the number of transactions", "period": "by the period", "urgent": "immediately"}.get(
        name or "", name or ""
    )


def _edits(state: Mapping[str, Any]) -> str:
    behind, journal = state.get("transactionsBehind"), state.get("journalTxid")
    if behind is None or journal is None:
        return "unknown"
    newest = f"; the newest is {journal}" if journal >= 0 else ""
    return f"{counted(behind, 'transaction')} without an image{newest}"


def _target(target: Mapping[str, Any], now: float) -> str:
    known = " ".join(each for each in (target.get("namenodeId"), target.get("state")) if each)
    parts = [f"{target['address']}{f' ({known})' if known else ''}: {_offer(target)}"]
    if target.get("at") is not None:
        parts.append(ago_text(target["at"], now))
    if target.get("error"):
        parts.append(target["error"])
    if target.get("sentBytes") is not None and target.get("totalBytes"):
        share = 100 * target["sentBytes"] // target["totalBytes"]
        parts.append(f"{byte_count(target['sentBytes'])} of {byte_count(target['totalBytes'])} sent ({share} %)")
    return ", ".join(parts)


def _offer(target: Mapping[str, Any]) -> str:
    """Describe the result of the last offer, and the target's image."""
    txid = target.get("txid")
    has = "" if txid is None or txid < 0 else f"has the image at txid {txid}"
    match target["result"]:
        case "SUCCESS":
            return f"accepted the image at txid {txid}"
        case "OLD_TRANSACTION_ID_FAILURE":
            return f"does not need the image at txid {txid}" if not target.get("error") else "refused the last image"
        case "never":
            return has or "no image was offered yet"
        case "standby" | "NOT_ACTIVE_NAMENODE_FAILURE":
            return "is not active, so no image is offered to it"
        case "failed":
            failures = target.get("failures")
            return f"failed transfers since the last success: {failures}" if failures else "the last transfer failed"
        case other:
            return str(other)
