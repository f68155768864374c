"""The checks as data: name, what they need to know, whether they may be CRITICAL, and what to do when they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

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
from checkpointer.checks.verdict import State, Verdict, worst


class Part(Enum):
    """A part of the facts that is gathered only where a check needs it; IMAGE_CONTENT reads whole images."""

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
    """One check. Unless `critical`, it is a WARNING at most, as long as no critical threshold was asked for.

    Attributes:
        acts: whether the hint advises to change something, which must not be advised where nothing is known.
    """

    name: str
    purpose: str
    hint: str
    needs: frozenset[Part]
    decide: Callable[[Facts, Thresholds], Verdict]
    critical: bool = True
    acts: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check said, and what to do next; "" where there is nothing to do."""

    name: str
    verdict: Verdict
    hint: str


_UNKNOWN_HINT = (
    "Nothing is known yet, so that nothing is to be changed: see why it could not be asked (checks namenode, storage "
    "and daemon)."
)

CHECKS: tuple[Check, ...] = (
    Check(
        "namenode",
        "every NameNode answers by RPC and HTTP",
        "Look at the NameNode that does not answer; dfs.namenode.rpc-address and http-address say where it should be.",
        frozenset({Part.NAMENODES}),
        check_namenode,
    ),
    Check(
        "ha",
        "exactly one NameNode is active",
        "Look at the failover controllers and at the logs of the NameNodes; where there are no controllers, `hdfs "
        "haadmin -failover`, which fences, makes one active.",
        frozenset({Part.NAMENODES}),
        check_ha,
        acts=True,
    ),
    Check(
        "version",
        "NameNodes, storage and journal are of one namespace and a supported layout",
        "Check that configuration and directories are of this cluster; never copy VERSION between clusters.",
        frozenset({Part.NAMENODES, Part.STORAGE, Part.JOURNAL}),
        check_version,
        acts=True,
    ),
    Check(
        "storage",
        "storage directories work and agree, the newest image is whole",
        "Look at the named directory; fetch a damaged image again with `checkpointer fetch-image`.",
        frozenset({Part.STORAGE, Part.IMAGE_CONTENT}),
        check_storage,
        acts=True,
    ),
    Check(
        "space",
        "room for two more images beside what is reserved",
        "Free space on that disk, or lower dfs.namenode.num.checkpoints.retained.",
        frozenset({Part.STORAGE}),
        check_space,
        acts=True,
    ),
    Check(
        "age",
        "the last checkpoint is not long ago",
        "Check the daemon's log; `checkpointer checkpoint --force` tries now and says what is wrong.",
        frozenset({Part.NAMENODES, Part.STORAGE, Part.DAEMON}),
        check_age,
    ),
    Check(
        "transactions",
        "not many more transactions than make a checkpoint due",
        "Look at the checks age and daemon; where checkpoints are made as they are due, lower "
        "dfs.namenode.checkpoint.check.period.",
        frozenset({Part.NAMENODES}),
        check_transactions,
        critical=False,
        acts=True,
    ),
    Check(
        "edits",
        "no gap from the image to the NameNode's last transaction",
        "Look for the missing segments in the NameNode's other edits directories, and do not restart the NameNode "
        'before they are there or it has a newer image: docs/operations.md, "Gap in the edits".',
        frozenset({Part.NAMENODES, Part.STORAGE, Part.JOURNAL}),
        check_edits,
        acts=True,
    ),
    Check(
        "journalnodes",
        "every JournalNode answers by RPC and HTTP, and none lags far",
        "Check the named JournalNode and its log. docs/operations.md says what to do about one that lost its disk, and "
        "about a damaged journal.",
        frozenset({Part.STORAGE, Part.JOURNAL}),
        check_journal_nodes,
    ),
    Check(
        "daemon",
        "the daemon answers, is ready and met no error",
        "Check `systemctl status` and the daemon's log.",
        frozenset({Part.DAEMON}),
        check_daemon,
    ),
    Check(
        "leader",
        "of several daemons for one cluster one has the lock, and makes the checkpoints",
        "Check what keeps the lock: the servers of ha.zookeeper.quorum, or the file of checkpointer.leader.lock.",
        frozenset({Part.LOCK}),
        check_leader,
    ),
    Check(
        "tls",
        "stores, passwords, certificates and handshakes of HTTPS work",
        "Renew our certificate in its store; it counts without a restart.",
        frozenset({Part.TLS}),
        check_tls,
    ),
    Check(
        "kerberos",
        "each step of the login at each NameNode works: keytab, ticket, service tickets, RPC, HTTP",
        "Run with KRB5_TRACE=/dev/stderr to see what Kerberos does.",
        frozenset({Part.NAMENODES, Part.LOGIN}),
        check_kerberos,
    ),
)


def perform(checks: Iterable[Check], facts: Facts, thresholds: Thresholds) -> list[Outcome]:
    """Decide every check over the same facts."""
    return [_outcome(check, check.decide(facts, thresholds), thresholds) for check in checks]


def _outcome(check: Check, verdict: Verdict, thresholds: Thresholds) -> Outcome:
    capped = verdict.state is State.CRITICAL and not check.critical and check.name not in thresholds.critical
    if capped:
        verdict = Verdict(State.WARNING, verdict.summary, verdict.details, verdict.metrics, verdict.hint)
    return Outcome(check.name, verdict, _hint(check, verdict))


def _hint(check: Check, verdict: Verdict) -> str:
    """The check's own hint is for what it found: nothing is to be changed where nothing could be found out."""
    if verdict.state is State.OK:
        return ""
    if verdict.hint:
        return verdict.hint
    return _UNKNOWN_HINT if verdict.state is State.UNKNOWN and check.acts else check.hint


def state_of(outcomes: Iterable[Outcome]) -> State:
    """The state of all checks together."""
    return worst(outcome.verdict.state for outcome in outcomes)
