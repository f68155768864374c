"""JournalNodes with their servers: sync between them, automatic format, the process and its commands."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from hadoop_common.configuration import Configuration
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.storage_info import JOURNAL_NODE
from hadoop_common.storage_lock import StorageLock
from hadoop_rpc.errors import JavaIOError, RpcConnectionError
from hadoop_rpc.qjournal_protocol import InterQJournalClient, QJournalClient
from journal.quorum.address import segment_url
from journal_node.server import JournalNodeServer
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import free_ports, write_configuration
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from tests.cli_runner import run_cli
from tests.journal_node.journal_node_servers import Place, config_of, format_all, properties, running
from tests.journal_node.journal_node_support import HEADER, JOURNAL, NAMESPACE, Writer, batch
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site

SEGMENT = "edits_0000000000000000001-0000000000000000003"


@pytest.fixture
def places(tmp_path: Path) -> list[Place]:
    return [Place.new(tmp_path / name) for name in ("a", "b", "c")]


def test_stop_refuses_calls_before_it_waits_for_the_sync(places: list[Place]) -> None:
    reported: list[str] = []

    class Sync:
        """A slow fetch of a segment."""

        def stop(self) -> None:
            reported.append("stop")

        def join(self, seconds: float) -> None:
            with pytest.raises(RpcConnectionError):
                writer.write(4, 5, 5)
            reported.append("join")

    place = places[0]
    with running([place], [place]) as (server,), place.writer() as writer:
        format_all([place])
        writer.start(4)
        writer.write(4, 4, 4)
        server._syncs = [Sync()]  # type: ignore[list-item]
        server.stop()
    assert reported == ["stop", "join"]


def test_node_serves_calls_segments_and_status(places: list[Place]) -> None:
    place = places[0]
    with running([place], [place], **{"dfs.ha.tail-edits.in-progress": "true"}) as (server,), place.writer() as writer:
        format_all([place])
        writer.segment(1, 3)
        writer.start(4)
        writer.write(4, 4, 5)
        state = writer.node.get_journal_state(JOURNAL)
        assert (state.http_port, state.from_url) == (place.http_port, place.url)
        assert requests.get(segment_url(place.url, JOURNAL, 1, NAMESPACE), timeout=600).content == HEADER + batch(1, 3)
        assert writer.node.get_journaled_edits(JOURNAL, 2, 9).count == 4
        with InterQJournalClient("127.0.0.1", place.rpc_port, user="hdfs") as peer:
            assert peer.get_storage_info(JOURNAL).cluster_id == NAMESPACE.cluster_id
        assert requests.get(f"{server.url}/status", timeout=600).json()["journals"][JOURNAL]["highestTxid"] == 5
        assert requests.get(f"{server.url}/health/live", timeout=600).status_code == 200
        assert requests.get(f"{server.url}/health/ready", timeout=600).json()["journals"] == 1
        assert "Journal-j1" in requests.get(f"{server.url}/jmx", timeout=600).text
        assert "hdfs_journalnode_highest_txid" in requests.get(f"{server.url}/metrics", timeout=600).text
    server.stop()
    with pytest.raises(JavaIOError, match="stopping"):
        server.node.is_formatted(JOURNAL)


def test_existing_journals_are_opened_at_the_start(places: list[Place]) -> None:
    place = places[0]
    federated = {"dfs.nameservices": "ns1,ns2", "dfs.journalnode.edits.dir.ns2": str(place.root / "other")}
    values = {**properties(place, [place]), **federated}
    with (
        JournalNodeServer(config_of(values)) as server,
        QJournalClient(*server.rpc_address, user="hdfs", nameservice="ns2") as client,
    ):
        for journal_id in ("j2", "damaged"):
            client.format(journal_id, NAMESPACE, force=False)
        assert (place.root / "other" / "j2" / "current" / "VERSION").exists()
    (place.root / "other" / "damaged" / "current" / "VERSION").write_text("nothing")
    with JournalNodeServer(config_of(values)) as server:
        status = requests.get(f"{server.url}/status", timeout=600).json()
        assert status["journals"].keys() == {"j2"}
        assert "VERSION" in status["failing"]["damaged"]
        with QJournalClient(*server.rpc_address, user="hdfs") as client:
            assert client.is_formatted("j2")


def test_failing_disk_makes_the_node_unready(places: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    place = places[0]
    with running([place], [place]) as (server,), place.writer() as writer:
        unformatted = requests.get(f"{server.url}/health/ready", timeout=600)
        assert (unformatted.status_code, "no journal is formatted on this JournalNode" in unformatted.text) == (
            503,
            True,
        )
        format_all([place])
        assert requests.get(f"{server.url}/health/ready", timeout=600).ok
        writer.start(1)

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        journal = server.node.open_journal(JOURNAL)
        assert journal._output is not None
        with monkeypatch.context() as patch:
            patch.setattr(type(journal._output), "append", full)
            with pytest.raises(JavaIOError, match="No space left"):
                writer.write(1, 1, 1)
        answer = requests.get(f"{server.url}/health/ready", timeout=600)
        assert (answer.status_code, "No space left" in answer.text) == (503, True)
        newer = Writer(writer.node, epoch=2)
        newer.begin()
        newer.start(1)
        newer.write(1, 1, 1)
        assert requests.get(f"{server.url}/health/ready", timeout=600).ok


def test_missed_segments_are_fetched_from_the_other_nodes(places: list[Place]) -> None:
    late = places[2]
    with running(places[:2], places):
        format_all(places[:2])
        for place in places[:2]:
            with place.writer() as writer:
                writer.segment(1, 3)
        with running([late], places), late.writer() as writer:
            format_all([late])
            writer.committed = 3
            writer.heartbeat()
            wait_until("the segment", (late.current / SEGMENT).exists)
            assert (late.current / SEGMENT).read_bytes() == HEADER + batch(1, 3)


def test_bandwidth_limit_of_the_sync_does_not_delay_recovery_or_readers(places: list[Place]) -> None:
    one, other = places[:2]
    settings = {"dfs.edit.log.transfer.bandwidthPerSec": "1", "dfs.journalnode.enable.sync": "false"}
    with running([one, other], [one, other], **settings), one.writer() as writer, other.writer() as lagging:
        format_all([one, other])
        writer.start(1)
        writer.write(1, 1, 999)
        url = segment_url(one.url, JOURNAL, 1, NAMESPACE)
        lagging.accept(1, 999, url)
        assert requests.get(url, timeout=600).content == HEADER + batch(1, 999)
    assert (other.current / "edits_inprogress_0000000000000000001").read_bytes() == HEADER + batch(1, 999)


def test_wiped_node_formats_itself_if_enabled(places: list[Place]) -> None:
    wiped = places[2]
    with running(places[:2], places):
        format_all(places[:2])
        with running([wiped], places, **{"dfs.journalnode.enable.sync.format": "true"}), wiped.writer(2) as writer:
            wait_until("the format", lambda: writer.node.is_formatted(JOURNAL))
            wait_until("the promise", lambda: writer.node.get_journal_state(JOURNAL).last_promised_epoch == 1)
            with pytest.raises(JavaIOError, match="lacks the earlier segments"):
                writer.begin()
            writer.start(4)
            writer.write(4, 4, 5)


@pytest.fixture
def formatted_pair(places: list[Place]) -> Iterator[list[Place]]:
    """Run nodes a and b with the journal; c is new."""
    with running(places[:2], places):
        format_all(places[:2])
        yield places


def conf_of(place: Place, places: list[Place], **more: str) -> Path:
    return write_site(place.root / "conf", properties(place, places, **more))


def test_format_from_peers(formatted_pair: list[Place]) -> None:
    new = formatted_pair[2]
    conf = conf_of(new, formatted_pair)
    done = run_cli("journalnode", "format", "--conf", conf, "--from-peers")
    assert (done.code, done.out) == (0, "j1: formatted\n")
    assert b"clusterID=CID-x" in (new.current / "VERSION").read_bytes()
    assert (new.current / "last-promised-epoch").read_bytes() == b"1\n"
    again = run_cli("journalnode", "format", "--conf", conf, "--from-peers", "--json")
    assert json.loads(again.out) == {JOURNAL: "was formatted"}


def test_fault_is_reported_with_one_next_step(formatted_pair: list[Place]) -> None:
    place = formatted_pair[2]
    with running([place], formatted_pair):
        format_all([place])
    (place.current / "committed-txid").write_bytes(b"123")
    with JournalNodeServer(config_of(properties(place, formatted_pair))) as server:
        failing = requests.get(f"{server.url}/status", timeout=600).json()["failing"][JOURNAL]
        place_of_file = place.current / "committed-txid"
        assert failing.startswith(f"{place_of_file} has 3 bytes instead of 8; next: Move the file away")
        assert failing.count("next: ") == 1


@pytest.mark.parametrize("damaged", ["last-promised-epoch", "last-writer-epoch", "VERSION"])
def test_damaged_journal_does_not_affect_other_journals(
    formatted_pair: list[Place], damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The files are damaged as after a disk crash. The hint works while the node runs, and does not delete files."""
    place = formatted_pair[2]
    federated = {"dfs.nameservices": "ns1,ns2"}
    values = properties(place, formatted_pair, **federated)
    with running([place], formatted_pair, **federated):
        format_all([place])
        with place.writer() as writer, QJournalClient("127.0.0.1", place.rpc_port, user="hdfs") as client:
            writer.segment(1, 3)
            client.format("j2", NAMESPACE, force=False)
    kept = (place.current / SEGMENT).read_bytes()
    (place.current / damaged).write_bytes(b"")
    caplog.clear()
    with JournalNodeServer(config_of(values)) as server, QJournalClient(*server.rpc_address, user="hdfs") as client:
        assert client.is_formatted("j2")
        with pytest.raises(JavaIOError, match=r"journal j1 is damaged: .*; next: `checkpointer journalnode format"):
            client.get_journal_state(JOURNAL)
        # later calls do not hold the lock that `journalnode format` needs
        with (
            StorageLock(place.current.parent, of=(JOURNAL_NODE,)),
            pytest.raises(JavaIOError, match="journal j1 is damaged"),
        ):
            client.get_journal_state(JOURNAL)
        advice = "journalnode format --conf DIR --from-peers --journal j1"
        (line,) = [line for line in caplog.messages if "journal j1 is not served" in line]
        assert damaged in line
        assert advice in line
        ready = requests.get(f"{server.url}/health/ready", timeout=600)
        assert (ready.status_code, damaged in ready.text, advice in ready.text) == (503, True, True)
        assert advice in requests.get(f"{server.url}/status", timeout=600).json()["failing"][JOURNAL]
        beans = requests.get(f"{server.url}/jmx", timeout=600).json()["beans"]
        (info,) = [bean for bean in beans if "JournalNodeInfo" in bean["name"]]
        assert damaged in json.loads(info["FailingJournals"])[JOURNAL]
        metrics = requests.get(f"{server.url}/metrics", timeout=600).text
        assert 'hdfs_journalnode_journal_failing{journal="j1"} 1.0' in metrics
        assert 'hdfs_journalnode_journal_failing{journal="j2"} 0.0' in metrics
        conf = conf_of(place, formatted_pair, **federated)
        done = run_cli("journalnode", "format", "--conf", conf, "--from-peers", "--journal", JOURNAL)
        assert done.code == 0, done.err
        assert done.out.startswith("j1: formatted; its damaged files are in ")
        # promises of this node and of the other nodes are kept
        assert client.get_journal_state(JOURNAL).last_promised_epoch == 1
        assert requests.get(f"{server.url}/health/ready", timeout=600).ok
    (aside,) = (place.current.parent / "damaged").iterdir()
    assert (aside / SEGMENT).read_bytes() == kept


def test_journal_without_its_version_file_can_be_restored(formatted_pair: list[Place]) -> None:
    """Writers see an unformatted journal, but it was formatted."""
    place = formatted_pair[2]
    with running([place], formatted_pair):
        format_all([place])
        with place.writer() as writer:
            writer.segment(1, 3)
    (place.current / "VERSION").unlink()
    with running([place], formatted_pair):
        ready = requests.get(f"{place.url}/health/ready", timeout=600)
        assert (ready.status_code, "VERSION is missing, but edits exist" in ready.text) == (503, True)
        assert "Copy VERSION from another JournalNode" in ready.text
    done = run_cli("journalnode", "format", "--conf", conf_of(place, formatted_pair), "--from-peers")
    assert (done.code, "its damaged files are in" in done.out) == (0, True)


def test_damaged_journal_is_not_touched_while_too_few_peers_answer(places: list[Place]) -> None:
    place = places[0]
    with running([place], places):
        format_all([place])
    (place.current / "VERSION").write_bytes(b"")
    before = sorted(path.name for path in place.current.iterdir())
    few = run_cli("journalnode", "format", "--conf", conf_of(place, places), "--from-peers")
    assert (few.code, "2 of the other JournalNodes must answer, but 0 do" in few.err) == (7, True)
    assert sorted(path.name for path in place.current.iterdir()) == before
    with StorageLock(place.current.parent, of=(JOURNAL_NODE,)):
        locked = run_cli("journalnode", "format", "--conf", conf_of(place, places), "--from-peers")
    assert (locked.code, "held by" in locked.err) == (6, True)


def test_format_reports_missing_options_and_peers(formatted_pair: list[Place], tmp_path: Path) -> None:
    new = formatted_pair[2]
    conf = conf_of(new, formatted_pair)
    nowhere = run_cli("journalnode", "format", "--conf", conf)
    assert (nowhere.code, "--from-peers or --from-namenode" in nowhere.err) == (2, True)
    unknown = run_cli("journalnode", "format", "--conf", conf, "--from-peers", "--journal", "j9")
    assert (unknown.code, "names no journal j9" in unknown.err) == (7, True)
    (new.root / "journal" / JOURNAL).mkdir(parents=True)
    with StorageLock(new.root / "journal" / JOURNAL, of=(JOURNAL_NODE,)):
        locked = run_cli("journalnode", "format", "--conf", conf, "--from-peers")
    assert (locked.code, "held by" in locked.err, "next: A JournalNode " in locked.err) == (6, True, True), locked.err
    assert locked.err.count("next: ") == 1
    lonely = [new, Place.new(tmp_path / "d"), Place.new(tmp_path / "e")]
    few = run_cli("journalnode", "format", "--conf", conf_of(new, lonely), "--from-peers")
    assert (few.code, "2 of the other JournalNodes must answer, but 0 do" in few.err) == (7, True)
    assert not new.current.exists()


def test_format_from_a_namenode(formatted_pair: list[Place], tmp_path: Path) -> None:
    write_configuration(tmp_path, free_ports(), transactions=1000, period=3600)
    stub = stub_config(Configuration.load(tmp_path / "conf-nn1", environment={}))
    info = new_storage_info(-67)
    format_storage(list(stub.image_directories), list(stub.edits_directories), info)
    new = formatted_pair[2]
    assert stub.rpc_address is not None
    namenode = f"127.0.0.1:{stub.rpc_address[1]}"
    own_user = pwd.getpwuid(os.geteuid()).pw_name
    conf = conf_of(new, formatted_pair, **{"dfs.namenode.rpc-address": namenode, "hadoop.user.name": own_user})
    gone = run_cli("journalnode", "format", "--conf", conf, "--from-namenode")
    assert (gone.code, f"{namenode} (" in gone.err, "--from-peers" in gone.err) == (7, True, True)
    with NameNodeStub(stub):
        done = run_cli("journalnode", "format", "--conf", conf, "--from-namenode")
    assert done.code == 0, done.err
    assert info.cluster_id.encode() in (new.current / "VERSION").read_bytes()


# ---- the process ----


@contextmanager
def process(conf: Path, log: Path, *, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "checkpointer", "journalnode", "run", "--conf", str(conf)]
    with log.open("wb") as output:
        started = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()


def answers(place: Place) -> bool:
    """Return whether both servers of the node accept connections; the RPC server starts after the HTTP server."""
    try:
        socket.create_connection(("127.0.0.1", place.rpc_port)).close()
        return requests.get(f"{place.url}/health/live", timeout=600).ok
    except OSError:
        return False


def test_process_is_stopped_by_sigterm_and_restarted(places: list[Place], tmp_path: Path) -> None:
    place, log = places[0], tmp_path / "log"
    conf = conf_of(place, [place])
    with process(conf, log) as started:
        wait_until("the JournalNode", lambda: started.poll() is not None or answers(place))
        format_all([place])
        with place.writer() as writer:
            writer.segment(1, 3)
            writer.start(4)
            writer.write(4, 4, 5)
            started.send_signal(signal.SIGTERM)
            assert started.wait(600) == 0, log.read_text()
    assert not (place.root / "journal" / JOURNAL / "in_use.lock").exists()
    with process(conf, log) as started:
        wait_until("the JournalNode", lambda: started.poll() is not None or answers(place))
        with place.writer(2) as writer:
            assert writer.begin() == 4
            started.kill()
            started.wait()
    with process(conf, log) as started:
        wait_until("the JournalNode", lambda: started.poll() is not None or answers(place))
        with place.writer(3) as writer:
            with pytest.raises(JavaIOError, match="last promised epoch 2"):
                Writer(writer.node, epoch=1).heartbeat()
            assert writer.begin() == 4
            prepared = writer.prepare(4)
            assert prepared.segment is not None
            assert prepared.segment.last == 5


def test_service_manager_is_notified(places: list[Place], tmp_path: Path) -> None:
    place = places[0]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(600)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with process(conf_of(place, [place]), tmp_path / "log", environment=environment) as started:
            assert manager.recv(4096).startswith(b"READY=1\nSTATUS=no journal is formatted on this JournalNode")
            started.send_signal(signal.SIGTERM)
            reported = b""
            while b"STOPPING=1" not in reported:
                reported = manager.recv(4096)
            assert started.wait(600) == 0


def test_start_failures_are_reported(places: list[Place], tmp_path: Path) -> None:
    place = places[0]
    faulty = write_site(tmp_path / "faulty", {**properties(place, [place]), "dfs.journalnode.handler.count": "0"})
    refused = run_cli("journalnode", "run", "--conf", faulty)
    assert (refused.code, "dfs.journalnode.handler.count" in refused.err) == (2, True)
    (place.root / "journal" / JOURNAL).mkdir(parents=True)
    with (
        StorageLock(place.root / "journal" / JOURNAL, of=(JOURNAL_NODE,)),
        pytest.raises(StorageError, match="held by"),
        JournalNodeServer(config_of(properties(place, [place]))),
    ):
        pass
    (place.root / "file").write_text("")
    config = config_of({**properties(place, [place]), "dfs.journalnode.edits.dir": str(place.root / "file" / "x")})
    with pytest.raises(StorageError, match="cannot be used for journals"), JournalNodeServer(config):
        pass
    with (
        socket.create_server(("127.0.0.1", place.rpc_port)),
        pytest.raises(HdfsError, match="cannot listen"),
        JournalNodeServer(config_of(properties(place, [place]))),
    ):
        pass


@pytest.mark.parametrize("command", [["journalnode"], ["journalnode", "run"], ["journalnode", "format"]])
def test_help_has_an_example(command: list[str]) -> None:
    shown = run_cli(*command, "--help")
    assert shown.code == 0
    assert len(command) == 1 or f"Example: checkpointer {' '.join(command)} --conf" in shown.out
