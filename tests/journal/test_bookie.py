"""The bookie: its rules, its journal under crashes and full disks, and its port in both protocols."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hadoop_common.errors import StorageError
from journal.bookie.bookie import JOURNAL, Bookie
from journal.bookie.journal_file import JournalFile, encode_record
from journal.bookie.registration import check_cookie, format_ledgers
from journal.bookie.server import BookieServer
from journal.bookie.state import EntryRecord
from journal.bookkeeper import protocol_v2, protocol_v3
from journal.bookkeeper.entry import LAST_ENTRY, DigestType, EntryCodec, LedgerEntry, master_key
from journal.bookkeeper.ledger_paths import LedgerManager
from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    BookieRequest,
    BookieResponse,
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
from tests.journal import bookkeeper_v3_client
from tests.journal.bookkeeper_cluster import MemoryZNodes

KEY, OTHER = master_key(b""), master_key(b"other")
CODEC = EntryCodec(DigestType.MAC, b"")


def body(entry: int, ledger: int = 7, payload: bytes = b"payload") -> bytes:
    return CODEC.encode(LedgerEntry(ledger, entry, entry - 1, 8 * (entry + 1), payload))


def add(entry: int, *, ledger: int = 7, key: bytes = KEY, flags: RequestFlag = RequestFlag.NONE) -> AddRequest:
    return AddRequest(ledger, entry, key, body(entry, ledger), flags)


def fence(ledger: int = 7, key: bytes | None = KEY, entry: int = LAST_ENTRY) -> ReadRequest:
    return ReadRequest(ledger, entry, RequestFlag.FENCE, key)


def ask(bookie: Bookie, request: BookieRequest) -> BookieResponse:
    done, found = threading.Event(), list[BookieResponse]()

    def answer(response: BookieResponse) -> None:
        found.append(response)
        done.set()

    bookie.handle(request, answer)
    assert done.wait(600)
    return found[0]


def code(bookie: Bookie, request: BookieRequest) -> ResultCode:
    return ask(bookie, request).code


@pytest.fixture
def bookie(tmp_path: Path) -> Iterator[Bookie]:
    made = Bookie(tmp_path)
    yield made
    made.close()


def test_result_code_of_each_request(bookie: Bookie) -> None:
    assert code(bookie, ReadRequest(7, 0)) is ResultCode.NO_LEDGER
    assert code(bookie, ReadLacRequest(7)) is ResultCode.NO_LEDGER
    assert ask(bookie, add(0)) == AddResponse(ResultCode.OK, 7, 0)
    assert code(bookie, add(3)) is ResultCode.OK
    assert code(bookie, add(1, key=OTHER)) is ResultCode.UNAUTHORIZED
    assert code(bookie, AddRequest(7, 1, KEY, body(2))) is ResultCode.BAD_REQUEST
    assert code(bookie, AddRequest(7, 1, KEY, b"short")) is ResultCode.BAD_REQUEST
    assert ask(bookie, ReadRequest(7, 3)) == ReadResponse(ResultCode.OK, 7, 3, body(3))
    assert ask(bookie, ReadRequest(7, LAST_ENTRY)) == ReadResponse(ResultCode.OK, 7, LAST_ENTRY, body(3))
    assert code(bookie, ReadRequest(7, 2)) is ResultCode.NO_ENTRY
    assert ask(bookie, ReadLacRequest(7)) == ReadLacResponse(ResultCode.OK, 7, None, body(3))
    assert ask(bookie, OtherRequest(6)) == OtherResponse(6, ResultCode.BAD_REQUEST)
    # a fence needs the key, and applies to the writer but not to recovery
    assert code(bookie, fence(key=None)) is ResultCode.UNAUTHORIZED
    assert code(bookie, fence(key=OTHER)) is ResultCode.UNAUTHORIZED
    assert code(bookie, add(4)) is ResultCode.OK
    assert ask(bookie, fence()) == ReadResponse(ResultCode.OK, 7, LAST_ENTRY, body(4))
    assert code(bookie, add(5)) is ResultCode.FENCED
    assert code(bookie, add(5, flags=RequestFlag.RECOVERY_ADD)) is ResultCode.OK
    # a fence creates an unknown ledger in the fenced state
    assert code(bookie, fence(8)) is ResultCode.NO_ENTRY
    assert code(bookie, add(0, ledger=8)) is ResultCode.FENCED


def test_entries_and_fences_survive_a_restart(tmp_path: Path) -> None:
    first = Bookie(tmp_path)
    with pytest.raises(StorageError):
        Bookie(tmp_path)
    for entry in range(20):
        assert code(first, add(entry)) is ResultCode.OK
    assert code(first, fence(8)) is ResultCode.NO_ENTRY
    first.close()
    second = Bookie(tmp_path)
    assert [ask(second, ReadRequest(7, entry)) for entry in range(20)] == [
        ReadResponse(ResultCode.OK, 7, entry, body(entry)) for entry in range(20)
    ]
    assert (code(second, add(20, key=OTHER)), code(second, add(0, ledger=8))) == (
        ResultCode.UNAUTHORIZED,
        ResultCode.FENCED,
    )
    second.close()


def test_torn_end_is_truncated_and_damage_before_intact_records_is_refused(tmp_path: Path) -> None:
    first = Bookie(tmp_path)
    for entry in range(3):
        ask(first, add(entry))
    first.close()
    path = tmp_path / JOURNAL
    whole = path.read_bytes()
    record = encode_record(EntryRecord(7, 3, body(3)))
    for torn in (record[:-1], record[:5], record[:-3] + b"\0\0\0", bytes(100)):
        path.write_bytes(whole + torn)
        again = Bookie(tmp_path)
        assert (code(again, ReadRequest(7, 2)), code(again, ReadRequest(7, 3))) == (ResultCode.OK, ResultCode.NO_ENTRY)
        assert code(again, add(3)) is ResultCode.OK
        again.close()
    path.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    with pytest.raises(JournalError, match="a damaged record precedes complete records"):
        Bookie(tmp_path)
    path.write_bytes(b"something else")
    with pytest.raises(JournalError, match="not a journal of a bookie"):
        Bookie(tmp_path)
    path.write_bytes(b"bookie 2 and records of another kind")
    with pytest.raises(JournalError, match="a newer release wrote the file"):
        Bookie(tmp_path)
    assert path.read_bytes() == b"bookie 2 and records of another kind"
    path.write_bytes(b"")
    Bookie(tmp_path).close()


def test_full_disk_makes_the_bookie_read_only_without_partial_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: list[bool] = []
    writable = threading.Event()

    def changed(now: bool) -> None:
        turned.append(now)
        if now:
            writable.set()

    bookie = Bookie(tmp_path, changed=changed)
    assert code(bookie, add(0)) is ResultCode.OK
    room, pwrite = [0], os.pwrite

    def short(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 8:
            pwrite(descriptor, bytes(data)[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", short)
    monkeypatch.setattr(JournalFile, "free_bytes", lambda self: room[0])
    assert code(bookie, add(1)) is ResultCode.IO_ERROR
    assert turned == [False]
    assert (code(bookie, add(1)), code(bookie, ReadRequest(7, 1))) == (ResultCode.READ_ONLY, ResultCode.NO_ENTRY)
    assert code(bookie, ReadRequest(7, 0)) is ResultCode.OK
    monkeypatch.setattr(os, "pwrite", pwrite)
    # fences are still accepted, and later the disk has space again
    assert code(bookie, fence(9)) is ResultCode.NO_ENTRY
    room[0] = 1 << 30
    assert code(bookie, fence(10)) is ResultCode.NO_ENTRY
    assert writable.wait(600)
    assert turned == [False, True]
    assert code(bookie, add(1)) is ResultCode.OK
    bookie.close()
    again = Bookie(tmp_path)
    assert (code(again, ReadRequest(7, 1)), code(again, add(0, ledger=9))) == (ResultCode.OK, ResultCode.FENCED)
    again.close()


def test_no_response_after_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bookie = Bookie(tmp_path)

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", broken)
    answers: list[BookieResponse] = []
    bookie.handle(add(0), answers.append)
    bookie._thread.join(600)
    assert bookie.failure is not None
    bookie.handle(ReadRequest(7, 0), answers.append)
    assert answers == []
    bookie.close()


# ---- the port ----------------------------------------------------------------------------------------------


@pytest.fixture
def port(bookie: Bookie) -> Iterator[int]:
    server = BookieServer(bookie)
    number = server.listen("127.0.0.1", 0)[1]
    server.start()
    yield number
    server.stop()


def packets(connection: socket.socket, count: int) -> list[bytes]:
    buffer, found = FrameBuffer(), list[bytes]()
    while len(found) < count:
        data = connection.recv(1 << 16)
        assert data
        found += buffer.feed(data)
    return found


def test_one_port_serves_both_protocols(port: int) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), 600) as v2,
        socket.create_connection(("127.0.0.1", port), 600) as v3,
    ):
        requests = [add(entry) for entry in range(50)]
        v2.sendall(b"".join(framed(protocol_v2.encode_request(request)) for request in requests))
        answers = [protocol_v2.decode_response(packet) for packet in packets(v2, 50)]
        assert answers == [AddResponse(ResultCode.OK, 7, entry) for entry in range(50)]
        asked = [
            protocol_v3.V3Request(1, ReadRequest(7, 49)),
            protocol_v3.V3Request(2, ReadLacRequest(7)),
            protocol_v3.V3Request(3, fence()),
            protocol_v3.V3Request(4, add(50)),
            protocol_v3.V3Request(5, add(50, flags=RequestFlag.RECOVERY_ADD)),
        ]
        v3.sendall(b"".join(framed(bookkeeper_v3_client.encode_request(each)) for each in asked))
        reported = {each.txn_id: each.response for each in map(bookkeeper_v3_client.decode_response, packets(v3, 5))}
        assert reported == {
            1: ReadResponse(ResultCode.OK, 7, 49, body(49)),
            2: ReadLacResponse(ResultCode.OK, 7, None, body(49)),
            3: ReadResponse(ResultCode.OK, 7, LAST_ENTRY, body(49)),
            4: AddResponse(ResultCode.FENCED, 7, 50),
            5: AddResponse(ResultCode.OK, 7, 50),
        }


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)]
)
def test_invalid_request_closes_only_its_own_connection(port: int, garbage: bytes) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), 600) as good,
        socket.create_connection(("127.0.0.1", port), 600) as bad,
    ):
        bad.sendall(garbage)
        assert bad.recv(100) == b""
        good.sendall(framed(protocol_v2.encode_request(add(0))))
        assert protocol_v2.decode_response(packets(good, 1)[0]) == AddResponse(ResultCode.OK, 7, 0)


# ---- ZooKeeper ---------------------------------------------------------------------------------------------


def test_cookie_binds_a_bookie_to_its_directory(tmp_path: Path) -> None:
    znodes = MemoryZNodes()
    format_ledgers(znodes, "/ledgers", LedgerManager.FLAT)
    instance = znodes.get("/ledgers/INSTANCEID")
    format_ledgers(znodes, "/ledgers", LedgerManager.HIERARCHICAL)
    assert znodes.get("/ledgers/INSTANCEID") == instance
    assert znodes.get("/ledgers/LAYOUT")[0] == b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
    check_cookie(znodes, "/ledgers", "a:1", tmp_path)
    check_cookie(znodes, "/ledgers", "a:1", tmp_path)
    kept = (tmp_path / "VERSION").read_bytes()
    assert (
        kept
        == (
            f'4\nbookieHost: "a:1"\njournalDir: "{tmp_path}"\nledgerDirs: "1\\t{tmp_path}"\n'
            f'instanceId: "{(instance[0] or b"").decode()}"\n'
        ).encode()
    )
    znodes.delete("/ledgers/cookies/a:1")
    check_cookie(znodes, "/ledgers", "a:1", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(JournalError, match="differs from that of its directory"):
        check_cookie(znodes, "/ledgers", "a:1", other)
    with pytest.raises(JournalError, match="differs from that of its directory"):
        check_cookie(znodes, "/ledgers", "b:2", tmp_path)
