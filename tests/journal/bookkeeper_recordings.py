"""Recordings of real bookies, clients and NameNodes; see tests/recorded/bookkeeper-4.4/README.md."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from journal.bookkeeper import protocol_v2, protocol_v3
from journal.bookkeeper.entry import DigestType, EntryCodec
from journal.bookkeeper.ledger_metadata import LedgerMetadata, parse_metadata
from journal.bookkeeper.messages import BookieRequest, BookieResponse
from journal.bookkeeper.protocol_v2 import FrameBuffer
from tests.journal import bookkeeper_v3_client

ROOT = Path(__file__).parents[1] / "recorded" / "bookkeeper-4.4"
FOLDERS = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("traffic.jsonl"))


@dataclass
class Connection:
    """The packets of one connection, in either direction."""

    bookie: str
    requests: list[bytes] = field(default_factory=list)
    responses: list[bytes] = field(default_factory=list)


@cache
def connections(folder: str) -> list[Connection]:
    found: dict[int, Connection] = {}
    buffers: defaultdict[tuple[int, str], FrameBuffer] = defaultdict(FrameBuffer)
    for line in (ROOT / folder / "traffic.jsonl").read_text().splitlines():
        row = json.loads(line)
        connection = found.setdefault(row["conn"], Connection(row["bookie"]))
        packets = connection.requests if row["dir"] == ">" else connection.responses
        packets.extend(buffers[row["conn"], row["dir"]].feed(bytes.fromhex(row["hex"])))
    return list(found.values())


def request_in(packet: bytes) -> BookieRequest:
    if protocol_v2.is_v2(packet):
        return protocol_v2.decode_request(packet)
    return protocol_v3.decode_request(packet).request


def response_in(packet: bytes) -> BookieResponse:
    if protocol_v2.is_v2(packet):
        return protocol_v2.decode_response(packet)
    return bookkeeper_v3_client.decode_response(packet).response


def requests(folder: str) -> Iterator[tuple[str, BookieRequest]]:
    """Yield each recorded request with its bookie."""
    for connection in connections(folder):
        for packet in connection.requests:
            yield connection.bookie, request_in(packet)


def znode_files() -> list[Path]:
    return sorted([*ROOT.rglob("znodes*.json"), *(ROOT / "bkjm-znodes").glob("*.json")])


def znodes(path: Path) -> dict[str, tuple[bytes | None, int]]:
    """Return the value and version of each path."""
    rows: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return {
        name: (None if row["data"] is None else bytes.fromhex(row["data"]), row["version"])
        for name, row in rows.items()
    }


@cache
def ledgers(folder: str) -> dict[int, LedgerMetadata]:
    """Return the newest recorded metadata of the ledgers of these bookies, by id."""
    found: dict[int, tuple[int, LedgerMetadata]] = {}
    for path in sorted((ROOT / folder).parent.glob("*/znodes*.json")):
        for name, (data, version) in znodes(path).items():
            if data is None or not data.startswith(b"BookieMetadataFormatVersion"):
                continue
            ledger_id = int(re.sub("[L/]", "", name.removeprefix("/" + name.split("/")[1])))
            if ledger_id not in found or found[ledger_id][0] <= version:
                found[ledger_id] = (version, parse_metadata(data, file=name))
    return {ledger_id: metadata for ledger_id, (_, metadata) in found.items()}


def codec(folder: str, ledger_id: int) -> EntryCodec:
    """Return the codec for the entries of a ledger; ledgers of NameNodes use MAC without a password."""
    metadata = ledgers(folder).get(ledger_id)
    if metadata is None or metadata.digest_type is None or metadata.password is None:
        return EntryCodec(DigestType.MAC, b"")
    return EntryCodec(metadata.digest_type, metadata.password)


def password(folder: str, ledger_id: int) -> bytes:
    metadata = ledgers(folder).get(ledger_id)
    return b"" if metadata is None else metadata.password or b""


def payload(entry_id: int) -> bytes:
    """Return the payload that the recorded clients wrote."""
    size = [0, 1, 3, 17, 100, 1000, 1024, 5000, 20, 33][entry_id % 10]
    return bytes((7 * entry_id + j) % 251 for j in range(size))
