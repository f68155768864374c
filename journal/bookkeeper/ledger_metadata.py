"""A ledger's metadata, the value of its znode: the bookies of its entries, and whether it is closed."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import Enum
from io import BytesIO
from typing import Self, cast

from google.protobuf import proto, text_format
from google.protobuf.message import DecodeError

from journal.bookkeeper.entry import LAST_ENTRY, DigestType
from journal.bookkeeper.errors import LedgerMetadataError
from journal.proto import bookkeeper_pb2 as pb

_HEADER = b"BookieMetadataFormatVersion\t"
_TEXT, _BINARY = 2, 3
_IN_RECOVERY_ENTRY = -102  # marks recovery in version 1
_CLOSED = "CLOSED"


class LedgerState(Enum):
    """State of a ledger, with the values that the metadata use."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class EnsembleSegment:
    """The E bookies of entries from `first_entry` on; entry e is at the indexes (e + i) mod E, i < write quorum."""

    first_entry: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """Metadata of a ledger.

    Attributes:
        ensemble_size, write_quorum, ack_quorum: number of bookies in a segment, of bookies that store an entry, and of
            bookies that must acknowledge an entry.
        length: bytes of payload, 0 unless the ledger is closed.
        last_entry: last entry; -1 if the ledger is empty or not closed.
        segments: the segments, at least one; the first segment begins with entry 0.
        digest_type, password: None if the metadata do not contain them (version 1).
        version: version of the format; an update does not change it.
        base: the parsed message, from which an update copies all other fields; b"" if there is no message.
        foreign: whether the message cannot be written back, because it has unknown fields.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[EnsembleSegment, ...]
    digest_type: DigestType | None = DigestType.MAC
    password: bytes | None = b""
    state: LedgerState = LedgerState.OPEN
    length: int = 0
    last_entry: int = LAST_ENTRY
    version: int = _TEXT
    base: bytes = field(default=b"", compare=False, repr=False)
    foreign: bool = field(default=False, compare=False, repr=False)

    @property
    def closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    @property
    def last_segment(self) -> EnsembleSegment:
        return self.segments[-1]

    def ensemble_of(self, entry_id: int) -> EnsembleSegment:
        """Return the segment of entry `entry_id`."""
        return self.segments[max(0, bisect_right(self.segments, entry_id, key=lambda each: each.first_entry) - 1)]

    def with_ensemble(self, first_entry: int, bookies: tuple[str, ...]) -> Self:
        """Return the metadata with `bookies` from entry `first_entry` on; the last segment must not begin later."""
        kept = self.segments if self.last_segment.first_entry < first_entry else self.segments[:-1]
        return replace(self, segments=(*kept, EnsembleSegment(first_entry, bookies)))

    def in_recovery(self) -> Self:
        return replace(self, state=LedgerState.IN_RECOVERY)

    def closed_at(self, last_entry: int, length: int) -> Self:
        return replace(self, state=LedgerState.CLOSED, last_entry=last_entry, length=length)


def parse_metadata(data: bytes, *, file: str = "") -> LedgerMetadata:
    """Parse the value of a ledger's znode.

    Raises:
        LedgerMetadataError: the value is invalid, or its version is unknown.
    """
    if not data.startswith(_HEADER):
        return _parse_lines(data, file)
    header, _, body = data.partition(b"\n")
    try:
        version = int(header[len(_HEADER) :])
    except ValueError as fault:
        raise LedgerMetadataError("the version of the format is not a number", file=file) from fault
    if version == 1:
        return _parse_lines(body, file)
    message = pb.LedgerMetadataFormat()
    foreign = False
    try:
        if version == _TEXT:
            try:
                text_format.Parse(body.decode("utf-8"), message)
            except text_format.ParseError:
                foreign = True
                message.Clear()
                text_format.Parse(body.decode("utf-8"), message, allow_unknown_field=True)
        elif version == _BINARY:
            message = proto.parse_length_prefixed(pb.LedgerMetadataFormat, BytesIO(body)) or message
        else:
            raise LedgerMetadataError(f"version {version} of the format is unknown", file=file)
    except (text_format.ParseError, DecodeError, ValueError, IndexError) as fault:
        raise LedgerMetadataError(f"the metadata cannot be parsed: {fault}", file=file) from fault
    return _of_message(message, version, file=file, foreign=foreign)


def format_metadata(metadata: LedgerMetadata) -> bytes:
    """Return the value of the znode, in the version of the metadata.

    Raises:
        LedgerMetadataError: the value would lose fields of another release.
    """
    if metadata.foreign:
        raise LedgerMetadataError("the metadata has unknown fields, so it cannot be changed")
    head = _HEADER + b"%d\n" % metadata.version
    if metadata.version == 1:
        return head + _format_lines(metadata)
    message = pb.LedgerMetadataFormat()
    message.MergeFromString(metadata.base)
    message.quorumSize, message.ensembleSize = metadata.write_quorum, metadata.ensemble_size
    message.length, message.lastEntryId = metadata.length, metadata.last_entry
    message.state = cast("pb.LedgerMetadataFormat.State", metadata.state.value)
    del message.segment[:]
    for segment in metadata.segments:
        message.segment.add(ensembleMember=segment.bookies, firstEntryId=segment.first_entry)
    if metadata.digest_type is not None:
        message.digestType = cast("pb.LedgerMetadataFormat.DigestType", metadata.digest_type.value)
    if metadata.password is not None:
        message.password = metadata.password
    if metadata.ack_quorum != metadata.write_quorum or not metadata.base or message.HasField("ackQuorumSize"):
        message.ackQuorumSize = metadata.ack_quorum
    if metadata.version == _TEXT:
        return head + text_format.MessageToString(message).encode("utf-8")
    body = BytesIO()
    proto.serialize_length_prefixed(message, body)
    return head + body.getvalue()


def _of_message(message: pb.LedgerMetadataFormat, version: int, *, file: str, foreign: bool) -> LedgerMetadata:
    if not message.IsInitialized():
        raise LedgerMetadataError("a required field is missing", file=file)
    digest = DigestType(message.digestType) if message.HasField("digestType") else None
    found = LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        segments=tuple(EnsembleSegment(each.firstEntryId, tuple(each.ensembleMember)) for each in message.segment),
        digest_type=digest,
        password=message.password if message.HasField("password") else None,
        state=LedgerState(message.state),
        length=message.length,
        last_entry=message.lastEntryId if message.HasField("lastEntryId") else LAST_ENTRY,
        version=version,
        base=message.SerializeToString(),
        foreign=foreign,
    )
    return _checked(found, file)


def _checked(found: LedgerMetadata, file: str) -> LedgerMetadata:
    firsts = [each.first_entry for each in found.segments]
    fault = ""
    if not 1 <= found.ack_quorum <= found.write_quorum <= found.ensemble_size:
        fault = f"quorums of bookies: {found.ensemble_size}, {found.write_quorum} and {found.ack_quorum}"
    elif not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
        fault = f"segments that begin with {firsts}"
    elif any(len(each.bookies) != found.ensemble_size for each in found.segments):
        fault = f"a segment whose number of bookies is not {found.ensemble_size}"
    if fault:
        raise LedgerMetadataError(f"impossible metadata: {fault}", file=file)
    return found


def _parse_lines(body: bytes, file: str) -> LedgerMetadata:
    """Parse version 1: lines of decimal numbers, a line for each segment, and a line if the ledger is closed."""
    try:
        lines = body.decode("ascii").split("\n")
        quorum, ensemble, length = (int(each) for each in lines[:3])
        segments, state, last = [], LedgerState.OPEN, LAST_ENTRY
        for line in filter(None, lines[3:]):
            first, *rest = line.split("\t")
            if rest == [_CLOSED]:
                last = int(first)
                state = LedgerState.IN_RECOVERY if last == _IN_RECOVERY_ENTRY else LedgerState.CLOSED
                last = LAST_ENTRY if last == _IN_RECOVERY_ENTRY else last
                break
            segments.append(EnsembleSegment(int(first), tuple(rest)))
    except ValueError as fault:
        raise LedgerMetadataError(f"the metadata cannot be parsed: {fault}", file=file) from fault
    found = LedgerMetadata(
        ensemble,
        quorum,
        quorum,
        tuple(segments),
        digest_type=None,
        password=None,
        state=state,
        length=length,
        last_entry=last,
        version=1,
    )
    return _checked(found, file)


def _format_lines(metadata: LedgerMetadata) -> bytes:
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(metadata.length)]
    lines += ["\t".join([str(each.first_entry), *each.bookies]) for each in metadata.segments]
    if metadata.state is not LedgerState.OPEN:
        lines.append(f"{metadata.last_entry if metadata.closed else _IN_RECOVERY_ENTRY}\t{_CLOSED}")
    return "\n".join(lines).encode("ascii")
