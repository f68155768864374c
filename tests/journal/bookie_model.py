"""A bookie in memory that loses, delays and refuses requests as the schedule demands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from journal.bookie.state import BookieRecord, BookieReply, BookieState, EntryRecord, with_body
from journal.bookkeeper.messages import BookieRequest, BookieResponse

if TYPE_CHECKING:
    from tests.journal.bookkeeper_world import World


class Bookie:
    """A bookie whose journal is a list with a synced part."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.up, self.life = True, 0
        self.state = BookieState()
        self.journal: list[BookieRecord] = []
        self.synced = 0
        self.waiting: list[tuple[int, BookieReply, Callable[[BookieResponse], None]]] = []
        self.frozen = False
        self.held: list[tuple[BookieRequest, Callable[[BookieResponse], None]]] = []

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        held, self.held = self.held, []
        for request, answer in held:
            self.receive(request, answer)

    def receive(self, request: BookieRequest, answer: Callable[[BookieResponse], None]) -> None:
        if self.frozen:
            self.held.append((request, answer))
            return
        reply = self.state.handle(request)
        self.journal += reply.records
        if reply.durable and len(self.journal) > self.synced:
            self.waiting.append((len(self.journal), reply, answer))
            life, end = self.life, len(self.journal)
            self.world.later(self.world.random.choice((0.001, 0.01, 0.5)), lambda: self._sync(life, end))
        else:
            self._answer(reply, answer)

    def _sync(self, life: int, end: int) -> None:
        if life != self.life:
            return
        self.synced = max(self.synced, end)
        ready = [each for each in self.waiting if each[0] <= self.synced]
        self.waiting = [each for each in self.waiting if each[0] > self.synced]
        for _, reply, answer in ready:
            self._answer(reply, answer)

    @staticmethod
    def _answer(reply: BookieReply, answer: Callable[[BookieResponse], None]) -> None:
        assert reply.body is None or isinstance(reply.body, bytes)
        answer(with_body(reply.response, reply.body))

    def crash(self) -> None:
        """Simulate a crash, after which all, some or none of the unsynced bytes remain."""
        kept = self.world.random.randint(self.synced, len(self.journal))
        self.up, self.life = False, self.life + 1
        self.frozen = False
        self.held.clear()
        self.waiting.clear()
        del self.journal[kept:]
        self.synced = len(self.journal)
        self.state = BookieState()
        for record in self.journal:
            self.state.apply(record)

    def start(self) -> None:
        self.up = True

    def holds(self, entry_id: int) -> bool:
        kept = self.journal[: self.synced]
        return any(isinstance(record, EntryRecord) and record.entry_id == entry_id for record in kept)
