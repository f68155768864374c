"""The caller of a change, as recorded in its edit."""

from __future__ import annotations

from dataclasses import dataclass

from journal.ops import NO_CALL_ID


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A client and its call.

    Attributes:
        user: owner of new inodes.
        group: group of new inodes; None to use the directory's group, as in HDFS.
        machine: address of the client.
        client_id, call_id: ids of the caller's RPC, which identify a repeated call; empty if there is no RPC.
    """

    user: str = "hdfs"
    group: str | None = None
    machine: str = "127.0.0.1"
    client_id: bytes = b""
    call_id: int = NO_CALL_ID


LOCAL_CALL = ClientCall()
