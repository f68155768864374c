"""Checks of NameNodes and JournalNodes: reachability, one active NameNode, an up-to-date majority, one namespace."""

from __future__ import annotations

from dataclasses import replace

from checkpointer.checks.facts import Facts, NameNodeFacts, active_of
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from image_format.errors import UnsupportedLayoutError
from image_format.layout import check_supported
from journal.quorum.calls import majority
from journal.quorum.node_answers import NodeAnswer, lacking_open_segment

_ACTIVE = "ACTIVE"
_NEXT_SEGMENT_HINT = (
    "Begin a segment on the active NameNode with `hdfs dfsadmin -rollEdits`; keep the other JournalNodes running until "
    "this check is OK."
)

_FOREIGN_HINT = (
    "Find out which cluster this configuration, its JournalNodes and this node's images belong to: run the "
    "`version` check. Do not format a JournalNode, because its journal may be the last copy of the other namespace."
)

_UPGRADE_HINT = (
    "During an upgrade, no action is needed: the daemon adopts the NameNode's VERSION with its next checkpoint, or "
    "once a rolling upgrade is finalized. Otherwise, run the `daemon` check."
)

_UPGRADED_HINT = (
    "During a rolling upgrade, no action is needed until all NameNodes run the new release and the upgrade is "
    "finalized. After an upgrade with `-upgrade`, each standby NameNode must be bootstrapped again: "
    'docs/operations.md, "In place, with `-upgrade`".'
)

_TWO_ACTIVE_HINT = (
    "First find the NameNode that writes the edits. With JournalNodes, it is the NameNode with the newest epoch: the "
    "JournalNodes' logs name its address at the last update of lastPromisedEpoch. The other NameNode may hold the "
    "lock in ZooKeeper. Without JournalNodes, the writer is the holder of that lock (`checkpointer zkfc status`). "
    "Keep the writer running, and end the process of the other NameNode on its host. `hdfs haadmin -failover` does "
    "not fence here, because its target must be a standby."
)


_DIRECTORY_HINT = (
    "On the NameNode's host, check the directory's disk, its space and its permissions. Then run `hdfs dfsadmin "
    "-restoreFailedStorage true` and `hdfs dfsadmin -rollEdits`; the active NameNode then uses the directory again. "
    "A standby uses the directory again with its own next checkpoint."
)


def check_namenode(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the NameNodes answer both RPC calls and HTTP requests, and use all their storage directories.

    While at least one of several NameNodes answers, the state is at most WARNING, because another NameNode may be down
    for maintenance. The state is CRITICAL if the active NameNode has no directory for images. It is UNKNOWN if all
    NameNodes answer, but refuse this user.
    """
    well = [node for node in facts.namenodes if node.last_txid.value is not None and node.beans.value is not None]
    total = len(facts.namenodes)
    details = [line for node in facts.namenodes for line in _reachability(node)]
    metric = Metric("namenodes", len(well))
    failed, lost = _failed_directories(facts)
    refused = [node for node in facts.namenodes if node.last_txid.refused and node.beans.value is not None]
    refusals = [f"{len(refused)} of {total} refuse the queries of this user"] if refused else []
    summary = "; ".join([f"{len(well)} of {total} reachable by RPC and HTTP", *refusals, *lost])
    if len(well) == total:
        return CheckVerdict(failed, summary, tuple(details), (metric,), _DIRECTORY_HINT if lost else "")
    state = State.WARNING if well else State.CRITICAL
    if len(well) + len(refused) == total:
        state = State.UNKNOWN
    hints = (node.last_txid.hint if node.last_txid.value is None else node.beans.hint for node in facts.namenodes)
    hint = next(filter(None, hints), "")
    return CheckVerdict(worst([state, failed]), summary, tuple(details), (metric,), hint)


def _reachability(node: NameNodeFacts) -> list[str]:
    rpc = node.last_txid.error or f"last txid {node.last_txid.value}"
    web = node.beans.error or ("answers" if node.beans.value else "answers, but does not show its metrics")
    return [f"RPC {node.rpc}: {rpc}", f"HTTP {node.http}: {web}"]


def _failed_directories(facts: Facts) -> tuple[State, list[str]]:
    """Return the state of the NameNodes' storage directories, and a sentence for each NameNode that lost a
    directory.
    """
    lost = []
    for node in facts.namenodes:
        known = node.directories.value
        if known is not None and known.failed:
            total = counted(len(known.failed) + known.used, "storage directory")
            lost.append(f"{node.http} no longer uses {len(known.failed)} of its {total}: {', '.join(known.failed)}")
    if not lost:
        return State.OK, lost
    active = active_of(facts)
    stored = None if active is None else active.directories.value
    return State.CRITICAL if stored is not None and not stored.images else State.WARNING, lost


def check_ha(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that exactly one NameNode of an HA pair is active."""
    if not facts.is_ha:
        return CheckVerdict(State.OK, "HA is not configured")
    details = tuple(f"{node.rpc}: {node.state.value or node.state.error}" for node in facts.namenodes)
    active = [node for node in facts.namenodes if node.state.value == _ACTIVE]
    silent = [node for node in facts.namenodes if node.state.value is None]
    if len(active) == 1:
        return CheckVerdict(State.OK, f"{active[0].rpc} is active", details)
    if active:
        return CheckVerdict(
            State.CRITICAL, f"{len(active)} NameNodes report that they are active", details, hint=_TWO_ACTIVE_HINT
        )
    if silent:
        return CheckVerdict(
            State.UNKNOWN,
            f"no NameNode reports that it is active; {len(silent)} of {len(facts.namenodes)} did not answer",
            details,
        )
    return CheckVerdict(State.CRITICAL, "no NameNode is active", details)


def check_kerberos(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that every step of the Kerberos login succeeds."""
    steps = facts.login.value
    if facts.login.error:
        return CheckVerdict(State.CRITICAL, f"the login test was not completed: {facts.login.error}")
    if not steps:
        return CheckVerdict(State.OK, "Kerberos is not configured")
    details = tuple(f"{step.name}: {step.error or step.warning or 'works'}" for step in steps)
    for step in steps:
        if step.error:
            return CheckVerdict(State.CRITICAL, f"{step.name} fails: {step.error}", details, hint=step.hint)
    for step in steps:
        if step.warning:
            return CheckVerdict(State.WARNING, f"{step.name}: {step.warning}", details, hint=step.hint)
    return CheckVerdict(State.OK, f"all {counted(len(steps), 'step')} of the login succeed", details)


def check_version(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the NameNodes, the storage and the journal belong to one namespace, and that their layout is
    supported.
    """
    known = _storage_infos(facts)
    errors = {node.rpc: node.storage_info.error for node in facts.namenodes if node.storage_info.error}
    if facts.journal is not None and facts.journal.storage_info.error:
        errors[facts.journal.place] = facts.journal.storage_info.error
    details = [f"{where}: {info.colon_string()}" for where, info in known]
    details += [f"{where}: {error}" for where, error in errors.items()]
    details += [f"{node.rpc}: Hadoop {node.software}" for node in facts.namenodes if node.software]
    if not known:
        return CheckVerdict(State.UNKNOWN, "no node or directory reports its namespace", tuple(details))
    states, problems = [State.OK], []
    identity = _identity(known)
    # different namespaces always differ in cTime
    differing = "" if identity[1] else _differing(known)
    upgrades = (State.WARNING if differing else State.OK, differing)
    for state, problem in (identity, _layouts(known), upgrades):
        states.append(state)
        problems += [problem] if problem else []
    if errors:
        states.append(State.UNKNOWN)
        problems.append(f"the namespace of {' and '.join(errors)} cannot be read")
    first = known[0][1]
    summary = "; ".join(problems) or f"layout {first.layout_version}, cluster {first.cluster_id}"
    state = worst(states)
    # the daemon adopts a change in its own directories
    hint = _UPGRADED_HINT if _differing(_storage_infos(replace(facts, directories=()))) else _UPGRADE_HINT
    return CheckVerdict(state, summary, tuple(details), hint=hint if state is State.WARNING else "")


def _storage_infos(facts: Facts) -> list[tuple[str, StorageInfo]]:
    found = [(node.rpc, info) for node in facts.namenodes if (info := node.storage_info.value)]
    for each in facts.directories:
        if each.listing.value is not None and each.listing.value.version is not None:
            found.append((str(each.root), each.listing.value.version))
    if facts.journal is not None and (info := facts.journal.storage_info.value):
        found.append((facts.journal.place, info))
    return found


def _identity(known: list[tuple[str, StorageInfo]]) -> tuple[State, str]:
    where, first = known[0]
    for other, info in known[1:]:
        for name in ("cluster_id", "namespace_id", "blockpool_id"):
            ours, theirs = getattr(first, name), getattr(info, name)
            # the VERSION of a JournalNode or a shared directory may lack the block pool
            if ours and theirs and ours != theirs:
                return State.CRITICAL, f"{name} is {ours} at {where}, but {theirs} at {other}"
    return State.OK, ""


def _layouts(known: list[tuple[str, StorageInfo]]) -> tuple[State, str]:
    for where, info in known:
        try:
            check_supported(info.layout_version, where)
        except UnsupportedLayoutError as fault:
            return State.CRITICAL, str(fault)
    return State.OK, ""


def _differing(known: list[tuple[str, StorageInfo]]) -> str:
    """Return a sentence about the first two places of which one has been upgraded, or ""."""
    for other, info in known[1:]:
        where, first = known[0]
        if (info.layout_version, info.c_time) != (first.layout_version, first.c_time):
            return f"layout or cTime of {where} and {other} differ, as during an upgrade"
    return ""


def check_journal_nodes(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the JournalNodes answer RPC calls and HTTP requests; without a majority, edits cannot be read or
    written.
    """
    nodes = () if facts.journal is None else facts.journal.nodes
    if not nodes:
        return CheckVerdict(State.OK, "the edits are not on JournalNodes")
    newest = max((node.last_txid for node in nodes if node.same_namespace is not False), default=-1)
    well = [node for node in nodes if not _fault(node)]
    lag = max((newest - node.last_txid for node in well), default=0)
    limits = thresholds.limits("journalnodes", facts.transactions, None)
    lagging = Metric("lag", lag, "", limits.warning, limits.critical)
    details = tuple(f"{node.address}: {_fault(node) or _standing(node, newest)}" for node in nodes)
    states = [_state(len(well), len(nodes)), lagging.state()]
    foreign = [node for node in nodes if node.same_namespace is False]
    answering = sum(not (node.fault or node.http_fault) for node in nodes)
    summary = (
        f"{answering} of {len(nodes)} answer by RPC and HTTP; the node furthest behind lacks "
        f"{counted(lag, 'transaction')}"
    )
    hint = next((node.hint or _leftover_hint(node) for node in nodes if node.hint or node.leftover), "")
    if foreign:
        summary += f"; {len(foreign)} of {len(nodes)} store the journal of another namespace"
        hint = _FOREIGN_HINT
    if lacking := lacking_open_segment(nodes):
        states.append(State.WARNING)
        summary += f"; no edits are written to {', '.join(node.address for node in lacking)} until the next segment"
        hint = hint or _NEXT_SEGMENT_HINT
    return CheckVerdict(worst(states), summary, details, (Metric("journalnodes", len(well)), lagging), hint)


def _leftover_hint(node: NodeAnswer) -> str:
    return (
        f"{node.address} cannot list its segments because of {node.leftover}, whose transactions are also in a "
        "finalized segment: Hadoop's JournalNode syncer leaves such files. While the other JournalNodes answer, stop "
        "this JournalNode, move the file out of `current`, and start the JournalNode again."
    )


def _state(well: int, total: int) -> State:
    if well == total:
        return State.OK
    return State.WARNING if well >= majority(total) else State.CRITICAL


def _fault(node: NodeAnswer) -> str:
    if node.same_namespace is False:
        return "its journal belongs to another namespace"
    return node.fault or node.http_fault


def _standing(node: NodeAnswer, newest: int) -> str:
    committed = "" if node.committed_txid is None else f", committed txid {node.committed_txid}"
    return f"last txid {node.last_txid}, {newest - node.last_txid} behind{committed}, epoch {node.epoch}"
