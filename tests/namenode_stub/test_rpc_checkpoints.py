"""NamenodeProtocol and HAServiceProtocol over real sockets, and the edits sent to a BackupNode."""

from __future__ import annotations

import dataclasses
import getpass
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.hadoop_releases import RELEASES, Release
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import IncorrectVersionError, RemoteError, RpcConnectionError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from hadoop_rpc.journal_protocol import FenceResult, JournalInfo, journal_service
from hadoop_rpc.namenode_protocol import (
    NamenodeClient,
    NamenodeRegistration,
    NamenodeRole,
    NodeErrorCode,
    RemoteEditLog,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext
from journal.file_journal import FileJournal
from journal.segment_file import EditLogSegment
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.image_store import manifest
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.rpc_support import rpc_config, serving

ME = getpass.getuser()


def namenode(stub: NameNodeStub, user: str = ME) -> NamenodeClient:
    assert stub.rpc_address is not None
    return NamenodeClient(*stub.rpc_address, user=user, retry=NO_RETRY)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[NameNodeStub]:
    with NameNodeStub(rpc_config(tmp_path)) as running:
        yield running


def test_the_configured_release_is_reported_to_checkpointers(tmp_path: Path) -> None:
    config = dataclasses.replace(rpc_config(tmp_path), release=RELEASES["3.5.0"])
    with NameNodeStub(config) as stub, namenode(stub) as node:
        info = node.version_request()
        assert Release(info.software_version, info.build_version) == RELEASES["3.5.0"]


def registration(
    stub: NameNodeStub, address: str = "127.0.0.1:1", role: Any = NamenodeRole.BACKUP
) -> NamenodeRegistration:
    return NamenodeRegistration(address, "127.0.0.1:2", stub.images.storage_info(), role)


@pytest.mark.parametrize(("layout", "software", "state"), [(-63, "2.7.3", ""), (-67, "3.4.1", "ACTIVE")])
def test_calls_of_a_checkpointer(tmp_path: Path, layout: int, software: str, state: str) -> None:
    with serving(rpc_config(tmp_path, layout), ME) as (stub, dfs), namenode(stub) as node:
        dfs.mkdirs("/a")
        info = node.version_request()
        assert (info.storage_info, info.software_version, info.state) == (stub.images.storage_info(), software, state)
        assert node.transaction_id() == 2
        assert node.most_recent_checkpoint_txid() == 0
        assert node.edit_log_manifest(1).logs == ()
        signature = node.roll_edit_log()
        assert signature.storage_info == info.storage_info
        assert (signature.most_recent_checkpoint_txid, signature.current_segment_txid) == (0, 4)
        dfs.mkdirs("/b")
        node.roll_edit_log()
        assert node.edit_log_manifest(1).logs == (RemoteEditLog(1, 3), RemoteEditLog(4, 6))
        assert node.edit_log_manifest(2).logs == (RemoteEditLog(4, 6),)
        assert node.edit_log_manifest(7).logs == ()
        assert node.is_upgrade_finalized()
        assert not node.is_rolling_upgrade()
        dfs.safe_mode(2)
        with pytest.raises(RemoteError, match="safe mode"):
            node.roll_edit_log()


def test_only_superusers_may_call_namenode_protocol(stub: NameNodeStub) -> None:
    with namenode(stub, "nobody-known") as node:
        for call in (node.transaction_id, node.version_request, node.roll_edit_log, lambda: node.edit_log_manifest(1)):
            with pytest.raises(RemoteError, match="Superuser privilege is required"):
                call()


def test_ha_state_and_health(stub: NameNodeStub) -> None:
    assert stub.rpc_address is not None
    with HAServiceClient(*stub.rpc_address, user=ME, retry=NO_RETRY) as ha:
        assert ha.service_status().state is HAState.ACTIVE
        ha.monitor_health()
        stub.fail_stop.trip("a disk is gone")
        with pytest.raises(RemoteError, match="a disk is gone") as found:
            ha.monitor_health()
        assert found.value.class_name == "org.apache.hadoop.ha.HealthCheckFailedException"


# ---- manifests -------------------------------------------------------------------------------------------------

SEGMENTS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6) | st.none()), max_size=8)


@given(SEGMENTS, st.integers(0, 30))
def test_a_manifest_contains_the_last_segments_without_a_gap(found: list[tuple[int, int | None]], since: int) -> None:
    segments = [EditLogSegment(first, None if size is None else first + size, Path()) for first, size in found]
    run = manifest(segments, since)
    held = {(each.first, each.last) for each in segments}
    assert set(run) <= held
    assert all(first >= since for first, _ in run)
    assert all(run[at][1] + 1 == run[at + 1][0] for at in range(len(run) - 1))
    starts = [each.first for each in segments if each.last is not None and each.first >= since]
    assert bool(run) == bool(starts)


def test_manifests_with_copies_and_gaps() -> None:
    def of(*ranges: tuple[int, int | None]) -> list[EditLogSegment]:
        return [EditLogSegment(first, last, Path()) for first, last in ranges]

    assert manifest(of((1, 4), (1, 5), (6, 9), (10, None)), 1) == [(1, 5), (6, 9)]
    assert manifest(of((1, 5), (8, 9), (10, 12)), 1) == [(8, 9), (10, 12)]
    assert manifest(of((1, 65)), 5) == []


# ---- BackupNodes -----------------------------------------------------------------------------------------------


class Backup:
    """A BackupNode's server that records all calls; with `fault` it refuses them."""

    def __init__(self) -> None:
        self.fault = False
        self.segments: list[int] = []
        self.batches: list[tuple[int, int, bytes]] = []
        self.server = RpcServer([journal_service(self)], "127.0.0.1", 0)

    def journal(
        self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes, caller: CallContext
    ) -> None:
        if self.fault:
            raise RemoteError("no more")
        self.batches.append((first_txid, count, records))

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int, caller: CallContext) -> None:
        if self.fault:
            raise RemoteError("no more")
        self.segments.append(txid)

    def fence(self, info: JournalInfo, epoch: int, fencer: str, caller: CallContext) -> FenceResult:
        raise NotImplementedError

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.server.address)

    def received(self) -> tuple[int, int]:
        """Return the first and last transaction id, and check for gaps."""
        last = self.batches[0][0] - 1
        for first, count, _ in self.batches:
            assert first == last + 1
            last += count
        return self.batches[0][0], last


@pytest.fixture
def backup() -> Iterator[Backup]:
    node = Backup()
    node.server.start()
    yield node
    node.server.stop()


def test_a_backup_node_receives_all_edits_from_the_next_segment(stub: NameNodeStub, backup: Backup) -> None:
    with namenode(stub) as node:
        own = node.register(registration(stub, backup.address))
        assert stub.rpc_address is not None
        assert own.rpc_address == "{}:{}".format(*stub.rpc_address)
        assert own.http_address == "{}:{}".format(*stub.server.address)
        assert own.role is NamenodeRole.NAMENODE
        stub.namespace.mkdirs("/before")
        assert backup.batches == []
        command = node.start_checkpoint(registration(stub, backup.address))
        assert command is not None
        assert command.need_to_return_image
        first = command.signature.current_segment_txid
        assert backup.segments == [first]
        clients = [threading.Thread(target=_work, args=(stub, number)) for number in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        # the backup received every change that was acknowledged to clients
        assert backup.received() == (first, stub.namespace.transactions.last_txid)
        second = stub.active.roll()
        assert backup.segments == [first, second]
        assert backup.received() == (first, second)
        node.end_checkpoint(registration(stub, backup.address), command.signature)
        node.register(registration(stub, backup.address))
        stub.namespace.mkdirs("/after")
        assert backup.received() == (first, second + 1)
    log = b"".join(records for _, _, records in backup.batches)
    (journal, *_) = (member.journal for member in stub.active.journals.active)
    assert isinstance(journal, FileJournal)
    segment = journal.folder / f"edits_{first:019d}-{second - 1:019d}"
    # A segment file consists of a header of 8 bytes and the streamed bytes.
    assert log.startswith(segment.read_bytes()[8:])


def _work(stub: NameNodeStub, number: int) -> None:
    for count in range(25):
        stub.namespace.mkdirs(f"/w{number}/{count}")


def test_a_failed_backup_node_is_skipped_until_the_next_segment(stub: NameNodeStub, backup: Backup) -> None:
    with namenode(stub) as node:
        node.register(registration(stub, backup.address))
        stub.active.roll()
        backup.fault = True
        stub.namespace.mkdirs("/unseen")
        backup.fault = False
        backup.batches.clear()
        stub.namespace.mkdirs("/unseen/too")
        assert backup.batches == []
        first = stub.active.roll()
        stub.namespace.mkdirs("/seen")
        assert backup.received() == (first, first + 1)
        node.error_report(registration(stub, backup.address), NodeErrorCode.NOTIFY, "something")
        stub.namespace.mkdirs("/seen/too")
        assert backup.received() == (first, first + 2)
        node.error_report(registration(stub, backup.address), NodeErrorCode.FATAL, "gone")
        stub.namespace.mkdirs("/unseen/again")
        stub.active.roll()
        assert backup.received() == (first, first + 2)


def test_a_stopped_backup_node_does_not_block_clients(stub: NameNodeStub, backup: Backup) -> None:
    with namenode(stub) as node:
        node.register(registration(stub, backup.address))
        stub.active.roll()
        backup.server.stop()
        assert stub.namespace.mkdirs("/a")
        stub.active.roll()
        assert stub.namespace.mkdirs("/b")


def test_a_backup_node_with_an_invalid_address_does_not_block_clients(stub: NameNodeStub) -> None:
    with namenode(stub) as node:
        node.register(registration(stub, "a..b:50100"))
        stub.active.roll()
        assert stub.namespace.mkdirs("/a")


def test_a_failure_between_two_batches_loses_no_later_segment() -> None:
    """A segment that began during the failing call restarts the stream."""

    class Client:
        def __init__(self) -> None:
            self.calls: list[tuple[str, int]] = []

        def journal(self, info: Any, epoch: int, first: int, count: int, records: bytes) -> None:
            self.calls.append(("journal", first))
            if first == 2:
                streams.rolled(5, b"start", b"end")
                raise RpcConnectionError("cut")

        def start_log_segment(self, info: Any, epoch: int, txid: int) -> None:
            self.calls.append(("start", txid))

        def close(self) -> None:
            """Do nothing, because this server has nothing open."""

    client = Client()
    streams = BackupStreams(JournalInfo("c", -63, 1), connect=lambda host, port: client)  # type: ignore[arg-type,return-value]
    info: Any = None
    streams.register(NamenodeRegistration("h:1", "h:2", info, NamenodeRole.BACKUP))
    streams.rolled(1, b"start", b"end")
    streams.flush()
    streams.logged(2, b"op")
    streams.flush()
    streams.logged(6, b"op")
    streams.flush()
    assert client.calls == [("start", 1), ("journal", 1), ("journal", 2), ("start", 5), ("journal", 5)]
    streams.close()
    streams.logged(7, b"op")
    streams.flush()
    assert len(client.calls) == 5


def test_calls_with_another_namespace_are_refused(stub: NameNodeStub) -> None:
    info = stub.images.storage_info()
    with namenode(stub) as node:
        known = registration(stub)
        for change in ({"namespace_id": 5}, {"cluster_id": "other"}, {"c_time": 5}):
            stranger = dataclasses.replace(known, storage_info=dataclasses.replace(info, **change))
            with pytest.raises(RemoteError) as found:
                node.start_checkpoint(stranger)
            assert found.value.class_name.endswith("UnregisteredNodeException")
        with pytest.raises(RemoteError, match="Incompatible namespaceIDs"):
            node.register(dataclasses.replace(known, storage_info=dataclasses.replace(info, namespace_id=5)))
        with pytest.raises(RemoteError, match="address"):
            node.register(dataclasses.replace(known, rpc_address="user@host:1"))
        for layout in (info.layout_version - 1, info.layout_version + 1):
            other = dataclasses.replace(info, layout_version=layout, namespace_id=5)
            # the layout is compared first
            with pytest.raises(IncorrectVersionError) as refused:
                node.register(dataclasses.replace(known, storage_info=other))
            assert refused.value.text == (
                f"Unexpected version of data node. Reported: {layout}. Expecting = {info.layout_version}."
            )
            assert refused.value.expected == info.layout_version
        newer = dataclasses.replace(info, layout_version=info.layout_version - 1)
        assert node.start_checkpoint(dataclasses.replace(known, storage_info=newer)) is None
        assert node.start_checkpoint(dataclasses.replace(known, role=NamenodeRole.NAMENODE)) is None
        command = node.start_checkpoint(dataclasses.replace(known, role=NamenodeRole.CHECKPOINT))
        assert command is not None
        wrong = dataclasses.replace(command.signature, storage_info=dataclasses.replace(info, blockpool_id="BP-0"))
        with pytest.raises(RemoteError, match="Inconsistent checkpoint fields"):
            node.end_checkpoint(known, wrong)
