"""Check of the JournalNodes that a standby reads from: a majority answers, for our namespace, and none lags far."""

from __future__ import annotations

from checkpointer.checks.facts import Facts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import Metric, State, Verdict, worst
from journal.quorum.node_answers import NodeAnswer
from journal.quorum.tally import majority

__all__ = ["check_journal_nodes"]


def check_journal_nodes(facts: Facts, thresholds: Thresholds) -> Verdict:
    """Every JournalNode answers by RPC and HTTP; without a majority nothing can be read, or written."""
    nodes = () if facts.journal is None else facts.journal.nodes
    if not nodes:
        return Verdict(State.OK, "the edits are not on JournalNodes")
    newest = max(node.last_txid for node in nodes)
    well = [node for node in nodes if not _fault(node)]
    lag = max((newest - node.last_txid for node in well), default=0)
    limits = thresholds.limits("journalnodes", facts.transactions, None)
    lagging = Metric("lag", lag, "", limits.warning, limits.critical)
    details = tuple(f"{node.address}: {_fault(node) or _standing(node, newest)}" for node in nodes)
    states = [_state(len(well), len(nodes)), lagging.state()]
    summary = f"{len(well)} of {len(nodes)} answer by RPC and HTTP, the furthest behind lacks {lag} transactions"
    return Verdict(worst(states), summary, details, (Metric("journalnodes", len(well)), lagging))


def _state(well: int, total: int) -> State:
    if well == total:
        return State.OK
    return State.WARNING if well >= majority(total) else State.CRITICAL


def _fault(node: NodeAnswer) -> str:
    if node.same_namespace is False:
        return "it keeps this journal for another namespace"
    return node.fault or node.http_fault


def _standing(node: NodeAnswer, newest: int) -> str:
    committed = "" if node.committed_txid is None else f", knows {node.committed_txid} to be committed"
    return f"last txid {node.last_txid}, {newest - node.last_txid} behind{committed}, epoch {node.epoch}"
