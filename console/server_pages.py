"""The pages of the other programs, rendered from their /status: JournalNode, failover controller, NameNode stub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from console.daemon_page import daemon_page
from console.model import Attention, Level, NodePage, PageCell, PageFact, Panel, cell
from console.rest import rest_panels
from console.words import count_text, time_text
from hadoop_common.quantities import ago_text, counted

_UNHEALTHY_STEP: Final = (
    "Check the NameNode and its log; once the NameNode is healthy, its controller rejoins the election."
)


def page_of(status: Mapping[str, Any], now: float) -> NodePage:
    """Return the page for the /status of any of our programs; its keys identify the program."""
    for key, make in _PAGES.items():
        if key in status:
            return make(status, now)
    return NodePage(
        role=str(status.get("role") or "unknown"),
        cluster="",
        headline="this program has no page of its own",
        level=Level.NEUTRAL,
        panels=tuple(rest_panels(status, frozenset(), now)),
    )


def journal_node_page(status: Mapping[str, Any], now: float) -> NodePage:
    journals, failing = status.get("journals") or {}, status.get("failing") or {}
    section = "runbook.md#a-journal-of-a-journalnode-is-damaged"
    attention = [
        Attention(Level.FAULT, f"Journal {name} is not served", text, "Check this host's disk and log.", section)
        for name, text in failing.items()
    ]
    formatted = [each for each in journals.values() if each.get("formatted")]
    if not formatted and not failing:
        step = "If this node had a journal before, check that its disk is mounted. A NameNode formats a new journal."
        missing = "no journal is formatted on this JournalNode"
        attention.append(
            Attention(Level.WARNING, "No journal", missing, step, "runbook.md#a-journalnode-does-not-answer")
        )
    columns = ("Journal", "Formatted", "Newest transaction", "Committed", "Behind", "Epoch", "Last batch", "Directory")
    rows = tuple(_journal_row(name, each, now) for name, each in journals.items())
    return NodePage(
        role=f"JournalNode {status.get('address', '')}",
        cluster=", ".join(sorted({str(each.get("namespace")) for each in formatted})),
        headline=attention[0].text if attention else f"serves {counted(len(formatted), 'journal')}",
        level=attention[0].level if attention else Level.GOOD,
        attention=tuple(attention),
        facts=(
            PageFact("Journals served", count_text(len(formatted)), Level.GOOD if formatted else Level.WARNING),
            PageFact("Running since", time_text(status.get("startedAt"))),
            PageFact("Version", str(status.get("version"))),
        ),
        panels=(
            Panel("journals", "Journals", columns=columns, rows=rows),
            *rest_panels(status, frozenset({"journals", "failing"}), now),
        ),
    )


def _journal_row(name: str, journal: Mapping[str, Any], now: float) -> tuple[PageCell, ...]:
    lag, formatted = journal.get("lagTransactions") or 0, bool(journal.get("formatted"))
    return (
        cell(name),
        cell("yes" if formatted else "no", Level.GOOD if formatted else Level.WARNING),
        cell(count_text(journal.get("highestTxid"))),
        cell(count_text(journal.get("committedTxid"))),
        cell(count_text(lag), Level.WARNING if lag else Level.NEUTRAL),
        cell(journal.get("lastPromisedEpoch")),
        cell(ago_text(journal.get("lastBatchAt"), now)),
        cell(journal.get("directory")),
    )


def controller_page(status: Mapping[str, Any], now: float) -> NodePage:
    ready, election = bool(status.get("ready")), status.get("election") or {}
    reason = str(status.get("readyReason") or "")
    attention = () if ready else (Attention(Level.FAULT, *_controller_fault(status, reason)),)
    health = str(status.get("health") or "unknown")
    return NodePage(
        role=f"Failover controller of {status.get('namenode')}",
        cluster=str(status.get("nameservice") or ""),
        headline=reason,
        level=Level.GOOD if ready else Level.FAULT,
        attention=attention,
        facts=(
            PageFact("NameNode", str(status.get("state") or "unknown")),
            PageFact("Health", health, Level.GOOD if health == "healthy" else Level.FAULT),
            PageFact("Lock in ZooKeeper", str(election.get("state") or "unknown")),
            PageFact("Takes part", "yes" if status.get("takesPart") else "no"),
            PageFact("Running since", time_text(status.get("startedAt"))),
        ),
        panels=tuple(rest_panels(status, frozenset(), now)),
    )


def _controller_fault(status: Mapping[str, Any], reason: str) -> tuple[str, str, str, str]:
    if status.get("health") not in ("healthy", None):
        return "The NameNode is not healthy", reason, _UNHEALTHY_STEP, "runbook.md#namenode-down"
    step = "Run `checkpointer zkfc check` and `checkpointer zkfc status`."
    return "A failover would not succeed", reason, step, "runbook.md#no-namenode-becomes-active"


def stub_page(status: Mapping[str, Any], now: float) -> NodePage:
    failure = str(status.get("failure") or "")
    attention = [
        Attention(Level.FAULT, "It stopped serving", failure, "Check its log.", "runbook.md#namenode-down")
    ] * bool(failure)
    attention += [
        Attention(
            Level.WARNING, "A journal has failed", f"{where}: {why}", "Check it.", "runbook.md#disk-full-or-broken"
        )
        for where, why in (status.get("failedEdits") or {}).items()
    ]
    return NodePage(
        role=f"NameNode stub, {status.get('role')}",
        cluster="",
        headline=failure or f"{status.get('role')}, the newest image is at txid {count_text(status['checkpointTxid'])}",
        level=Level.FAULT if failure else Level.WARNING if attention else Level.GOOD,
        attention=tuple(attention),
        facts=tuple(_stub_facts(status)),
        panels=tuple(rest_panels(status, frozenset({"failedEdits"}), now)),
    )


def _stub_facts(status: Mapping[str, Any]) -> Iterator[PageFact]:
    yield PageFact("State", str(status.get("role")), Level.FAULT if status.get("failure") else Level.GOOD)
    yield PageFact("Newest image", count_text(status.get("checkpointTxid")))
    for key, title in (("lastTxid", "Last transaction"), ("durableTxid", "Durable transaction")):
        if key in status:
            yield PageFact(title, count_text(status[key]))


_PAGES: dict[str, Callable[[Mapping[str, Any], float], NodePage]] = {
    "phase": daemon_page,
    "election": controller_page,
    "journals": journal_node_page,
    "checkpointTxid": stub_page,
}
