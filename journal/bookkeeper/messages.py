"""Requests to a bookie and its responses, for both protocols."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

MAX_FRAME = 0xFFFFF
"""Size of the largest frame that every release accepts, in bytes; a larger frame closes the connection."""

ADD_OVERHEAD = 4 + 20 + 32 + 20
"""Maximum size of an ADD without its payload, in bytes: header, master key, entry header, digest."""


class Operation(IntEnum):
    """Operations with their numbers in protocol v2."""

    ADD = 1
    READ = 2
    AUTH = 3
    READ_LAC = 4
    WRITE_LAC = 5
    GET_BOOKIE_INFO = 6
    BATCH_READ = 7


class RequestFlag(IntFlag):
    NONE = 0
    FENCE = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class ResultCode(IntEnum):
    """Result of a request, with the numbers of protocol v2."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107


@dataclass(frozen=True, slots=True)
class AddRequest:
    """Request to store `body`, which contains the ids of the ledger and the entry."""

    ledger_id: int
    entry_id: int
    master_key: bytes
    body: bytes
    flags: RequestFlag = RequestFlag.NONE


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Request for an entry; with FENCE and the key, the bookie also refuses later entries from the ledger's writer."""

    ledger_id: int
    entry_id: int
    flags: RequestFlag = RequestFlag.NONE
    master_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class ReadLacRequest:
    """Request for the last entry (protocol v3)."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """Request of a kind for which no class exists; only its operation is known."""

    operation: int


@dataclass(frozen=True, slots=True)
class AddResponse:
    code: ResultCode
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """Response to a read; `entry_id` is the id in the request, and the body contains the actual id.

    Attributes:
        max_lac: LAC that some releases add in protocol v3.
    """

    code: ResultCode
    ledger_id: int
    entry_id: int
    body: bytes | None = None
    max_lac: int | None = None


@dataclass(frozen=True, slots=True)
class ReadLacResponse:
    """Response to a LAC read; `lac_body` is the explicit LAC, `last_entry` the body of the last entry."""

    code: ResultCode
    ledger_id: int
    lac_body: bytes | None = None
    last_entry: bytes | None = None


@dataclass(frozen=True, slots=True)
class OtherResponse:
    """Response of a kind for which no class exists, such as a refusal."""

    operation: int
    code: ResultCode


BookieRequest = AddRequest | ReadRequest | ReadLacRequest | OtherRequest
BookieResponse = AddResponse | ReadResponse | ReadLacResponse | OtherResponse
