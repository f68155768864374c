"""Checks of the work itself: age of the last checkpoint, transactions since, edits without a gap, the daemon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkpointer.checks.facts import Facts, TxidRange, active_of
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import Metric, State, Verdict, worst
from hadoop_common.quantities import counted, duration
from servlets.node_state import Cancelled, Record

# as the daemon's readiness: three periods without a checkpoint are an alarm
_WARNING_PERIODS, _CRITICAL_PERIODS = 2, 3
_WARNING_TRANSACTIONS = 2
_LISTED = 5


def check_age(facts: Facts, thresholds: Thresholds) -> Verdict:
    """The last checkpoint is not long ago; one that nothing was written after does not age."""
    limits = thresholds.limits("age", _WARNING_PERIODS * facts.period, _CRITICAL_PERIODS * facts.period)
    at, details = _last_checkpoint(facts)
    if at is None:
        return Verdict(State.UNKNOWN, "the time of the last checkpoint is not known", tuple(details))
    age = max(0.0, facts.now - at)
    metric = Metric("age", round(age), "s", limits.warning, limits.critical)
    if _transactions_since(facts) == 0:
        return Verdict(State.OK, f"{duration(age)}, and nothing was written since", tuple(details), (metric,))
    return Verdict(metric.state(), f"last checkpoint {duration(age)} ago", tuple(details), (metric,))


def _last_checkpoint(facts: Facts) -> tuple[float | None, list[str]]:
    """When the NameNode got its newest image, else when ours was written, in seconds since the epoch.

    A NameNode keeps what /jmx reports for a while: the daemon knows at once what that one took from it.
    """
    details = []
    node = active_of(facts)
    known: float | None = None
    if node is not None and node.beans.value is not None:
        milliseconds = node.beans.value.get("LastCheckpointTime")
        if isinstance(milliseconds, int) and milliseconds > 0:
            known = milliseconds / 1000
            details.append(f"{node.http} says {duration(facts.now - known)} ago")
    image = facts.image.value
    if image is not None:
        details.append(f"our image at txid {image.txid} was written {duration(facts.now - image.modified)} ago")
        known = image.modified if known is None else known
    elif facts.image.error:
        details.append(f"our images: {facts.image.error}")
    status = None if facts.daemon is None else facts.daemon.status.value
    if status is not None and status.checkpoint_at is not None and known is not None:
        known = max(known, status.checkpoint_at)
    return known, details


def check_transactions(facts: Facts, thresholds: Thresholds) -> Verdict:
    """Not many more transactions than make a checkpoint due are in no image of the NameNode."""
    limits = thresholds.limits("transactions", _WARNING_TRANSACTIONS * facts.transactions, None)
    since = _transactions_since(facts)
    if since is None:
        return Verdict(State.UNKNOWN, "no NameNode reports its last transaction and its newest image")
    metric = Metric("transactions", since, "", limits.warning, limits.critical)
    return Verdict(metric.state(), f"{since} since the last checkpoint", metrics=(metric,))


def _transactions_since(facts: Facts) -> int | None:
    node = active_of(facts)
    if node is None or node.last_txid.value is None or node.checkpoint_txid.value is None:
        return None
    return max(0, node.last_txid.value - node.checkpoint_txid.value)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which transactions segments lack: `gaps` between them, `tail` after the last one; first and last txid each."""

    gaps: tuple[tuple[int, int], ...]
    tail: tuple[int, int] | None


def coverage(base: int, segments: Iterable[TxidRange], last: int) -> Coverage:
    """What `segments` lack of the transactions after `base` up to `last`; an open one reaches as far as it has to."""
    expected, gaps = base + 1, []
    for segment in sorted(segments, key=lambda each: (each.first, each.last is None, each.last or 0)):
        end = max(last, segment.first) if segment.last is None else segment.last
        if end < expected:
            continue
        if segment.first > expected and expected <= last:
            gaps.append((expected, min(segment.first - 1, last)))
        expected = end + 1
    return Coverage(tuple(gaps), (expected, last) if expected <= last else None)


def check_edits(facts: Facts, thresholds: Thresholds) -> Verdict:
    """From the image that the next checkpoint starts from, the edits reach the NameNode's last txid without a gap."""
    node = active_of(facts)
    if node is None or node.last_txid.value is None:
        return Verdict(State.UNKNOWN, "no NameNode reports its last transaction")
    last = node.last_txid.value
    # a standby goes on from its own image and the shared edits, others fetch the NameNode's image and its edits
    if facts.journal is not None:
        where, segments = facts.journal.place, facts.journal.segments
        base = None if facts.image.value is None else facts.image.value.txid
    else:
        where, segments = node.rpc, node.segments
        base = node.checkpoint_txid.value
    if segments.value is None or base is None:
        reason = segments.error or facts.image.error or "there is no image yet"
        return Verdict(State.UNKNOWN, f"edits at {where} cannot be followed: {reason}")
    details = (
        f"image at txid {base}, the NameNode is at {last}",
        f"{counted(len(segments.value), 'segment')} at {where}",
    )
    if stranger := _stranger(facts, base, segments.value, last):
        return Verdict(
            State.CRITICAL,
            stranger,
            details,
            hint="The NameNode was restored from an older state, or is another one: compare them. The daemon offers "
            "it nothing of another past (docs/lost-past.md).",
        )
    found = coverage(base, segments.value, last)
    metric = Metric("missing", sum(end - first + 1 for first, end in found.gaps))
    if found.gaps:
        listed = ", ".join(f"{first}-{end}" for first, end in found.gaps[:_LISTED])
        more = f" and {len(found.gaps) - _LISTED} more" if len(found.gaps) > _LISTED else ""
        return Verdict(State.CRITICAL, f"missing between image and NameNode: {listed}{more}", details, (metric,))
    if found.tail is not None and facts.journal is not None:
        first, end = found.tail
        return Verdict(State.WARNING, f"{first}-{end} are not in {where} (yet)", details, (metric,))
    return Verdict(State.OK, f"without a gap from txid {base} to {last}", details, (metric,))


def _stranger(facts: Facts, base: int, segments: tuple[TxidRange, ...], last: int) -> str:
    """What says that an image is not of the NameNode's past, "" where nothing does."""
    ours = base if facts.image.value is None else facts.image.value.txid
    newest = max(base, ours)
    if newest > last:
        return f"the image at txid {newest} is ahead of the NameNode, which is at {last}"
    # a standby's image may end within a segment, that of the other roles is made of whole ones
    if facts.journal is None and ours > base and not any(each.last == ours for each in segments):
        return f"our image at txid {ours} is not of the NameNode's past: none of its segments ends there"
    return ""


def check_daemon(facts: Facts, thresholds: Thresholds) -> Verdict:
    """The daemon answers, is ready, has no alarm, its last attempt did not fail, and nothing holds checkpoints back."""
    daemon = facts.daemon
    assert daemon is not None, "the daemon is among this check's needs"
    if daemon.live.value is None:
        return Verdict(State.CRITICAL, f"{daemon.url} does not answer", (daemon.live.error,))
    states, problems, details = [State.OK], [], []
    for name, answer, state in (("live", daemon.live, State.CRITICAL), ("ready", daemon.ready, State.WARNING)):
        if answer.value is None:
            states.append(State.UNKNOWN)
            problems.append(f"/health/{name}: {answer.error}")
            continue
        well, message = answer.value
        details.append(f"{name}: {message}")
        if not well:
            states.append(state)
            problems.append(f"not {name}: {message}")
    said = " ".join(problems)
    metrics: tuple[Metric, ...] = ()
    hint = ""
    if daemon.status.value is None:
        states.append(State.UNKNOWN)
        problems.append(f"/status: {daemon.status.error}")
    else:
        status, record = daemon.status.value, daemon.status.value.record
        metrics = (Metric("failures", record.failures),)
        hint = " ".join(dict.fromkeys(status.next_steps.values()))
        found = [alarm for alarm in status.alarms if alarm not in said]
        found += [_last_error(facts.now, record), _cancellation(status.cancelled)]
        told = [problem for problem in found if problem]
        states += [State.WARNING] * len(told)
        problems += told
    return Verdict(worst(states), "; ".join(problems) or f"{daemon.url} is ready", tuple(details), metrics, hint=hint)


def _cancellation(held: Cancelled | None) -> str:
    """That checkpoints are held back, "" where they are not."""
    if held is None:
        return ""
    reason = held.reason or "no reason was given"
    return f"no checkpoint may begin for {duration(held.seconds_left)}, cancelled: {reason}"


def _last_error(now: float, record: Record) -> str:
    """The daemon's newest error, "" if a checkpoint or an upload succeeded after it."""
    at = record.last_error_at
    if not record.last_error or at is None:
        return ""
    if any(success is not None and success > at for success in (record.saved_at, record.uploaded_at)):
        return ""
    return f"failed {duration(now - at)} ago: {record.last_error}"
