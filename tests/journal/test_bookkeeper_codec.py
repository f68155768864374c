"""BookKeeper's frames, entries, metadata and znodes: recorded, made up by Hypothesis, and damaged."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.storage_info import StorageInfo
from journal.bookkeeper import journal_znodes, protocol_v2, protocol_v3
from journal.bookkeeper.entry import LAST_ENTRY, DigestType, EntryCodec, LedgerEntry, crc32c, master_key
from journal.bookkeeper.errors import BookKeeperError, EntryError, FrameError, LedgerMetadataError
from journal.bookkeeper.journal_znodes import JournalPaths, SegmentLedger
from journal.bookkeeper.ledger_metadata import (
    EnsembleSegment,
    LedgerMetadata,
    LedgerState,
    format_metadata,
    parse_metadata,
)
from journal.bookkeeper.ledger_paths import LedgerManager, LedgerPaths, format_layout, id_of, parse_layout
from journal.bookkeeper.ledger_store import address_of, registration_of
from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    OtherRequest,
    OtherResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
    ResultCode,
)
from journal.bookkeeper.protocol_v2 import FrameBuffer, framed
from journal.errors import JournalError
from tests.depth import SEED, deep, examples
from tests.journal import bookkeeper_recordings as recorded
from tests.journal import bookkeeper_v3_client

_LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
_BODIES = st.binary(min_size=32, max_size=200)
_KEYS = st.binary(min_size=20, max_size=20)
_CODES = st.sampled_from(ResultCode)


# ---- recorded ----------------------------------------------------------------------------------------------


def test_every_recorded_packet_decodes_and_encodes_to_the_same_bytes() -> None:
    packets = 0
    for folder in recorded.FOLDERS:
        for connection in recorded.connections(folder):
            for packet in connection.requests:
                v3 = not protocol_v2.is_v2(packet)
                request = protocol_v3.decode_request(packet) if v3 else protocol_v2.decode_request(packet)
                again = (
                    bookkeeper_v3_client.encode_request(request)
                    if isinstance(request, protocol_v3.V3Request)
                    else protocol_v2.encode_request(request)
                )
                assert again == packet, f"{folder}: {request}"
            for packet in connection.responses:
                v3 = not protocol_v2.is_v2(packet)
                response = bookkeeper_v3_client.decode_response(packet) if v3 else protocol_v2.decode_response(packet)
                again = (
                    protocol_v3.encode_response(response)
                    if isinstance(response, protocol_v3.V3Response)
                    else protocol_v2.encode_response(response)
                )
                assert again == packet, f"{folder}: {response}"
            packets += len(connection.requests) + len(connection.responses)
    assert packets == 2424


def test_every_recorded_digest_and_key_is_right_and_every_flipped_bit_is_found() -> None:
    chosen = random.Random(SEED)
    bodies = {}
    for folder in recorded.FOLDERS:
        for connection in recorded.connections(folder):
            for request in map(recorded.request_in, connection.requests):
                key = getattr(request, "master_key", None)
                if key is not None:
                    assert key == master_key(recorded.password(folder, request.ledger_id))
                if isinstance(request, AddRequest):
                    bodies[folder, request.ledger_id, request.entry_id] = request.body
            for response in map(recorded.response_in, connection.responses):
                if isinstance(response, ReadResponse) and response.body:
                    bodies[folder, response.ledger_id, response.entry_id] = response.body
                if isinstance(response, ReadLacResponse) and response.last_entry:
                    bodies[folder, response.ledger_id, LAST_ENTRY] = response.last_entry
    assert len(bodies) > 500
    for (folder, ledger_id, entry_id), body in bodies.items():
        codec = recorded.codec(folder, ledger_id)
        entry = codec.decode(body, ledger_id, entry_id)
        assert codec.encode(entry) == body
        if not folder.startswith("bkjm"):
            assert entry.payload == recorded.payload(entry.entry_id)
        bits = len(body) * 8
        for bit in range(bits) if deep() and bits < 2000 else chosen.sample(range(bits), 3):
            damaged = bytearray(body)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(EntryError):
                codec.decode(damaged, ledger_id, entry_id)


def test_every_recorded_znode_parses_and_prints_to_the_same_bytes() -> None:
    seen = set()
    for path in recorded.znode_files():
        for name, (data, _) in recorded.znodes(path).items():
            last = name.rpartition("/")[2]
            if data is not None and data.startswith(b"BookieMetadataFormatVersion"):
                metadata = parse_metadata(data, file=name)
                assert format_metadata(metadata) == data
                fresh = replace(metadata, base=b"")
                if b"ctime" not in data and metadata.version == 2:
                    # Hadoop 2.7's client writes the same bytes
                    assert format_metadata(fresh) == data
                assert parse_metadata(format_metadata(fresh)) == metadata
                seen.add(f"metadata {metadata.version}")
            elif last == "LAYOUT":
                paths = parse_layout(data or b"", name.removesuffix("/LAYOUT"))
                assert format_layout(paths.manager) == data
                seen.add(paths.manager)
            elif name.startswith("/hdfsjournal"):
                _check_journal_znode(name, data)
                seen.add(last.partition("_")[0])
            elif "/available/" in name and data:
                assert address_of(last, data) == address_of(last) == ("127.0.0.1", int(last.rpartition(":")[2]))
                assert registration_of(*address_of(last)) == data
                seen.add("registration")
    assert {"metadata 2", "metadata 3", "edits", "inprogress", "maxtxid", "version", "registration"} <= seen
    assert {LedgerManager.FLAT, LedgerManager.HIERARCHICAL} <= seen


def _check_journal_znode(name: str, data: bytes | None) -> None:
    paths = JournalPaths("/hdfsjournal")
    last = name.rpartition("/")[2]
    if name in (paths.root, paths.ledgers):
        assert data == journal_znodes.PLACEHOLDER
    elif name == paths.max_txid:
        assert journal_znodes.format_max_txid(journal_znodes.parse_max_txid(data, file=name)) == data
    elif name == paths.current:
        current = journal_znodes.parse_current(data, file=name)
        assert data is None or journal_znodes.format_current(current or "", "vm/127.0.0.1") == data
    elif name == paths.version:
        namespace = journal_znodes.parse_version_znode(data, file=name)
        assert namespace == StorageInfo(
            -63, 2085933014, 0, "CID-e75d7548-3ab9-47d1-b295-dc3b9dac1f09", "BP-2048452271-127.0.0.1-1795388641591"
        )
        ours = journal_znodes.format_version_znode(namespace)
        # only the release and its features are the writer's own
        own = (b"buildVersion", b"softwareVersion", b"capabilities")
        lines = [
            [line for line in each.splitlines() if not line.strip().startswith(own)] for each in (ours, data or b"")
        ]
        assert lines[0] == lines[1]
    else:
        segment = journal_znodes.parse_segment_znode(last, data, file=name)
        assert (journal_znodes.format_segment(segment), segment.path(paths)) == (data, name)


# ---- made up -----------------------------------------------------------------------------------------------


@examples(60)
@given(
    st.sampled_from(DigestType),
    st.binary(max_size=20),
    st.builds(LedgerEntry, _LONGS, st.integers(0, 1 << 62), _LONGS, _LONGS, st.binary(max_size=300)),
)
def test_entries_come_back_and_are_nobody_elses(kind: DigestType, password: bytes, entry: LedgerEntry) -> None:
    codec = EntryCodec(kind, password)
    body = codec.encode(entry)
    assert codec.decode(body, entry.ledger_id, entry.entry_id) == entry
    assert codec.decode(memoryview(body), entry.ledger_id, LAST_ENTRY) == entry
    with pytest.raises(EntryError, match="of ledger"):
        codec.decode(body, entry.ledger_id, entry.entry_id + 1)
    with pytest.raises(EntryError):
        codec.decode(body[:31], entry.ledger_id, entry.entry_id)
    if kind is DigestType.MAC:
        with pytest.raises(EntryError, match="another digest"):
            EntryCodec(kind, password + b"x").decode(body, entry.ledger_id, entry.entry_id)


def test_crc32c_is_that_of_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def _requests(v3: bool) -> st.SearchStrategy[object]:
    fencing = st.builds(ReadRequest, _LONGS, _LONGS, st.just(RequestFlag.FENCE), _KEYS)
    plain = st.builds(ReadRequest, _LONGS, _LONGS)

    def add(flag: RequestFlag, key: bytes, body: bytes) -> AddRequest:
        ids = (int.from_bytes(body[at : at + 8], "big", signed=True) for at in (0, 8))
        return AddRequest(*ids, master_key=key, body=body, flags=flag)

    adds = st.builds(add, st.sampled_from([RequestFlag.NONE, RequestFlag.RECOVERY_ADD]), _KEYS, _BODIES)
    return st.one_of(fencing, plain, adds, *([st.builds(ReadLacRequest, _LONGS)] if v3 else []))


def _responses(v3: bool) -> st.SearchStrategy[object]:
    read = st.one_of(
        st.builds(ReadResponse, st.just(ResultCode.OK), _LONGS, _LONGS, st.binary(max_size=50)),
        st.builds(ReadResponse, st.sampled_from([ResultCode.NO_ENTRY, ResultCode.FENCED]), _LONGS, _LONGS),
    )
    lac = st.builds(
        ReadLacResponse, _CODES, _LONGS, st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9)
    )
    return st.one_of(st.builds(AddResponse, _CODES, _LONGS, _LONGS), read, *([lac] if v3 else []))


@examples(60)
@given(_requests(False), _responses(False), st.lists(st.integers(1, 40), min_size=1, max_size=9))
def test_v2_comes_back_in_whatever_pieces(request_: object, response: object, cuts: list[int]) -> None:
    packets = [protocol_v2.encode_request(request_), protocol_v2.encode_response(response)]  # type: ignore[arg-type]
    stream = b"".join(map(framed, packets))
    buffer, found = FrameBuffer(), []
    while stream:
        size = cuts[len(stream) % len(cuts)]
        found += buffer.feed(stream[:size])
        stream = stream[size:]
    assert found == packets
    assert protocol_v2.decode_request(found[0]) == request_
    assert protocol_v2.decode_response(found[1]) == response


@examples(60)
@given(_requests(True), _responses(True), st.integers(0, (1 << 64) - 1), st.none() | st.integers(0, 9))
def test_v3_comes_back(request_: object, response: object, txn_id: int, priority: int | None) -> None:
    asked = protocol_v3.V3Request(txn_id, request_, priority)  # type: ignore[arg-type]
    answered = protocol_v3.V3Response(txn_id, response)  # type: ignore[arg-type]
    packets = bookkeeper_v3_client.encode_request(asked), protocol_v3.encode_response(answered)
    assert not any(map(protocol_v2.is_v2, packets))
    assert protocol_v3.decode_request(packets[0]) == asked
    assert bookkeeper_v3_client.decode_response(packets[1]) == answered


@examples(100)
@given(st.binary(max_size=90))
def test_any_bytes_are_a_value_or_one_clear_error(packet: bytes) -> None:
    for decode in (
        protocol_v2.decode_request,
        protocol_v2.decode_response,
        protocol_v3.decode_request,
        bookkeeper_v3_client.decode_response,
        lambda data: list(FrameBuffer().feed(data)),
    ):
        with suppress(FrameError):
            decode(packet)
    for data in (packet, b"BookieMetadataFormatVersion\t2\n" + packet, b"BookieMetadataFormatVersion\t3\n" + packet):
        with pytest.raises(LedgerMetadataError):
            parse_metadata(data)
    for parse in (journal_znodes.parse_max_txid, journal_znodes.parse_current, journal_znodes.parse_version_znode):
        with suppress(JournalError):
            assert parse(packet, file="/j") is None or packet


def test_requests_and_answers_that_are_none_of_ours_keep_their_operation() -> None:
    packet = bytes((2, 3, 0, 0)) + b"auth"
    assert protocol_v2.decode_request(packet) == OtherRequest(3)
    refused = OtherResponse(3, ResultCode.BAD_REQUEST)
    assert protocol_v2.decode_response(protocol_v2.encode_response(refused)) == refused
    answer = protocol_v3.V3Response(7, OtherResponse(8, ResultCode.BAD_REQUEST))
    assert bookkeeper_v3_client.decode_response(protocol_v3.encode_response(answer)) == answer
    with pytest.raises(FrameError, match="larger than 1048575"):
        framed(bytes(1 << 20))
    # The bookie answers a fence without a key; the connection stays open.
    fence = protocol_v2.encode_request(ReadRequest(1, 2, RequestFlag.FENCE))
    assert protocol_v2.decode_request(fence) == ReadRequest(1, 2, RequestFlag.FENCE)


_NAMES = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@st.composite
def _metadata(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 5))
    write = draw(st.integers(1, ensemble))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 1 << 40), max_size=3)))]
    members = st.lists(_NAMES, min_size=ensemble, max_size=ensemble).map(tuple)
    version = draw(st.sampled_from([1, 2, 3]))
    made = LedgerMetadata(
        ensemble,
        write,
        write if version == 1 else draw(st.integers(1, write)),
        tuple(EnsembleSegment(first, draw(members)) for first in firsts),
        None if version == 1 else draw(st.sampled_from(DigestType)),
        None if version == 1 else draw(st.binary(max_size=8)),
        length=draw(st.integers(0, 1 << 50)),
        version=version,
    )
    state = draw(st.sampled_from(LedgerState))
    return replace(made, state=state, last_entry=draw(st.integers(-1, 99)) if state is LedgerState.CLOSED else -1)


@examples(60)
@given(_metadata())
def test_metadata_of_every_version_come_back(metadata: LedgerMetadata) -> None:
    assert parse_metadata(format_metadata(metadata)) == metadata


def test_metadata_keep_what_others_wrote_or_are_not_changed() -> None:
    text = (
        b"BookieMetadataFormatVersion\t2\n# by hand\nstate: OPEN\nquorumSize: 2\nensembleSize: 2\nlength: 0\n"
        b'segment {\n  firstEntryId: 0\n  ensembleMember: "a:1"\n  ensembleMember: "b:1"\n}\nctime: 77\n'
        b'customMetadata {\n  key: "app"\n  value: "\\303\\244"\n}\n'
    )
    found = parse_metadata(text)
    assert (found.ack_quorum, found.digest_type, found.password, found.last_entry) == (2, None, None, -1)
    closed = parse_metadata(format_metadata(found.closed_at(3, 44)))
    assert (closed.state, closed.last_entry, closed.length) == (LedgerState.CLOSED, 3, 44)
    assert b'ctime: 77\ncustomMetadata {\n  key: "app"\n  value: "\\303\\244"\n}\n' in format_metadata(
        found.closed_at(3, 44)
    )
    foreign = parse_metadata(text + b"shape: 3\n")
    assert foreign == found
    with pytest.raises(LedgerMetadataError, match="unknown"):
        format_metadata(foreign)
    for damaged, problem in (
        (text.replace(b"ensembleSize: 2", b"ensembleSize: 1"), "quorums of bookies: 1, 2 and 2"),
        (text.replace(b"firstEntryId: 0", b"firstEntryId: 1"), "begin with"),
        (text.replace(b'  ensembleMember: "b:1"\n', b""), "without 2 bookies"),
        (text.replace(b"\t2", b"\t9"), "version 9"),
        (text.replace(b"\t2", b"\tx"), "not a number"),
        (text.replace(b"length: 0\n", b""), "missing"),
    ):
        with pytest.raises(LedgerMetadataError, match=problem):
            parse_metadata(damaged)


def test_an_ensemble_change_begins_a_segment_or_replaces_the_last_one() -> None:
    start = LedgerMetadata(2, 2, 2, (EnsembleSegment(0, ("a", "b")),))
    assert start.with_ensemble(0, ("a", "c")).segments == (EnsembleSegment(0, ("a", "c")),)
    second = start.with_ensemble(6, ("a", "c"))
    assert second.segments == (EnsembleSegment(0, ("a", "b")), EnsembleSegment(6, ("a", "c")))
    assert second.with_ensemble(6, ("d", "c")).segments == (
        EnsembleSegment(0, ("a", "b")),
        EnsembleSegment(6, ("d", "c")),
    )
    assert [second.ensemble_of(entry).first_entry for entry in (-1, 0, 5, 6, 99)] == [0, 0, 0, 6, 6]


def test_ledgers_lie_where_the_layout_says() -> None:
    flat, cut, long = (LedgerPaths("/l", manager) for manager in LedgerManager)
    assert (flat.of(5), flat.of(1 << 40)) == ("/l/L0000000005", "/l/L1099511627776")
    assert (cut.of(1), cut.of(1234567890)) == ("/l/00/0000/L0001", "/l/12/3456/L7890")
    assert cut.of((1 << 31) - 1) == long.of((1 << 31) - 1) == "/l/000/0000/0021/4748/L3647"
    assert (flat.id_prefix, cut.id_prefix, long.id_prefix) == ("/l/ID-", "/l/idgen/ID-", "/l/idgen/ID-")
    assert id_of("/l/idgen/ID-0000000017") == 17
    assert parse_layout(b"1\nhierarchical:1", "/l") == cut
    for strange in (b"", b"3\nflat:1", b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1", b"1\nzk:1"):
        with pytest.raises(LedgerMetadataError, match="unknown"):
            parse_layout(strange, "/l")


def test_bookies_have_an_address_in_their_name_or_their_registration() -> None:
    assert address_of("[::1]:3181") == ("::1", 3181)
    assert address_of("bookie-7", registration_of("10.0.0.7", 3181)) == ("10.0.0.7", 3181)
    with pytest.raises(BookKeeperError, match="is not host:port"):
        address_of("bookie-7")


def test_segments_are_named_by_their_transactions() -> None:
    paths = JournalPaths("/j")
    open_segment = SegmentLedger(-63, 9, 78)
    finalized = replace(open_segment, last_txid=83)
    assert open_segment.path(paths) == "/j/ledgers/inprogress_4e"
    assert finalized.path(paths) == "/j/ledgers/edits_000000000000000078_000000000000000083"
    name = "edits_000000000000000078_000000000000000084"
    with pytest.raises(JournalError, match="value belongs to txid 78 to 83"):
        journal_znodes.parse_segment_znode(name, journal_znodes.format_segment(finalized), file=name)
    assert journal_znodes.parse_current(None, file="") is journal_znodes.parse_current(b"", file="") is None
    assert (journal_znodes.unnamed_id("unnamed_12"), journal_znodes.unnamed_id("ledgers")) == (12, None)
