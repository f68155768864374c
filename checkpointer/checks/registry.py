"""The table of all checks, with name, hint, required facts, and whether their state may be CRITICAL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from checkpointer.checks.archive_checks import check_archive
from checkpointer.checks.checkpoint_checks import check_age, check_daemon, check_edits, check_transactions
from checkpointer.checks.cluster_checks import (
    check_ha,
    check_journal_nodes,
    check_kerberos,
    check_namenode,
    check_version,
)
from checkpointer.checks.facts import Facts
from checkpointer.checks.leader_checks import check_leader
from checkpointer.checks.storage_checks import check_space, check_storage
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.tls_checks import check_tls
from checkpointer.checks.verdict import CheckVerdict, State, worst


class FactGroup(Enum):
    """A group of facts to gather only if a chosen check needs it; IMAGE_CONTENT reads whole images."""

    NAMENODES = "namenodes"
    STORAGE = "storage"
    IMAGE_CONTENT = "image content"
    JOURNAL = "journal"
    DAEMON = "daemon"
    TLS = "tls"
    LOGIN = "login"
    LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Check:
    """One check. Unless `critical` is set, its state is CRITICAL only with a threshold of --critical.

    Attributes:
        acts: whether the hint advises a change; the command withholds this hint while the state is UNKNOWN.
    """

    name: str
    hint: str
    needs: frozenset[FactGroup]
    decide: Callable[[Facts, Thresholds], CheckVerdict]
    critical: bool = True
    acts: bool = False


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The verdict of a check, and its hint, which is "" if nothing needs to be done."""

    name: str
    verdict: CheckVerdict
    hint: str


_UNKNOWN_HINT = (
    "The state is not known, so do not change anything yet. First find out why the state could not be read: run the "
    "`namenode`, `storage`, `journalnodes` and `daemon` checks."
)

CHECKS: tuple[Check, ...] = (
    Check(
        "namenode",
        "Check the NameNode that does not answer; dfs.namenode.rpc-address and http-address contain its addresses.",
        frozenset({FactGroup.NAMENODES}),
        check_namenode,
    ),
    Check(
        "ha",
        "Check the failover controllers and the logs of the NameNodes. Without failover controllers, make one NameNode "
        "active with `hdfs haadmin -failover`, which fences the other NameNode.",
        frozenset({FactGroup.NAMENODES}),
        check_ha,
        acts=True,
    ),
    Check(
        "version",
        "Check that the configuration and the directories belong to this cluster; never copy VERSION between clusters.",
        frozenset({FactGroup.NAMENODES, FactGroup.STORAGE, FactGroup.JOURNAL}),
        check_version,
        acts=True,
    ),
    Check(
        "storage",
        "Check the named directory and its disk. The daemon does not use a damaged image: it continues from another "
        "copy or an older image, or fetches the NameNode's image (docs/runbook.md, "
        '"The newest image cannot be read").',
        frozenset({FactGroup.STORAGE, FactGroup.IMAGE_CONTENT}),
        check_storage,
        acts=True,
    ),
    Check(
        "space",
        "Free space on that disk, or lower dfs.namenode.num.checkpoints.retained (to 2 or more) or "
        "dfs.namenode.num.extra.edits.retained, and reload the daemon.",
        frozenset({FactGroup.STORAGE}),
        check_space,
        acts=True,
    ),
    Check(
        "age",
        "Check the daemon's log; `checkpointer checkpoint --force` tries a checkpoint now and reports the error.",
        frozenset({FactGroup.NAMENODES, FactGroup.STORAGE, FactGroup.DAEMON}),
        check_age,
    ),
    Check(
        "transactions",
        "Run the `age` and `daemon` checks. If checkpoints are made on time, lower "
        "dfs.namenode.checkpoint.check.period.",
        frozenset({FactGroup.NAMENODES}),
        check_transactions,
        critical=False,
        acts=True,
    ),
    Check(
        "edits",
        "Look for the missing segments in the NameNode's other edits directories. Do not restart the NameNode until "
        'the segments are in place or the NameNode has a newer image: docs/runbook.md, "Gap in the edits".',
        frozenset({FactGroup.NAMENODES, FactGroup.STORAGE, FactGroup.JOURNAL, FactGroup.DAEMON}),
        check_edits,
        acts=True,
    ),
    Check(
        "journalnodes",
        "Check the named JournalNode and its log. docs/runbook.md describes the repair of a JournalNode that lost "
        "its disk, and of a damaged journal.",
        frozenset({FactGroup.STORAGE, FactGroup.JOURNAL}),
        check_journal_nodes,
    ),
    Check("daemon", "Check `systemctl status` and the daemon's log.", frozenset({FactGroup.DAEMON}), check_daemon),
    Check(
        "archive",
        "Check the daemon's log; `checkpointer archive list` shows what the archive contains.",
        frozenset({FactGroup.DAEMON}),
        check_archive,
        critical=False,
    ),
    Check(
        "leader",
        "Check the servers of ha.zookeeper.quorum, or the file of checkpointer.leader.lock.",
        frozenset({FactGroup.LOCK}),
        check_leader,
    ),
    Check(
        "tls",
        "Renew our certificate in its store; a running daemon loads it without a restart.",
        frozenset({FactGroup.TLS}),
        check_tls,
    ),
    Check(
        "kerberos",
        "Run with KRB5_TRACE=/dev/stderr to trace the Kerberos library.",
        frozenset({FactGroup.NAMENODES, FactGroup.LOGIN}),
        check_kerberos,
    ),
)


def perform(checks: Iterable[Check], facts: Facts, thresholds: Thresholds) -> list[CheckOutcome]:
    """Evaluate all `checks` on the same facts."""
    return [_outcome(check, check.decide(facts, thresholds), thresholds) for check in checks]


def _outcome(check: Check, verdict: CheckVerdict, thresholds: Thresholds) -> CheckOutcome:
    capped = verdict.state is State.CRITICAL and not check.critical and check.name not in thresholds.critical
    if capped:
        verdict = CheckVerdict(State.WARNING, verdict.summary, verdict.details, verdict.metrics, verdict.hint)
    return CheckOutcome(check.name, verdict, _hint(check, verdict))


def _hint(check: Check, verdict: CheckVerdict) -> str:
    """Return the hint for a verdict; for an UNKNOWN state, replace the check's hint if it advises a change."""
    if verdict.state is State.OK:
        return ""
    if verdict.hint:
        return verdict.hint
    return _UNKNOWN_HINT if verdict.state is State.UNKNOWN and check.acts else check.hint


def state_of(outcomes: Iterable[CheckOutcome]) -> State:
    """Return the worst state of `outcomes`."""
    return worst(outcome.verdict.state for outcome in outcomes)
