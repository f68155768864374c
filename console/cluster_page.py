"""The page of a whole cluster: one row for each node, whether or not it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from console.background import BackgroundWork
from console.model import Attention, Level, NodePage, PageCell, Panel, cell
from console.server_pages import page_of
from console.words import count_text
from hadoop_common.quantities import ago_text, counted

SECONDS: Final = 5.0

_COLUMNS: Final = ("Node", "Kind", "State", "Image", "Transaction", "Detail")
_TITLES: Final = {"namenode": "NameNode", "journalnode": "JournalNode", "daemon": "Daemon"}
_LOST_STEP: Final = "Check that the host is up and that the address belongs to the node."
_TWO_STEP: Final = (
    "Check the failover controllers and the fencing: `checkpointer zkfc status`, `checkpointer zkfc check`."
)
_SECTIONS: Final = {
    "namenode": "runbook.md#namenode-down",
    "journalnode": "runbook.md#a-journalnode-does-not-answer",
    "daemon": "operations.md#run",
}
_NORMAL_STATES: Final = ("active", "standby", "observer")


@dataclass(frozen=True, slots=True)
class Peer:
    """A node to query: its base URL, and its kind (namenode, journalnode or daemon).

    Attributes:
        optional: whether a missing response is not a fault, because the node may not exist.
    """

    url: str
    kind: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """Response of a peer: the content of /status, or JMX beans by name; `error` explains why both are missing.

    Attributes:
        last_txid: last transaction that a NameNode wrote or applied; None if unknown.
        odd: whether the peer's response was unexpected.
        clock_ahead: seconds by which the peer's clock is ahead of this host's clock; negative if it is behind.
    """

    peer: Peer
    status: Mapping[str, Any] | None = None
    beans: Mapping[str, Mapping[str, Any]] | None = None
    last_txid: int | None = None
    error: str = ""
    odd: bool = False
    clock_ahead: float = 0.0


@dataclass(slots=True)
class ShownCluster:
    """A cluster on the page.

    Attributes:
        name: name shown; it may change, and belongs to one cluster.
        ask: queries all nodes within time limits.
    """

    name: str
    ask: Callable[[], Sequence[PeerAnswer]]


class ClusterPage:
    """Page of clusters; while a browser shows it, the page queries each cluster in the background, at most every few
    seconds.
    """

    def __init__(self, clusters: Sequence[ShownCluster]) -> None:
        self._work = [(each, BackgroundWork(each.name, each.ask, SECONDS)) for each in clusters]

    def page(self) -> NodePage:
        now = time.time()
        panels: list[Panel] = []
        attention: list[Attention] = []
        for number, (cluster, work) in enumerate(self._work):
            result, name = work.result(), cluster.name
            text = result.fault or ("The nodes are being queried." if result.at is None else "")
            answers = [_readable(each, now) for each in result.value or ()]
            rows = tuple(_row(each, now) for each in answers)
            panels.append(Panel(f"cluster-{number}", name, text=text, columns=_COLUMNS, rows=rows))
            if result.fault:
                title = f"{name}: The nodes cannot be queried"
                attention.append(Attention(Level.FAULT, title, result.fault, result.next_step))
            attention += [replace(each, title=f"{name}: {each.title}") for each in cluster_attention(answers, now)]
        level = max((each.level for each in attention), key=_ORDER.index, default=Level.GOOD)
        names = ", ".join(panel.title for panel in panels)
        return NodePage("Cluster", names, "", level, attention=tuple(attention), panels=tuple(panels))


def _readable(answer: PeerAnswer, now: float) -> PeerAnswer:
    """Return `answer`, or a fault if it does not contain a node's state, because peers may run any release or any
    program.
    """
    try:
        _row(answer, now)
        tuple(cluster_attention((answer,), now))
    except Exception as fault:
        return PeerAnswer(answer.peer, error=f"its answer is not the state of a node ({fault!r})", odd=True)
    return answer


_ORDER: Final = (Level.NEUTRAL, Level.GOOD, Level.WARNING, Level.FAULT)


def cluster_attention(answers: Sequence[PeerAnswer], now: float) -> Iterator[Attention]:
    """Yield the problems that need an operator: the problems of each node, and a missing or second active NameNode."""
    active = [each for each in answers if each.beans and _ha_state(each) == "active"]
    namenodes = [each for each in answers if each.peer.kind == "namenode" and each.beans]
    if len(namenodes) > 1 and not active:
        yield Attention(
            Level.FAULT,
            "No NameNode is active",
            "no NameNode that answers is active",
            "Check the failover controllers and the logs of the NameNodes.",
            "runbook.md#no-namenode-becomes-active",
        )
    if len(active) > 1:
        names = ", ".join(map(_host, active))
        title = "More than one NameNode is active"
        yield Attention(
            Level.FAULT,
            title,
            f"{names} report that they are active",
            _TWO_STEP,
            "runbook.md#no-namenode-becomes-active",
        )
    for each in answers:
        if each.status is not None:
            for found in page_of(each.status, now + each.clock_ahead).attention:
                yield replace(found, title=f"{found.title} ({_host(each)})")
        elif each.error and not each.peer.optional:
            title = f"{_TITLES[each.peer.kind]} {_host(each)} cannot be {'read' if each.odd else 'reached'}"
            yield Attention(Level.FAULT, title, each.error, _LOST_STEP, _SECTIONS[each.peer.kind])


def _row(answer: PeerAnswer, now: float) -> tuple[PageCell, ...]:
    # the times of a peer are from the peer's clock
    now += answer.clock_ahead
    node = PageCell(_host(answer), link=f"{answer.peer.url}/")
    kind = _TITLES[answer.peer.kind]
    if answer.status is not None:
        page, status = page_of(answer.status, now), answer.status
        image = status.get("imageTxid", status.get("checkpointTxid"))
        newest = status.get("journalTxid", status.get("lastTxid"))
        state = {Level.FAULT: "not ready", Level.WARNING: "needs attention"}.get(page.level, "well")
        return node, cell(page.role), cell(state, page.level), _txid(image), _txid(newest), cell(page.headline)
    if answer.beans is not None:
        names = answer.beans.get("FSNamesystem") or {}
        at = names.get("LastCheckpointTime")
        made = f"last checkpoint {ago_text(at / 1000, now)}" if at else ""
        since = names.get("TransactionsSinceLastCheckpoint")
        behind = f"{counted(since, 'transaction', ',')} since" if since is not None else ""
        detail = ", ".join(part for part in (made, behind) if part)
        return node, cell(kind), _beans_state(answer), cell(None), _txid(answer.last_txid), cell(detail)
    level = Level.NEUTRAL if answer.peer.optional else Level.FAULT
    return (
        node,
        cell(kind),
        cell("sends an unexpected answer" if answer.odd else "does not answer", level),
        cell(None),
        cell(None),
        cell(answer.error),
    )


def _beans_state(answer: PeerAnswer) -> PageCell:
    beans, state = answer.beans or {}, _ha_state(answer)
    if (beans.get("FSNamesystemState") or {}).get("FSState") == "safeMode":
        return cell(f"{state}, safe mode", Level.WARNING)
    known = state in _NORMAL_STATES if answer.peer.kind == "namenode" else any(beans.values())
    return cell(state, Level.GOOD if known else Level.NEUTRAL)


def _ha_state(answer: PeerAnswer) -> str:
    beans = answer.beans or {}
    known = (beans.get("NameNodeStatus") or {}).get("State") or (beans.get("FSNamesystem") or {}).get("tag.HAState")
    return str(known or "answers")


def _txid(value: Any) -> PageCell:
    return cell(count_text(value) if isinstance(value, int) else None)


def _host(answer: PeerAnswer) -> str:
    return answer.peer.url.partition("://")[2]
