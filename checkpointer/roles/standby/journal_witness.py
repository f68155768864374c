"""The shared edits and the active NameNode as witnesses of the cluster's past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from journal.journal import ReadableSegment


class KnowsImages(Protocol):
    """The NameNodes, as far as they bear witness (`NameNodes`)."""

    def active_txid(self) -> int | None: ...

    def active_image_md5(self, txid: int) -> str | None: ...

    def lives(self) -> Mapping[str, int]: ...

    def active_life(self) -> tuple[str, int] | None: ...


class ListsSegments(Protocol):
    """The shared edits (`EditSource`)."""

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]: ...


class JournalWitness:
    """The shared edits, and the active NameNode (`Witness`); `last` is the newest transaction that is asked about."""

    def __init__(self, source: ListsSegments, nodes: KnowsImages, last: int) -> None:
        self._source = source
        self._nodes = nodes
        self._last = last

    def segments(self, from_txid: int) -> Sequence[ReadableSegment]:
        return self._source.present(from_txid, self._last)

    def newest(self) -> int | None:
        return self._nodes.active_txid()

    def image_md5(self, txid: int) -> str | None:
        return self._nodes.active_image_md5(txid)

    def lives(self) -> Mapping[str, int]:
        return self._nodes.lives()

    def active_life(self) -> tuple[str, int] | None:
        return self._nodes.active_life()
