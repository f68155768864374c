"""Connections to bookies: deadlines of single requests."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator

import pytest

from journal.bookkeeper.calls import BookieOutcome
from journal.bookkeeper.connections import BookieConnections
from journal.bookkeeper.errors import BookKeeperError
from journal.bookkeeper.messages import BookieRequest, ReadRequest, ReadResponse, ResultCode
from journal.bookkeeper.protocol_v2 import FrameBuffer, decode_request, encode_response, framed

LEDGER = 7
Outcomes = queue.Queue[tuple[int, BookieOutcome]]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(600)
        yield found


@pytest.fixture
def connections(listener: socket.socket) -> Iterator[BookieConnections]:
    made = BookieConnections(lambda _: ("127.0.0.1", listener.getsockname()[1]))
    yield made
    made.close()


def request(entry_id: int, outcomes: Outcomes) -> tuple[BookieRequest, Callable[[BookieOutcome], None]]:
    return ReadRequest(LEDGER, entry_id), lambda outcome: outcomes.put((entry_id, outcome))


def read_requests(bookie: socket.socket, count: int) -> list[int]:
    """Return the entries that the next `count` requests demand."""
    frames, found = FrameBuffer(), list[int]()
    while len(found) < count:
        for packet in frames.feed(bookie.recv(1 << 16)):
            asked = decode_request(packet)
            assert isinstance(asked, ReadRequest)
            found.append(asked.entry_id)
    return found


def answer(bookie: socket.socket, entry_id: int) -> None:
    bookie.sendall(framed(encode_response(ReadResponse(ResultCode.OK, LEDGER, entry_id, b"entry"))))


def test_only_the_request_past_its_deadline_fails(listener: socket.socket, connections: BookieConnections) -> None:
    """Requests with later deadlines on the same connection are still answered; the late response is ignored."""
    outcomes: Outcomes = queue.Queue()
    connections.send("b:1", [request(1, outcomes)], 0.01)
    connections.send("b:1", [request(2, outcomes)], 600)
    bookie, _ = listener.accept()
    with bookie:
        assert read_requests(bookie, 2) == [1, 2]
        late, fault = outcomes.get(timeout=600)
        assert late == 1
        assert isinstance(fault, BookKeeperError)
        answer(bookie, 1)
        answer(bookie, 2)
        answered, response = outcomes.get(timeout=600)
        assert answered == 2
        assert isinstance(response, ReadResponse)
        assert outcomes.empty()


def test_connection_without_other_requests_is_closed_at_a_timeout(
    listener: socket.socket, connections: BookieConnections
) -> None:
    outcomes: Outcomes = queue.Queue()
    connections.send("b:1", [request(1, outcomes)], 0.01)
    bookie, _ = listener.accept()
    with bookie:
        assert isinstance(outcomes.get(timeout=600)[1], BookKeeperError)
        bookie.settimeout(600)
        while bookie.recv(1 << 16):
            pass
