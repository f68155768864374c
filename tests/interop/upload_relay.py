"""A relay in front of a NameNode's web server that records each upload: its sender, start and end."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from tests.loopback_relay import LoopbackRelay

_UPLOAD = re.compile(rb"PUT /imagetransfer\?\S*\btxid=(\d+)")
_ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3})")
_TAKEN = 200
_PIECE = 1 << 16


@dataclass(slots=True)
class Passage:
    """An observed upload; times are monotonic seconds.

    Attributes:
        ended: time of the response or of the connection's end, None until then.
        status: status of the response, 0 if there was no response.
    """

    sender: str
    txid: int
    begun: float
    ended: float | None = None
    status: int = 0

    @property
    def taken(self) -> bool:
        return self.status == _TAKEN

    def end(self, status: int = 0) -> None:
        """Record the end of the upload, unless it is already recorded."""
        if self.ended is None:
            self.status, self.ended = status, time.monotonic()


class UploadRelay(LoopbackRelay):
    """A relay that forwards a daemon's bytes to the web server at `target`, and the responses back.

    Args:
        sender: name of the daemon.
        passages: receives the uploads; several relays may share it.
    """

    def __init__(self, sender: str, target: tuple[str, int], passages: list[Passage]) -> None:
        super().__init__(target)
        self._sender, self._passages = sender, passages

    def serve(self, client: socket.socket) -> None:
        passage: Passage | None = None
        with client, suppress(OSError), socket.create_connection(self.target) as server:
            head = client.recv(_PIECE)
            if asked := _UPLOAD.match(head):
                passage = Passage(self._sender, int(asked[1]), time.monotonic())
                self._passages.append(passage)
            server.sendall(head)
            answers = threading.Thread(target=_answers, args=(server, client, passage), daemon=True)
            answers.start()
            _copy(client, server)
            if passage is not None:
                passage.end()
            answers.join()


def _answers(server: socket.socket, client: socket.socket, passage: Passage | None) -> None:
    with suppress(OSError):
        head = server.recv(_PIECE)
        if passage is not None and (answer := _ANSWER.match(head)):
            passage.end(int(answer[1]))
        client.sendall(head)
        _copy(server, client)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends; then end the target's input."""
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def overlapping(
    passages: Iterable[Passage], frozen: Iterable[tuple[str, float, float]]
) -> list[tuple[Passage, Passage]]:
    """Return the pairs of overlapping uploads of two daemons; the upload of a frozen daemon does not overlap.

    Args:
        passages: uploads that have ended.
        frozen: daemons with the start and end of their freeze.
    """
    pauses = list(frozen)

    def goes_on(passage: Passage) -> tuple[float, float]:
        until = [since for who, since, _ in pauses if who == passage.sender and since > passage.begun]
        assert passage.ended is not None
        return passage.begun, min([passage.ended, *until])

    found = []
    for one, other in combinations(passages, 2):
        (begun, ended), (other_begun, other_ended) = goes_on(one), goes_on(other)
        if one.sender != other.sender and max(begun, other_begun) < min(ended, other_ended):
            found.append((one, other))
    return found
