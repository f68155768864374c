"""The page of a checkpoint daemon, rendered from its /status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from console.model import Attention, Level, NodePage, PageCell, PageFact, Panel, cell
from console.rest import rest_panels
from console.words import count_text
from hadoop_common.quantities import ago_text, counted, duration
from hadoop_common.text_layout import byte_count
from node_state.alarm_kinds import kind_named
from node_state.alarm_marks import AlarmAcknowledgement, AlarmSilence
from node_state.state import IN_USE, from_json

REPLAY_PER_SECOND: Final = 100_000
"""Approximate number of transactions per second that a starting NameNode replays (docs/operations.md)."""

_SHOWN: Final = frozenset(
    {"alarms", "alarmKinds", "nextSteps", "silences", "acknowledgements", "targets", "journalNodes"}
    | {"storage", "storageSpace"}
)
_LONG_REPLAY = 10 * 60.0


def daemon_page(status: Mapping[str, Any], now: float) -> NodePage:
    """Return the page of a daemon; `now` is in seconds since the epoch."""
    ready = bool(status.get("ready"))
    attention = tuple(_attention(status))
    level = Level.GOOD if ready and not attention else Level.WARNING if ready else Level.FAULT
    return NodePage(
        role=f"Checkpointer, role {status['role']}",
        cluster=str(status.get("clusterId") or ""),
        headline=str(status.get("message") or ("ready" if ready else "not ready")),
        level=level,
        attention=attention,
        facts=tuple(_facts(status, now)),
        panels=tuple(panel for panel in _panels(status, now) if panel.rows or panel.facts),
        paths=tuple(status.get("storage") or ()),
    )


# ---- attention ---------------------------------------------------------------------------------------------


def _attention(status: Mapping[str, Any]) -> Iterator[Attention]:
    kinds, steps = status.get("alarmKinds") or {}, status.get("nextSteps") or {}
    silences, acknowledged = status.get("silences") or {}, status.get("acknowledgements") or {}
    for alarm in status.get("alarms") or ():
        kind = kind_named(kinds.get(alarm, ""))
        found = ((AlarmAcknowledgement, acknowledged.get(alarm)), (AlarmSilence, silences.get(kind.name)))
        yield Attention(
            Level.FAULT if kind.pages else Level.WARNING,
            kind.title,
            alarm,
            steps.get(alarm, ""),
            kind.section,
            kind.name,
            tuple(str(from_json(mark, known)) for mark, known in found if known),
            kind.name in silences,
        )
    yield from _lost_nodes(status.get("journalNodes") or ())
    for target in status.get("targets") or ():
        if target.get("failures") and not any(target["address"] in alarm for alarm in status.get("alarms") or ()):
            yield Attention(
                Level.WARNING,
                f"Uploads to {target['address']} fail",
                f"Failures since the last success: {count_text(target['failures'])}; "
                f"last error: {target.get('error') or 'unknown'}",
                "Check that NameNode; the daemon retries the upload after a while.",
                kind_named("upload").section,
            )


def _lost_nodes(nodes: Any) -> Iterator[Attention]:
    lost = [node for node in nodes if node.get("answers") is False]
    majority = len(lost) * 2 >= len(nodes)
    for node in lost:
        yield Attention(
            Level.FAULT if majority else Level.WARNING,
            "No majority of JournalNodes" if majority else "A JournalNode does not answer",
            f"{node['address']}: {node.get('fault') or 'no answer'}",
            "Check that JournalNode and its log.",
            "runbook.md#no-majority-of-journalnodes" if majority else "runbook.md#a-journalnode-does-not-answer",
        )


# ---- tiles -------------------------------------------------------------------------------------------------


def _facts(status: Mapping[str, Any], now: float) -> Iterator[PageFact]:
    ready = bool(status.get("ready"))
    yield PageFact("State", "ready" if ready else "not ready", Level.GOOD if ready else Level.FAULT)
    yield _phase(status, now)
    yield PageFact("Active NameNode", _active(status))
    yield PageFact("Newest image", _image(status, now))
    yield PageFact("Newest transaction", count_text(status.get("journalTxid")))
    yield PageFact("Not in an image", count_text(status.get("transactionsBehind")))
    if (cost := restart_cost(status)) is not None:
        yield cost
    if leader := status.get("leader"):
        yield PageFact("Leader", _leader(leader), Level.WARNING if leader.get("problem") else Level.NEUTRAL)
    if cancelled := status.get("cancelled"):
        left = duration(cancelled["secondsLeft"])
        yield PageFact("Checkpoints", f"blocked for {left}: {cancelled['reason']}", Level.WARNING)
    if not status.get("enabled", True):
        yield PageFact("Checkpoints", "switched off by the configuration", Level.WARNING)


def _phase(status: Mapping[str, Any], now: float) -> PageFact:
    phase = str(status.get("phase") or "idle")
    done, total = status.get("phaseDone") or 0, status.get("phaseTotal")
    if phase == "upload":
        sending = [each for each in status.get("targets") or () if each.get("sentBytes") is not None]
        done = max((each["sentBytes"] for each in sending), default=0)
        total = max((each["totalBytes"] or 0 for each in sending), default=None)
    since = status.get("phaseSince")
    if phase == "idle" or since is None:
        return PageFact("Phase", phase)
    spent = max(0.0, now - since)
    if not total:
        return PageFact("Phase", f"{phase} for {duration(spent)}")
    done = min(done, total)
    text = f"{phase}: {_amount(phase, done)} of {_amount(phase, total)}"
    if done and spent >= 1:
        text += f", about {duration(spent * (total - done) / done)} left"
    return PageFact("Phase", text, share=100 * done / total)


def _amount(phase: str, value: int) -> str:
    return counted(value, "transaction", ",") if phase == "replay" else byte_count(value)


def _active(status: Mapping[str, Any]) -> str:
    active = [t for t in status.get("targets") or () if t.get("state") == "active"]
    names = [t.get("namenodeId") or t["address"] for t in active]
    return ", ".join(names) or ("unknown" if status.get("targets") else "no NameNode is configured")


def _image(status: Mapping[str, Any], now: float) -> str:
    text = count_text(status.get("imageTxid"))
    at = status.get("checkpointAt")
    return text if at is None else f"{text}, {ago_text(at, now)}"


def _leader(leader: Mapping[str, Any]) -> str:
    if leader.get("claim") == "leading":
        return "this daemon"
    return str(leader.get("leader") or f"unknown{': ' + leader['problem'] if leader.get('problem') else ''}")


def restart_cost(status: Mapping[str, Any]) -> PageFact | None:
    """Return the cost of a restart for the NameNode with the oldest known image.

    Returns:
        The transactions to replay and the time; None if no NameNode or no newest transaction is known.
    """
    journal, targets = status.get("journalTxid"), status.get("targets") or ()
    held = [(txid, each["address"]) for each in targets if (txid := _held_txid(each)) is not None]
    if not targets or journal is None:
        return None
    title = "A NameNode restart now"
    if not held:
        return PageFact(title, "unknown, because no NameNode has its newest image from this daemon")
    image, address = min(held)
    behind = max(0, journal - image)
    seconds = behind / REPLAY_PER_SECOND
    minutes = "under a minute" if seconds < 60 else f"about {duration(seconds)}"
    level = Level.WARNING if seconds > _LONG_REPLAY else Level.NEUTRAL
    where = f" at {address}" if len(targets) > 1 else ""
    return PageFact(title, f"would replay {counted(behind, 'transaction', ',')}{where}, {minutes}", level)


def _held_txid(target: Mapping[str, Any]) -> int | None:
    """Return the txid of the newest image that a NameNode is known to have."""
    txid = target.get("heldTxid")
    return None if txid is None or txid < 0 else int(txid)


# ---- panels ------------------------------------------------------------------------------------------------


def _panels(status: Mapping[str, Any], now: float) -> Iterator[Panel]:
    journal = status.get("journalTxid")
    yield Panel(
        "namenodes",
        "NameNodes",
        columns=("NameNode", "State", "Newest image", "Behind", "Got it", "Last upload", "When", "Detail"),
        rows=tuple(_target_row(each, journal, now) for each in status.get("targets") or ()),
    )
    space = status.get("storageSpace") or {}
    yield Panel(
        "storage",
        "Storage directories",
        columns=("Directory", "State", "Free", "Size"),
        rows=tuple(_directory_row(path, state, space) for path, state in (status.get("storage") or {}).items()),
    )
    yield Panel(
        "journalnodes",
        "JournalNodes",
        columns=("JournalNode", "State", "Newest transaction", "Behind the others"),
        rows=tuple(map(_journal_node_row, status.get("journalNodes") or ())),
    )
    yield Panel("last", "Last checkpoint", facts=tuple(_last(status, now)))
    yield from rest_panels(status, _SHOWN | {"lastSeconds", "leader", "cancelled"}, now)


def _target_row(target: Mapping[str, Any], journal: int | None, now: float) -> tuple[PageCell, ...]:
    name = f"{target.get('namenodeId') or ''} {target['address']}".strip()
    txid = _held_txid(target)
    behind = None if txid is None or journal is None else journal - txid
    result, error = target.get("result"), target.get("error") or ""
    level = (
        Level.FAULT if target.get("failures") else Level.GOOD if result == "SUCCESS" and not error else Level.NEUTRAL
    )
    words = {
        "SUCCESS": "accepted",
        "OLD_TRANSACTION_ID_FAILURE": "refused" if error else "not needed",
        "NOT_ACTIVE_NAMENODE_FAILURE": "not active",
        "standby": "not active",
        "never": "none yet",
    }
    return (
        cell(name),
        cell(target.get("state") or "unknown"),
        cell(count_text(txid)),
        cell(None if behind is None else count_text(max(0, behind))),
        cell(None if target.get("reportedAt") is None else ago_text(target["reportedAt"], now)),
        cell(words.get(str(result), str(result)), level),
        cell(ago_text(target.get("at"), now)),
        cell(error),
    )


def _directory_row(path: str, state: str, space: Mapping[str, Any]) -> tuple[PageCell, ...]:
    known = space.get(path) or {}
    sizes = [None if known.get(key) is None else byte_count(known[key]) for key in ("freeBytes", "totalBytes")]
    level = Level.GOOD if state == IN_USE else Level.FAULT
    return (cell(path), cell(state, level), cell(sizes[0]), cell(sizes[1]))


def _journal_node_row(node: Mapping[str, Any]) -> tuple[PageCell, ...]:
    answers = node.get("answers")
    level = Level.NEUTRAL if answers is None else Level.GOOD if answers else Level.FAULT
    words = "not asked yet" if answers is None else "answers" if answers else node.get("fault") or "does not answer"
    lag = node.get("lagTransactions")
    return (cell(node["address"]), cell(words, level), cell(count_text(node.get("lastTxid"))), cell(count_text(lag)))


def _last(status: Mapping[str, Any], now: float) -> Iterator[PageFact]:
    if status.get("savedAt") is not None:
        yield PageFact("Made", f"{ago_text(status['savedAt'], now)} at txid {count_text(status.get('savedTxid'))}")
        yield PageFact("Size", byte_count(status.get("imageBytes") or 0))
    for phase, seconds in (status.get("lastSeconds") or {}).items():
        yield PageFact(phase.capitalize(), f"{seconds:.1f} s")
    yield PageFact("Checkpoints since the start", count_text(status.get("checkpoints") or 0))
    failures = status.get("failures") or 0
    yield PageFact("Failures since the start", count_text(failures), Level.WARNING if failures else Level.NEUTRAL)
    if status.get("lastError"):
        yield PageFact("Last error", f"{status['lastError']} ({ago_text(status.get('lastErrorAt'), now)})")
