"""Errors of the quorum journal; they contain the response of each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from hadoop_common.exit_codes import ExitCode
from journal.errors import JournalError


class QuorumError(JournalError):
    """Failure of a call that too few JournalNodes answered.

    Attributes:
        faults: errors of nodes, by node; the remaining nodes did not answer in time.
    """

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Make a majority of the JournalNodes available again, then retry."

    def __init__(
        self, problem: str, *, faults: Mapping[str, Exception] | None = None, txid: int | None = None, hint: str = ""
    ) -> None:
        self.faults = dict(faults or {})
        super().__init__(problem, txid=txid, hint=hint)


class WriterFencedError(QuorumError):
    """Permanent end of a writer, because another writer has taken over the journal."""

    default_hint = "Let the other writer continue, or restart this writer to take over the journal."


class WriterStateError(JournalError):
    """A call that is impossible in the writer's phase."""

    default_hint = "Recover the journal first: recovery fences other writers and finds the durable transactions."


class SegmentRecoveryError(JournalError):
    """A contradiction between the nodes' copies of a segment; nothing was changed."""

    default_hint = "Compare the segment's copies on the JournalNodes manually before you write to the journal."


class JournalClosedError(JournalError):
    """A call to a journal that was closed before or during the call."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Open the journal again."


class NodeOutOfSyncError(JournalError):
    """Exclusion of a node that missed a part of the segment, and does not receive the rest."""

    default_hint = "The node participates again from the next segment on; find out why it failed."


class NodeLagsError(NodeOutOfSyncError):
    """Exclusion of a node whose queue is full, so that further batches are dropped."""

    default_hint = "Check the node for a slow disk or network, or raise dfs.qjournal.queued-edits.limit.mb."


class NodeLeftOutError(JournalError):
    """Exclusion of a node from the recovery of a segment, because it might keep a different copy."""

    default_hint = "The node participates again from the next segment on; its copy of this segment is not used."


class NodeClosedError(JournalError):
    """Loss of a call before it was sent, because the journal was closed or its writer began a new epoch."""

    default_hint = "Open the journal again."


TLS_HINT: Final = "The JournalNode answers, but TLS fails: correct the side that the message names."
"""Next step after a failed TLS handshake with the web server of a JournalNode."""


class SegmentFetchError(JournalError):
    """Failure to fetch a segment from a JournalNode."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Check that the JournalNode is running and that its HTTP port can be reached."
