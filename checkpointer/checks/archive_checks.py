"""The check of the archive that the daemon fills."""

from __future__ import annotations

from checkpointer.checks.facts import Facts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State
from hadoop_common.quantities import counted, duration
from node_state.state import ArchiveState

_MISSING_HINT = "Make a checkpoint (`checkpointer checkpoint --force`): the archive continues from its image."


def check_archive(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the archive is filled and can restore the newest archived transaction."""
    daemon = facts.daemon
    assert daemon is not None, "this check needs the daemon's facts"
    status = daemon.status.value
    if status is None:
        error = daemon.status.error or daemon.live.error or "the daemon does not answer"
        return CheckVerdict(State.UNKNOWN, f"the daemon does not report its archive: {error}")
    archive = status.archive
    if archive is None:
        return CheckVerdict(State.OK, "no archive: checkpointer.archive.dir is not set")
    where, gap = archive.directory, archive.missing_transactions
    lost = f"; a purge removed {counted(gap, 'transaction')} before they were archived" if gap else ""
    metrics = _metrics(archive)
    if archive.error:
        hint = next((step for alarm, step in status.next_steps.items() if archive.error in alarm), "")
        return CheckVerdict(
            State.WARNING, f"{where} is not being filled: {archive.error}{lost}", (), metrics, hint=hint
        )
    if not archive.branch:
        text = f"it is not known yet whether {where} contains the present history"
        return CheckVerdict(State.WARNING, text, (), metrics)
    if archive.restorable_txid < 0:
        return CheckVerdict(State.WARNING, f"{where} cannot restore anything yet, because it has no image", (), metrics)
    behind = archive.lag_transactions
    lag = "" if behind is None else f", {counted(behind, 'transaction')} behind"
    since = "" if archive.lag_seconds is None else f", last complete {duration(archive.lag_seconds)} ago"
    until = f"every moment of branch {archive.branch} up to transaction {archive.restorable_txid}"
    summary = f"{where} restores {until}{lag}{since}{lost}"
    if gap and archive.restorable_txid < archive.archived_txid:
        return CheckVerdict(State.WARNING, summary, (), metrics, hint=_MISSING_HINT)
    for alarm, kind in status.alarm_kinds.items():
        if kind == "archive":
            return CheckVerdict(
                State.WARNING, f"{alarm}; {summary}", (), metrics, hint=status.next_steps.get(alarm, "")
            )
    return CheckVerdict(State.OK, summary, (), metrics)


def _metrics(archive: ArchiveState) -> tuple[Metric, ...]:
    found = [Metric("archive_missing", archive.missing_transactions)]
    if archive.lag_transactions is not None:
        found.append(Metric("archive_lag", archive.lag_transactions))
    if archive.lag_seconds is not None:
        found.append(Metric("archive_lag_time", round(archive.lag_seconds), "s"))
    return tuple(found)
