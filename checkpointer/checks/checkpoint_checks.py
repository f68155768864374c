"""Checks of checkpointing: age of the last checkpoint, transactions since then, gaps in the edits, the daemon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from checkpointer.checks.facts import Facts, active_of
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst
from hadoop_common.clock_difference import CLOCK_TOLERANCE, difference_text
from hadoop_common.names import SegmentName
from hadoop_common.quantities import ago_text, counted, duration
from node_state.state import ALLOW_AGAIN_HINT, CheckpointBlock, CheckpointRecord, NodeState

# after three periods, the daemon is no longer ready either
_WARNING_PERIODS, _CRITICAL_PERIODS = 2, 3
_WARNING_TRANSACTIONS = 2
_LISTED = 5
_OLD_IMAGE_HINT = (
    "The NameNode does not need these edits: its own image is newer. Set checkpointer.standby.rebootstrap to true and "
    "reload the daemon, which then fetches the NameNode's image when edits are missing."
)
_FETCHES_HINT = (
    "The NameNode does not need these edits: its own image is newer. A running daemon fetches that image at its next "
    "read of the edits; if the warning persists, see the daemon's alarms."
)
_LOG_HINT = 'The daemon\'s log contains the next step of each error, after "next:".'
_CLOCK_HINT = "Synchronize the clocks of this host and of the NameNode with NTP (`timedatectl`, `chronyc tracking`)."


def check_age(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the last checkpoint is recent; without new transactions, its age does not matter."""
    limits = thresholds.limits("age", _WARNING_PERIODS * facts.period, _CRITICAL_PERIODS * facts.period)
    at, details = _last_checkpoint(facts)
    if at is None:
        return CheckVerdict(State.UNKNOWN, "the time of the last checkpoint is unknown", tuple(details))
    if at - facts.now > CLOCK_TOLERANCE:
        summary = f"the time of the last checkpoint is {difference_text(at - facts.now)}"
        return CheckVerdict(State.WARNING, summary, tuple(details), hint=_CLOCK_HINT)
    age = max(0.0, facts.now - at)
    metric = Metric("age", round(age), "s", limits.warning, limits.critical)
    state, summary = metric.state(), f"last checkpoint {duration(age)} ago"
    if _transactions_since(facts) == 0:
        state, summary = State.OK, f"{summary}; no transactions since then"
    node = active_of(facts)
    if node is None or not node.clock_ahead:
        return CheckVerdict(state, summary, tuple(details), (metric,))
    summary += f"; the clock of {node.http} is {difference_text(node.clock_ahead)}"
    hint = _CLOCK_HINT if state is State.OK else ""
    return CheckVerdict(worst([state, State.WARNING]), summary, tuple(details), (metric,), hint)


def _last_checkpoint(facts: Facts) -> tuple[float | None, list[str]]:
    """Return the time when the NameNode stored its newest image or, if unknown, when our newest image was written.

    The time is in seconds since the epoch by this host's clock. A NameNode caches its /jmx values for a while, but the
    daemon's time of an accepted upload is always current.
    """
    details = []
    node = active_of(facts)
    known: float | None = None
    if node is not None and node.beans.value is not None:
        milliseconds = node.beans.value.get("LastCheckpointTime")
        if isinstance(milliseconds, int) and milliseconds > 0:
            known = milliseconds / 1000 - node.clock_ahead
            details.append(f"{node.http} reports {_moment(known, facts.now)}")
    image = facts.image.value
    if image is not None:
        details.append(f"our image at txid {image.txid} was written {_moment(image.modified, facts.now)}")
        known = image.modified if known is None else known
    elif facts.image.error:
        details.append(f"our images: {facts.image.error}")
    status = None if facts.daemon is None else facts.daemon.status.value
    if status is not None and status.checkpoint_at is not None and known is not None:
        known = max(known, status.checkpoint_at)
    return known, details


def _moment(at: float, now: float) -> str:
    return ago_text(at, now) if at <= now else difference_text(at - now)


def check_transactions(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the number of transactions since the NameNode's newest image is not far above the configured count."""
    limits = thresholds.limits("transactions", _WARNING_TRANSACTIONS * facts.transactions, None)
    since = _transactions_since(facts)
    if since is None:
        return CheckVerdict(State.UNKNOWN, "no NameNode reports its last transaction and its newest image")
    metric = Metric("transactions", since, "", limits.warning, limits.critical)
    return CheckVerdict(metric.state(), f"{since} since the last checkpoint", metrics=(metric,))


def _transactions_since(facts: Facts) -> int | None:
    node = active_of(facts)
    if node is None or node.last_txid.value is None or node.checkpoint_txid.value is None:
        return None
    return max(0, node.last_txid.value - node.checkpoint_txid.value)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Missing transactions as (first, last): `gaps` between segments, and `tail` after the last segment."""

    gaps: tuple[tuple[int, int], ...]
    tail: tuple[int, int] | None


def coverage(base: int, segments: Iterable[SegmentName], last: int) -> Coverage:
    """Return the transactions after `base` up to `last` that `segments` lack; assume that an open segment is complete
    up to `last`.
    """
    expected, gaps = base + 1, []
    for segment in sorted(segments, key=lambda each: (each.first, each.last is None, each.last or 0)):
        end = max(last, segment.first) if segment.last is None else segment.last
        if end < expected:
            continue
        if segment.first > expected and expected <= last:
            gaps.append((expected, min(segment.first - 1, last)))
        expected = end + 1
    return Coverage(tuple(gaps), (expected, last) if expected <= last else None)


def check_edits(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the edits reach from the next checkpoint's base image to the NameNode's last txid without a gap."""
    node = active_of(facts)
    if node is None or node.last_txid.value is None:
        return CheckVerdict(State.UNKNOWN, "no NameNode reports its last transaction")
    last = node.last_txid.value
    # a standby starts from this node's image and the shared edits; other roles fetch the NameNode's image and edits
    if facts.journal is not None:
        where, segments = facts.journal.place, facts.journal.segments
        base = None if facts.image.value is None else facts.image.value.txid
    else:
        where, segments = node.rpc, node.segments
        base = node.checkpoint_txid.value
    if segments.value is None or base is None:
        reason = segments.error or facts.image.error or "there is no image yet"
        return CheckVerdict(State.UNKNOWN, f"edits at {where} cannot be checked: {reason}")
    details = (
        f"the image is at txid {base}, and the NameNode at {last}",
        f"{counted(len(segments.value), 'segment')} at {where}",
    )
    if stranger := _stranger(facts, base, segments.value, last):
        return CheckVerdict(
            State.CRITICAL,
            stranger,
            details,
            hint="Either the NameNode was restored from an older state, or this is a different NameNode: find out "
            "which. The daemon does not offer this NameNode images of another past (docs/lost-past.md).",
        )
    found = coverage(base, segments.value, last)
    metric = Metric("missing", sum(end - first + 1 for first, end in found.gaps))
    if found.gaps:
        listed = ", ".join(f"{first}-{end}" for first, end in found.gaps[:_LISTED])
        more = f" and {len(found.gaps) - _LISTED} more" if len(found.gaps) > _LISTED else ""
        missing_to, newest = found.gaps[-1][1], node.checkpoint_txid.value
        if facts.journal is not None and newest is not None and missing_to <= newest:
            state, follows = _of_old_image(facts, missing_to)
            summary = f"our image at txid {base} is too old, because transactions {listed}{more} are missing: {follows}"
            hint = _FETCHES_HINT if facts.rebootstrap else _OLD_IMAGE_HINT
            return CheckVerdict(state, summary, details, (metric,), hint=hint)
        return CheckVerdict(
            State.CRITICAL,
            f"transactions missing between the image and the NameNode: {listed}{more}",
            details,
            (metric,),
        )
    if found.tail is not None and facts.journal is not None:
        first, end = found.tail
        return CheckVerdict(State.WARNING, f"transactions {first}-{end} are not yet in {where}", details, (metric,))
    return CheckVerdict(State.OK, f"no edits are missing from txid {base} to {last}", details, (metric,))


def _of_old_image(facts: Facts, missing_to: int) -> tuple[State, str]:
    """Return the check's state for a standby that lacks edits after its image up to `missing_to`, and describe the
    consequence.

    Edits can be missing because a standby makes no images while another daemon leads, and the NameNode purges old
    edits.
    """
    status = None if facts.daemon is None else facts.daemon.status.value
    applied = None if status is None else status.details.applied_txid
    in_memory = applied is not None and applied >= missing_to
    if facts.rebootstrap:
        fetches = "fetches the NameNode's image"
        return (State.OK, f"a restart {fetches}") if in_memory else (State.WARNING, f"the daemon {fetches}")
    if in_memory:
        return (
            State.WARNING,
            "the daemon has the missing edits in memory, but may be unable to continue after a restart",
        )
    return State.CRITICAL, "the daemon cannot continue from this image"


def _stranger(facts: Facts, base: int, segments: tuple[SegmentName, ...], last: int) -> str:
    """Describe why our newest image cannot belong to the NameNode's past; return "" if nothing contradicts it."""
    ours = base if facts.image.value is None else facts.image.value.txid
    newest = max(base, ours)
    if newest > last:
        return f"the image at txid {newest} is ahead of the NameNode, which is at {last}"
    # a standby's image may end within a segment; the other roles merge whole segments
    if facts.journal is None and ours > base and not any(each.last == ours for each in segments):
        return f"our image at txid {ours} does not belong to the NameNode's past: no segment ends at this txid"
    return ""


def check_daemon(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that the daemon answers, is ready, has neither an alarm nor an unresolved error, and may make
    checkpoints.
    """
    daemon = facts.daemon
    assert daemon is not None, "this check needs the daemon's facts"
    if daemon.live.value is None:
        return CheckVerdict(State.CRITICAL, f"{daemon.url} does not answer", (daemon.live.error,))
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
    known_text = " ".join(problems)
    metrics: tuple[Metric, ...] = ()
    hint = ""
    if daemon.status.value is None:
        states.append(State.UNKNOWN)
        problems.append(f"/status: {daemon.status.error}")
    else:
        status, record = daemon.status.value, daemon.status.value.record
        metrics = (Metric("failures", record.failures),)
        hint = " ".join(dict.fromkeys(_next_steps(status)))
        found = [alarm for alarm in status.alarms if alarm not in known_text]
        details += [f"{kind}: {silence}" for kind, silence in status.silences.items()]
        details += [f"{alarm}: {known}" for alarm, known in status.acknowledgements.items()]
        found += [_last_error(facts.now, record), _cancellation(status.cancelled)]
        new_problems = [problem for problem in found if problem]
        states += [State.WARNING] * len(new_problems)
        problems += new_problems
        hint = hint or (_LOG_HINT if new_problems else "")
    return CheckVerdict(
        worst(states), "; ".join(problems) or f"{daemon.url} is ready", tuple(details), metrics, hint=hint
    )


def _next_steps(status: NodeState) -> Iterator[str]:
    """Yield the known next steps for the reasons why a running daemon makes no checkpoints."""
    yield from status.next_steps.values()
    if status.cancelled is not None:
        yield ALLOW_AGAIN_HINT


def _cancellation(held: CheckpointBlock | None) -> str:
    """Return a sentence about the cancellation that blocks checkpoints, or "" if no cancellation is in effect."""
    if held is None:
        return ""
    reason = held.reason or "no reason was given"
    return f"checkpoints are cancelled and blocked for {duration(held.seconds_left)}: {reason}"


def _last_error(now: float, record: CheckpointRecord) -> str:
    """Return the daemon's newest error; "" if a checkpoint, an upload or the failed operation has succeeded since."""
    at = record.last_error_at
    if not record.last_error or at is None:
        return ""
    successes = (record.saved_at, record.uploaded_at, record.recovered_at)
    if any(success is not None and success > at for success in successes):
        return ""
    return f"failed {duration(now - at)} ago: {record.last_error}"
