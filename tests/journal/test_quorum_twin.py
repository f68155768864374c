"""For random calls, the JournalNode responds as the model of Hadoop's JournalNode does, except where our node is
stricter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hadoop_rpc.qjournal_values import INVALID_TXID, NodeManifest, RequestInfo, SegmentState
from journal.segment_format import encode_header
from tests.depth import examples
from tests.journal.quorum_model import JOURNAL, LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, mark
from tests.journal.quorum_real_node import RealNode
from tests.journal_node.journal_node_support import outcome

txids = st.integers(1, 6)
epochs = st.integers(1, 3)
URL = "http://jn2:8480/getJournal?jid=j&segmentTxId={first}&last={last}"


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, tuple[Any, ...]]:
    kind = draw(
        st.sampled_from(
            [
                "new_epoch",
                "start",
                "journal",
                "journal",
                "journal",
                "finalize",
                "heartbeat",
                "purge",
                "prepare",
                "accept",
                "manifest",
                "edits",
                "crash",
            ]
        )
    )
    first, last = draw(txids), draw(txids)
    return kind, (draw(epochs), draw(st.none() | st.integers(1, 4)), first, max(first, last), draw(st.booleans()))


def content(url: str) -> bytes:
    """Return the segment of another node, whichever host the URL names."""
    fields = dict(part.split("=") for part in url.split("?")[1].split("&"))
    return encode_header(LAYOUT) + batch(int(fields["segmentTxId"]), int(fields["last"]), 77).records


class Pair:
    """The model and the real node, which receive the same calls."""

    def __init__(self) -> None:
        self.nodes: list[Any] = [ModelNode("jn1:8485", content, strict=True), RealNode("jn1:8485", content)]
        self.serial = 0
        self.segment = 0
        self.next = 1

    def ask(self, perform: Callable[[Any], Any]) -> Any:
        one, other = (outcome(lambda node=node: perform(node)) for node in self.nodes)
        assert one == other
        return one

    def perform(self, kind: str, values: tuple[Any, ...]) -> None:
        epoch, committed, first, last, flag = values
        self.serial += 1
        request = RequestInfo(JOURNAL, epoch, self.serial, committed)
        match kind:
            case "new_epoch":
                self.ask(lambda node: node.new_epoch(JOURNAL, NAMESPACE, epoch))
            case "start":
                if self.ask(lambda node: node.start_log_segment(request, first, LAYOUT)) is None:
                    self.segment = self.next = first
            case "journal":
                # mostly the expected next call; any other call would be refused
                begin = self.next if flag else first
                records = bytes(batch(begin, begin + 1, epoch).records)
                if self.ask(lambda node: node.journal(request, self.segment, begin, 2, records)) is None:
                    self.next = begin + 2
            case "finalize":
                begin, end = (
                    (self.segment, max(self.segment, self.next - 1)) if flag and self.segment else (first, last)
                )
                self.ask(lambda node: node.finalize_log_segment(request, begin, end))
            case "heartbeat":
                self.ask(lambda node: node.heartbeat(request))
            case "purge":
                self.ask(lambda node: node.purge_logs(request, first))
            case "prepare":
                self.ask(lambda node: node.prepare_recovery(request, self.segment if flag and self.segment else first))
            case "accept":
                begin = self.segment if flag and self.segment else first
                end = max(begin, last)
                url = URL.format(first=begin, last=end)
                self.ask(lambda node: node.accept_recovery(request, SegmentState(begin, end, True), url))
            case "manifest":
                unclear = unclear_segment(self.nodes[0])
                self.ask(
                    lambda node: manifest(
                        node, node.get_edit_log_manifest(JOURNAL, first, in_progress_ok=flag), unclear
                    )
                )
            case "edits":
                self.ask(lambda node: node.get_journaled_edits(JOURNAL, first, last))
            case "crash":
                for node in self.nodes:
                    node.crash()

    def same_content(self) -> None:
        one, other = (node.snapshot() for node in self.nodes)
        assert (one.promised, one.finalized, one.newest) == (other.promised, other.finalized, other.newest)
        if one.newest is not None:
            assert one.reported(one.newest) == other.reported(one.newest)


def unclear_segment(model: ModelNode) -> int | None:
    """Return the newest segment if segments overlap, so that its end is not the newest transaction.

    If this segment is open, the nodes report different ends, and only one of them may list the segment.
    """
    newest = max(model.disk.segments, default=None)
    return None if newest is None or model.disk.segments[newest].last == model.highest else newest


def manifest(node: Any, found: NodeManifest, unclear: int | None) -> Any:
    """Return the manifest without the address, the ends of open segments, and the open segment `unclear`."""
    logs = found.manifest.logs
    ended = [log for log in logs if not log.in_progress]
    opened = {log.first for log in logs if log.in_progress and log.first != unclear}
    if isinstance(node, ModelNode):
        opened = {first for first in opened if node.disk.segments[first].records}
    known = found.manifest.committed_txid
    return ended, opened, INVALID_TXID if known is None else known


@examples(400)
@given(st.lists(calls(), max_size=30))
@example([(kind, (1, None, 1, 1, False)) for kind in ("new_epoch", "start", "journal", "accept", "edits")])
@example(
    [
        ("new_epoch", (1, None, 1, 1, False)),
        ("accept", (1, None, 1, 3, False)),
        ("accept", (1, None, 2, 2, False)),
        ("manifest", (1, None, 3, 3, True)),
    ]
)
def test_node_and_model_have_equal_responses_and_content(steps: list[tuple[str, tuple[Any, ...]]]) -> None:
    pair = Pair()
    for node in pair.nodes:
        node.format(JOURNAL, NAMESPACE, force=False)
    for kind, values in steps:
        pair.perform(kind, values)
    pair.same_content()


@pytest.mark.parametrize("make_node", [ModelNode, RealNode])
def test_calls_to_an_unformatted_journal_are_refused(make_node: Callable[..., Any]) -> None:
    node = make_node("jn1:8485", content)
    request = RequestInfo(JOURNAL, 1, 1)
    for call in (
        lambda: node.get_journal_state(JOURNAL),
        lambda: node.new_epoch(JOURNAL, NAMESPACE, 1),
        lambda: node.heartbeat(request),
        lambda: node.journal(request, 1, 1, 1, mark(1, 1)),
        lambda: node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True),
    ):
        assert outcome(call) == "org.apache.hadoop.hdfs.qjournal.protocol.JournalNotFormattedException"
    assert not node.is_formatted(JOURNAL)
