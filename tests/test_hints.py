"""No hint leads an operator into losing data or into stopping a healthy service.

A new hint with one of these words fails this test. Ask whether following the hint could lose data or stop a working
service. If so, reword the hint. If not, add the phrase that makes it safe to `SAFE`, with the reason.
"""

from __future__ import annotations

import re

from tests.tools.hints import Hint, all_hints

# words that no hint may contain: following such a hint has lost data in practice, or stops a NameNode or a standby
# daemon, whose memory may contain the only copy of the last transactions; `kill -QUIT` ends no process
FORBIDDEN = re.compile(
    r"-?safemode (leave|exit|forceExit|enter)|-?saveNamespace|-transitionToActive|-forcemanual|-importCheckpoint"
    r"|-finalize|-rollback|-clearSpaceQuota|namenode -format|\brm\b|\bkill\b(?! -QUIT\b)|\bwipe\b|\bpurge\b|\bdelete\b"
    r"|\bdiscard\b|\bempty (it|the|dfs)|\b[Ss]top (it|that|the|all)\b",
    re.IGNORECASE,
)

# sources of roles whose daemons store edits before they apply them, so that their memory is never the only copy
STORES_EDITS = ("checkpointer/roles/secondary/", "checkpointer/roles/backup/")

# words of hints that may lose data or stop a service if an operator follows them at the wrong moment
GUARDED = re.compile(
    r"\b(stop|shut down|remove|clear|overwrite|replace|terminate|drop|truncate|abandon|move|mv|restart|start|format)\b"
    r"|--force\b|-initializeSharedEdits|clear-breadcrumb",
    re.IGNORECASE,
)

# phrases that make a hint with a guarded word safe: a precondition, or a reason why the hint is harmless
SAFE = {
    # phrases that negate the action or warn of it
    "do not restart": "says not to",
    "do not format": "says not to",
    "without a restart": "says that none is needed",
    "a restart would fail": "warns of one",
    "after a restart. keep that namenode running": "warns of one",
    # starts of programs that lose nothing when they start
    "start the daemon": "a checkpointer that starts changes nothing of the NameNode's",
    "start a daemon": "the same",
    "then start the daemon": "the same",
    "start it with `checkpointer run": "the same",
    "start the daemon again: it continues with": "the same; newer contents are set aside, not removed",
    "this daemon can start": "the same",
    "restart the checkpointer": "a restart of the checkpointer is harmless at any moment",
    "start the bookies": "starts what is down",
    "start bookies": "starts what is down",
    "start the other journalnodes": "starts what is down",
    "start the bookie on the host that has its directory": "starts what is down",
    "restart this writer to take over": "it was fenced, and writes no more",
    "restart this namenode as a standby": "it was fenced, and writes no more",
    "then start the namenode again": "the stub has stopped already",
    "then start again": "it has stopped already",
    "and start again": "the process has ended already",
    "start the job again": "a job that failed is repeated",
    "call start() first": "a mistake of a program, not of an operator",
    # moves of files that are kept; the hint gives the order of the steps
    "may be the last copy of the other namespace": "moved, not removed, and the hint says what they may be",
    "move its contents away first": "moved, not removed",
    "move a damaged folder away": "moved, not removed; intact segments come from the peers",
    "move away the journals of other clusters": "moved, not removed",
    "compare the two files": "moved after a comparison",
    "no other edits directory has this segment": "moved, not removed, and it contains no transaction",
    "compare the result with another edits directory": "moved after a comparison",
    "only if its transactions are not needed": "its precondition",
    "only if its content is damaged": "its precondition; the moved file is not an image",
    "the files of this json journal": "moved, not removed",
    "move the existing file away, or specify another file": "moved, not removed",
    "specify a regular file, or move it away": "moved, not removed",
    "you can move them elsewhere": "moved, not removed",
    "otherwise move it away": "moved, not removed, and the hint says what it may be",
    "while the other journalnodes answer": "its precondition; moved, not removed",
    # uses of --force, if the hint names the loss
    "checkpoint --force`": "requests a checkpoint, which changes no existing file",
    "--force replaces this file": "says what is lost",
    "--force deletes all": "says what is lost",
    "deletes existing storage with --force": "says what is lost",
    "only while no controller": "its precondition",
    "then restart the namenodes one after another, the standby first": "its order",
    # formats of storage, if nothing exists there
    "format only empty directories": "its precondition",
    "sets the files of this journal aside": "moved, not removed",
    "second `journalnode format` uses the directory": "says who has it",
    "format --from-peers`": "refuses a journal that is there",
    "format --from-namenode`": "the same",
    "only if the journal is new": "its precondition",
    "for a new nameservice run": "its precondition; it refuses an existing znode",
    "namenode-stub format": "the stub refuses a directory that is formatted",
    "has ended; only then remove the breadcrumb": "its precondition",
    "format a directory only if it is empty": "its precondition",
    "format new journals only": "its precondition",
    "never copy these images": "forbids it",
    # space on disks
    "free space on": "makes room",
}


def test_all_hints_are_found() -> None:
    hints = all_hints()
    assert len(hints) > 400
    errors = {each.error for each in hints}
    assert {"SafeModeError", "StorageInUseError", "Check", "SegmentError", "FileKind", "_HINTS"} <= errors
    assert all(each.place for each in hints)


def test_no_hint_is_dangerous() -> None:
    found = [f"{each.error}: {each.text} ({each.place})" for each in all_hints() if FORBIDDEN.search(_checked(each))]
    assert found == []


def _checked(hint: Hint) -> str:
    """Return the text without "stop the daemon", if the daemon's memory is not the only copy or is saved first."""
    saved, found, stop = hint.text.partition("stop the daemon")
    if found and ("--save-aside" in saved or hint.place.startswith(STORES_EDITS)):
        return saved + stop
    return hint.text


def test_possibly_dangerous_hints_state_their_precondition() -> None:
    assert all(SAFE.values())
    found = [
        f"{each.error}: {each.text} ({each.place})"
        for each in all_hints()
        if GUARDED.search(each.text) and not any(phrase in each.text.lower() for phrase in SAFE)
    ]
    assert found == []


def test_each_exception_is_still_needed() -> None:
    texts = [each.text.lower() for each in all_hints()]
    assert [phrase for phrase in SAFE if not any(phrase in text for text in texts)] == []
