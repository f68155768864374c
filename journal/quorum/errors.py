"""Errors of the quorum journal: which nodes said what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from hadoop_common.errors import EXIT_TRANSFER
from journal.errors import JournalError


class QuorumError(JournalError):
    """Too few JournalNodes answered a call.

    Attributes:
        answered: nodes that did.
        faults: what went wrong at the others, by node; one that is in neither did not answer in time.
    """

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Bring a majority of the JournalNodes back, then try again."

    def __init__(
        self,
        problem: str,
        *,
        answered: tuple[str, ...] = (),
        faults: Mapping[str, Exception] | None = None,
        txid: int | None = None,
        hint: str = "",
    ) -> None:
        self.answered = answered
        self.faults = dict(faults or {})
        super().__init__(problem, txid=txid, hint=hint)


class WriterFencedError(QuorumError):
    """Another writer has taken over the journal; this one never writes to it again."""

    default_hint = "Leave the journal to the other writer, or restart this one if it is to take over."


class WriterStateError(JournalError):
    """What the writer was asked for does not fit where it stands."""

    default_hint = "Recover the journal first: that fences other writers and shows what it holds."


class SegmentRecoveryError(JournalError):
    """What the nodes hold of a segment contradicts itself; nothing was changed."""

    default_hint = "Compare the segment's copies on the JournalNodes by hand before anything is written."


class JournalClosedError(JournalError):
    """The journal was closed before or while it was asked."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Open the journal again."


class NodeOutOfSyncError(JournalError):
    """A node missed a part of the segment, so that it gets nothing more of it."""

    default_hint = "The node takes part again from the next segment on; find out why it failed before."


class NodeLagsError(NodeOutOfSyncError):
    """A node has so much to take that nothing more is kept for it."""

    default_hint = "Look for a slow disk or network at the node, or raise dfs.qjournal.queued-edits.limit.mb."


class NodeLeftOutError(JournalError):
    """A node takes no part in the recovery of a segment, for it might keep a copy that is not the others'."""

    default_hint = "The node takes part again from the next segment on; its own copy of this one does not count."


class NodeClosedError(JournalError):
    """A call was dropped before it was sent, for the journal was closed or its writer started over."""

    default_hint = "Open the journal again."


class SegmentFetchError(JournalError):
    """A segment could not be fetched from a JournalNode."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Check that the JournalNode is up and its HTTP port can be reached."
