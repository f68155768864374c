"""The znodes of Hadoop's journal on BookKeeper: names and values, byte for byte (bkjournal.proto in text format)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_messages import namespace_of, namespace_to_message
from journal.errors import JournalError
from journal.proto import bookkeeper_pb2 as pb

PLACEHOLDER = b"0"
"""Value of znodes whose only purpose is to have children."""

_LAYOUT = -1
_IN_PROGRESS = re.compile(r"inprogress_([0-9a-f]{1,16})")
_EDITS = re.compile(r"edits_([0-9]{18,19})_([0-9]{18,19})")
_UNNAMED = re.compile(r"unnamed_([0-9]{1,19})")
_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class JournalPaths:
    """Paths below `root`, the path of the journal's URI."""

    root: str

    @property
    def version(self) -> str:
        return f"{self.root}/version"

    @property
    def ledgers(self) -> str:
        return f"{self.root}/ledgers"

    @property
    def current(self) -> str:
        return f"{self.root}/CurrentInprogress"

    @property
    def max_txid(self) -> str:
        return f"{self.root}/maxtxid"

    def in_progress(self, first_txid: int) -> str:
        return f"{self.ledgers}/inprogress_{first_txid:x}"

    def edits(self, first_txid: int, last_txid: int) -> str:
        return f"{self.ledgers}/edits_{first_txid:018d}_{last_txid:018d}"

    def unnamed(self, ledger_id: int) -> str:
        """Return the path of the note that makes recovery delete a ledger that no segment names."""
        return f"{self.root}/unnamed_{ledger_id}"


def is_segment_name(name: str) -> bool:
    """Return whether a znode of this name in the list describes a segment."""
    return _IN_PROGRESS.fullmatch(name) is not None or _EDITS.fullmatch(name) is not None


def unnamed_id(name: str) -> int | None:
    """Return the ledger of a note; None if `name` is not a note."""
    found = _UNNAMED.fullmatch(name)
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class SegmentLedger:
    """A segment and its ledger; `last_txid` is None while the segment is in progress."""

    layout_version: int
    ledger_id: int
    first_txid: int
    last_txid: int | None = None

    def path(self, paths: JournalPaths) -> str:
        if self.last_txid is None:
            return paths.in_progress(self.first_txid)
        return paths.edits(self.first_txid, self.last_txid)


def format_segment(segment: SegmentLedger) -> bytes:
    return _text(
        pb.EditLogLedgerProto(
            dataLayoutVersion=segment.layout_version,
            ledgerId=segment.ledger_id,
            firstTxId=segment.first_txid,
            lastTxId=segment.last_txid,
        )
    )


def parse_segment_znode(name: str, data: bytes | None, *, file: str) -> SegmentLedger:
    """Return the segment that a znode in the list describes with its name and value.

    Raises:
        JournalError: the value is invalid, or describes a different segment than the name.
    """
    message = _parsed(pb.EditLogLedgerProto(), data, file)
    last = message.lastTxId if message.HasField("lastTxId") else None
    found = SegmentLedger(message.dataLayoutVersion, message.ledgerId, message.firstTxId, last)
    in_progress, edits = _IN_PROGRESS.fullmatch(name), _EDITS.fullmatch(name)
    named: tuple[int, int | None] | None = None
    if in_progress is not None:
        named = int(in_progress[1], 16), None
    elif edits is not None:
        named = int(edits[1]), int(edits[2])
    if named != (found.first_txid, found.last_txid):
        raise _fault(f"the znode's value belongs to txid {found.first_txid} to {found.last_txid}", file)
    return found


def format_version_znode(namespace: StorageInfo) -> bytes:
    return _text(pb.VersionProto(layoutVersion=_LAYOUT, namespaceInfo=namespace_to_message(namespace)))


def parse_version_znode(data: bytes | None, *, file: str) -> StorageInfo:
    """Return the namespace of the journal.

    Raises:
        JournalError: the value has no namespace, or another layout.
    """
    message = _parsed(pb.VersionProto(), data, file)
    if message.layoutVersion != _LAYOUT or not message.HasField("namespaceInfo"):
        raise _fault(f"the layout is {message.layoutVersion}, not {_LAYOUT}, or the namespace is missing", file)
    return namespace_of(message.namespaceInfo)


def format_max_txid(txid: int) -> bytes:
    return _text(pb.MaxTxIdProto(txId=txid))


def parse_max_txid(data: bytes | None, *, file: str) -> int:
    """Return the txid; raise JournalError if the value is invalid."""
    return _parsed(pb.MaxTxIdProto(), data, file).txId


def format_current(path: str, hostname: str) -> bytes:
    return _text(pb.CurrentInprogressProto(path=path, hostname=hostname))


def parse_current(data: bytes | None, *, file: str) -> str | None:
    """Return the path of the segment in progress, or None; raise JournalError if the value is invalid."""
    return _parsed(pb.CurrentInprogressProto(), data, file).path if data else None


def _text(message: Message) -> bytes:
    return text_format.MessageToString(message).encode("utf-8")


def _parsed(message: _M, data: bytes | None, file: str) -> _M:
    try:
        text_format.Parse((data or b"").decode("utf-8"), message, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise _fault(f"the znode cannot be parsed: {error}", file) from error
    if not message.IsInitialized():
        raise _fault("a required field is missing", file)
    return message


def _fault(problem: str, file: str) -> JournalError:
    hint = "Find out which program writes to this znode, and give the journal its own path."
    return JournalError(problem, file=file, hint=hint)
