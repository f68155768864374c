"""Who asks for a change, as its edit remembers it."""

from __future__ import annotations

from dataclasses import dataclass

from journal.ops import NO_CALL_ID


@dataclass(frozen=True, slots=True)
class Caller:
    """A client and its call.

    Attributes:
        user: owner of what it makes.
        group: group of what it makes; None for the group of the directory, as HDFS does.
        machine: address it calls from.
        client_id, call_id: of its RPC, so that a repeated call is known; none without an RPC.
    """

    user: str = "hdfs"
    group: str | None = None
    machine: str = "127.0.0.1"
    client_id: bytes = b""
    call_id: int = NO_CALL_ID


LOCAL = Caller()
