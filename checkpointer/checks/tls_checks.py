"""The check of HTTPS: all tested steps, and the remaining validity of our certificates."""

from __future__ import annotations

from checkpointer.checks.facts import Facts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst

_WARN_SECONDS = 14 * 86400.0


def check_tls(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check the tested steps; the verdict contains the hint of the first failed step."""
    if facts.tls is None:
        return CheckVerdict(State.OK, "HTTPS is not used: dfs.http.policy is HTTP_ONLY")
    failed = sorted((each for each in facts.tls if each.error), key=lambda each: each.minor)
    left = min((each.ends - facts.now for each in facts.tls if each.ends is not None), default=None)
    metrics: tuple[Metric, ...] = ()
    if left is not None:
        limits = thresholds.limits("tls", _WARN_SECONDS, None)
        metrics = (Metric("certificate_end", left, "s", limits.warning, limits.critical, below=True),)
    states = [State.WARNING if each.minor else State.CRITICAL for each in failed]
    states += [metric.state() for metric in metrics]
    details = tuple(each.error or f"{each.what}: ok" for each in facts.tls)
    summary = f"{len(facts.tls) - len(failed)} of {len(facts.tls)} steps work"
    if failed:
        summary = f"{failed[0].error} ({summary})"
    elif left is not None:
        summary += f", our certificate is valid for {left / 86400:.0f} days"
    return CheckVerdict(worst(states), summary, details, metrics, failed[0].hint if failed else "")
