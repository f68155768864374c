"""Calls of a JournalNode in various states, which a kill, a power cut or a failing disk may interrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from journal_node.disk import JournalDisk
from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import (
    JOURNAL,
    NAMESPACE,
    Network,
    Writer,
    batch,
    formatted,
    other_batch,
    segment_at,
)
from tests.journal_node.memory_disk import FaultyDisk, MemoryDisk

Prepare = Callable[[Writer], None]
Operation = Callable[[Writer], Any]


def _written(writer: Writer) -> None:
    """Write the finalized segment 1 to 10 and the open segment 11 to 15; transactions 1 to 12 are committed."""
    writer.segment(1, 10)
    writer.start(11)
    writer.write(11, 11, 12)
    writer.committed = 12
    writer.write(11, 13, 15)


def _recovering(writer: Writer) -> None:
    _written(writer)
    writer.epoch, writer.serial, writer.committed = 2, 0, None
    writer.begin()
    writer.prepare(11)


def _accepted(writer: Writer) -> None:
    _recovering(writer)
    writer.accept(11, 15)


def _roll(writer: Writer) -> None:
    writer.end(11, 15)
    writer.start(16)


@dataclass(frozen=True)
class Case:
    """A call in a state, with the possible ends of segment 11 after an interruption and after a response."""

    prepare: Prepare
    operation: Operation
    before: set[int]
    after: set[int]


CASES = {
    "newEpoch": Case(_written, lambda writer: writer.node.new_epoch(JOURNAL, NAMESPACE, 2), {15}, {15}),
    "heartbeat of a newer one": Case(
        _written, lambda writer: Writer(writer.node, epoch=2, committed=15).heartbeat(), {15}, {15}
    ),
    "journal": Case(_written, lambda writer: writer.write(11, 16, 17), {15, 17}, {17}),
    "finalize": Case(_written, lambda writer: writer.end(11, 15), {15}, {15}),
    "finalize what was accepted": Case(_accepted, lambda writer: writer.end(11, 15), {15}, {15}),
    "startLogSegment": Case(_written, _roll, {15}, {15}),
    "startLogSegment of a newer one": Case(_accepted, _roll, {15}, {15}),
    "accept": Case(_recovering, lambda writer: writer.accept(11, 15), {15}, {15}),
    "accept a longer one": Case(_recovering, lambda writer: writer.accept(11, 18, segment_at("b", 11)), {15, 18}, {18}),
    "accept a shorter one": Case(
        _recovering, lambda writer: writer.accept(11, 13, segment_at("c", 11)), {15, 13}, {13}
    ),
    "accept another as long": Case(_recovering, lambda writer: writer.accept(11, 15, segment_at("d", 11)), {15}, {15}),
    "accept the same from elsewhere": Case(
        _recovering, lambda writer: writer.accept(11, 15, segment_at("e", 11)), {15}, {15}
    ),
    "accept again": Case(_accepted, lambda writer: writer.accept(11, 15), {15}, {15}),
    "purge": Case(_written, lambda writer: writer.purge(11), {15}, {15}),
}


def peers() -> Network:
    """Return nodes with an open segment: b with the transactions 11 to 18, c with 11 to 13, d with different
    transactions 11 to 15, and e with 11 to 15.
    """
    network = Network()
    for name, last, records in (
        ("b", 18, batch(11, 18)),
        ("c", 13, batch(11, 13)),
        ("d", 15, other_batch(11, 15)),
        ("e", 15, batch(11, 15)),
    ):
        peer = formatted(network.node(name))
        peer.start(11)
        peer.node.journal(peer.request(), 11, 11, last - 10, records)
    return network


def faulty_node(
    case: Case, network: Network, at: int, fault: Callable[[], BaseException], *, after: bool
) -> tuple[MemoryDisk, Writer, FaultyDisk]:
    """Return a node's disk in the state of the case, its writer, and a wrapper of the disk that fails at one step."""
    disk = MemoryDisk("a")
    writer = formatted(network.node("a", disk))
    case.prepare(writer)
    faulty = FaultyDisk(disk, at, fault, after=after)
    assert isinstance(writer.node, JournalNode)
    hosted = writer.node.open_journal(JOURNAL)
    hosted.storage.disk = hosted.storage.segments._disk = cast(JournalDisk, faulty)
    if hosted._output is not None:
        hosted._output = faulty.wrapped(hosted._output)
    return disk, writer, faulty
