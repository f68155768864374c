"""The standby role on three JournalNodes: recorded edits, and a stub that writes to them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checkpointer.daemon.blueprints import daemon_blueprints, transfer_options
from checkpointer.storage.inspector import read_storage_info
from engine.healing import HealingMode
from engine.settings import MergeSettings
from hadoop_common.access import AccessControl
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from journal.quorum.settings import QuorumSettings
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.application import create_application
from servlets.image_transfer_servlet import ServingLimits
from servlets.status import TriggerState
from site_config.merge_settings import replay_rules
from tests.checkpointer.quorum_support import Quorum, config_of, stub_on, write_recorded
from tests.checkpointer.standby_quorum_support import info_of, quorum, stub
from tests.checkpointer.standby_support import TRANSACTIONS, Daemon, follow_rolling_upgrade, images, write_edits
from tests.namenode_stub.stub_support import formatted, wait_until
from tests.recorded_cases import RECORDED, Case, imgcmp

# fixtures of another module
__all__ = ["quorum", "stub"]

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)

CASES = [
    Case(RECORDED / name)
    for name in (
        "hadoop-2.7.3/segments",
        "hadoop-2.7.3/random-mixed-1",
        "hadoop-2.7.3/snapshots-basic",
        "hadoop-3.4.1/segments",
        "hadoop-3.4.1/erasure-coding",
        "hadoop-3.4.1/random-snapshot-3",
    )
]


# ---- recorded edits ----------------------------------------------------------------------------------------


@pytest.mark.recorded
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("kind", ["finalized", "cached", "streamed"])
def test_image_equals_that_of_hadoop(case: Case, kind: str, tmp_path: Path) -> None:
    """Edits are read from finalized segments, from the nodes' caches, and from a fetched open segment."""
    current = case.copy_to(tmp_path / "nn2")
    info = read_storage_info(tmp_path / "nn2")
    rules = replay_rules(Configuration.load(case.write_configuration(tmp_path / "conf"), environment={}))
    in_progress = kind != "finalized"
    with Quorum(tmp_path / "nodes", cache=kind == "cached") as quorum:
        quorum.format(info)
        for segment in write_recorded(quorum, info, current, leave_open=in_progress):
            segment.path.unlink()
        rules = replace(rules, healing=HealingMode.AS_HADOOP)
        merging = MergeSettings(rules=rules)
        config = config_of(
            quorum, tmp_path, merge_settings=merging, tail_in_progress=in_progress, standby_checkpoints=True
        )
        promised = quorum.settled_epochs()
        with Daemon(config) as daemon:
            while daemon.role.tail():
                assert daemon.service.poll().state is TriggerState.DONE
            assert list(daemon.role.alarms()) == []
            result = daemon.service.request(force=True, wait=True)
            assert (result.state, result.details["txid"]) == (TriggerState.DONE, case.info["txid_after"])
            assert case.differences(daemon.role.latest_image()) == []
        # a reader must not fence the writer
        assert quorum.settled_epochs() == promised == [1, 1, 1]


# ---- with a NameNode that writes to them -------------------------------------------------------------------


def daemon_of(quorum: Quorum, stub: NameNodeStub, tmp_path: Path, **changes: object) -> Daemon:
    return Daemon(config_of(quorum, tmp_path, stub.server.url, namenode_rpc_addresses=(stub.rpc_address,), **changes))


@pytest.fixture
def daemon(quorum: Quorum, stub: NameNodeStub, tmp_path: Path) -> Iterator[Daemon]:
    with daemon_of(quorum, stub, tmp_path) as running:
        yield running


def same_image(tmp_path: Path, txid: int) -> bool:
    ours, theirs = (tmp_path / each / f"current/fsimage_{txid:019d}" for each in ("nn2", "active/name"))
    return ours.read_bytes() == theirs.read_bytes()


def test_active_accepts_checkpoints_after_the_bootstrap(
    quorum: Quorum, stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    assert images(tmp_path / "nn2") == [0]
    assert daemon.role.storage_info() == stub.images.storage_info()
    epochs = quorum.settled_epochs()
    for number in range(3):
        last = write_edits(stub, str(number))
        result = daemon.service.poll()
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, last)
        assert result.details["uploads"] == {stub.server.url: "SUCCESS"}
        assert same_image(tmp_path, last)
    # the active NameNode has purged the edits that precede our images
    assert daemon.service.status()["alarms"] == []
    daemon.role.tail()
    assert daemon.service.status()["alarms"] == []
    assert quorum.settled_epochs() == epochs
    assert daemon.role.segments() == []


def test_each_transaction_is_applied_with_in_progress_tailing(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path
) -> None:
    with daemon_of(quorum, stub, tmp_path, tail_in_progress=True) as daemon:
        for number in range(TRANSACTIONS):
            stub.namespace.mkdirs(f"/open/{number}")
            daemon.role.tail()
            assert daemon.service.status()["appliedTxid"] == stub.namespace.transactions.log.durable_txid
        last = stub.namespace.transactions.log.last_txid
        assert daemon.service.poll().details["txid"] == last
        assert images(tmp_path / "nn2")[-1] == last
        end = write_edits(stub, "b")
        # START_LOG_SEGMENT of the next segment is not applied yet
        assert daemon.service.poll().details["txid"] == end
    served = sum(node.node.open_journal("ns1").counters.rpc_transactions for node in quorum.nodes)
    assert served > 0


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_edits_beyond_the_batch_limit_of_the_nodes_are_read(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, at_once: int
) -> None:
    config = config_of(quorum, tmp_path, stub.server.url, namenode_rpc_addresses=(stub.rpc_address,))
    few = replace(config, tail_in_progress=True, quorum=replace(config.quorum, max_tail_transactions=at_once))
    with Daemon(few) as daemon:
        for number in range(20):
            stub.namespace.mkdirs(f"/{number}")
            if number % 6 == 0:
                stub.active.roll()
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == stub.namespace.transactions.log.last_txid


@pytest.mark.parametrize("in_progress", [False, True])
def test_a_rolling_upgrade_from_start_to_finalize(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, in_progress: bool
) -> None:
    """The daemon also follows the upgrade if the nodes' caches return START in an open segment."""
    with daemon_of(quorum, stub, tmp_path, tail_in_progress=in_progress) as daemon:
        follow_rolling_upgrade(stub, daemon, tmp_path)
        write_edits(stub, "after", 2 * TRANSACTIONS)
        daemon.role.tail()
        assert daemon.service.status()["alarms"] == []
        assert daemon.service.status()["tailingLagTransactions"] <= 1
        assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}


# ---- nodes that stop and return ----------------------------------------------------------------------------


def nodes_of(daemon: Daemon) -> list[bool | None]:
    return [node["answers"] for node in daemon.service.status()["journalNodes"]]


@pytest.mark.parametrize("in_progress", [False, True])
def test_journal_node_that_stops_and_returns(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, in_progress: bool
) -> None:
    with daemon_of(quorum, stub, tmp_path, tail_in_progress=in_progress) as daemon:
        write_edits(stub, "a", 3)
        daemon.role.tail()
        assert nodes_of(daemon) == [True, True, True]
        quorum.nodes[0].stop()
        last = write_edits(stub, "b")
        daemon.role.tail()
        status = daemon.service.status()
        # a tail of the open segment may also apply the first operation of the next segment
        assert last <= status["appliedTxid"] <= last + in_progress
        assert status["alarms"] == []
        assert nodes_of(daemon) == [False, True, True]
        assert status["journalNodes"][0]["fault"] != ""
        assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
        quorum.nodes[0].start()
        last = write_edits(stub, "c")
        # the restarted node lacks the segment that was written in between; nevertheless, another node may stop now
        quorum.nodes[1].stop()
        daemon.role.tail()
        status = daemon.service.status()
        # a tail of the open segment may also apply the first operation of the next segment
        assert last <= status["appliedTxid"] <= last + in_progress
        assert status["alarms"] == []
        assert nodes_of(daemon) == [True, False, True]
        assert daemon.service.poll().state is TriggerState.DONE


@pytest.mark.parametrize("in_progress", [False, True])
def test_lost_majority_is_an_alarm_until_it_returns(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, in_progress: bool
) -> None:
    settings = {"tail_in_progress": in_progress, "log_roll_period": 120.0, "lag_alarm": 300.0}
    with daemon_of(quorum, stub, tmp_path, **settings) as daemon:
        write_edits(stub, "a", 3)
        daemon.role.tail()
        applied = daemon.service.status()["appliedTxid"]
        last = write_edits(stub, "b")
        for node in quorum.nodes[:2]:
            node.cut_off()
        daemon.role.tail()
        (alarm,) = daemon.service.status()["alarms"]
        assert "1 of 3 JournalNodes answered, but 2 are needed" in alarm
        assert not daemon.service.ready().ok
        result = daemon.service.poll()
        assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, 7)
        # NameNodes are queried once the roll period has passed; the second alarm begins after its threshold
        daemon.clock.now += 121
        daemon.role.tail()
        assert daemon.service.status()["activeTxid"] == last + 1
        assert len(daemon.service.status()["alarms"]) == 1
        daemon.clock.now += 301
        daemon.role.tail()
        _, lag = daemon.service.status()["alarms"]
        assert f"the last applied transaction is {applied}, but the active NameNode wrote transaction {last + 1}" in lag
        for node in quorum.nodes[:2]:
            node.serve()
        daemon.role.tail()
        status = daemon.service.status()
        assert (status["alarms"], status["appliedTxid"]) == ([], last)
        assert daemon.service.ready().ok
        assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
        assert imgcmp.compare(*(imgcmp.Image(str(path)) for path in newest_images(tmp_path))) == []


def newest_images(tmp_path: Path) -> list[Path]:
    folders = (tmp_path / "nn2", tmp_path / "active/name")
    return [folder / f"current/fsimage_{images(folder)[-1]:019d}" for folder in folders]


# ---- the namespace of the edits ----------------------------------------------------------------------------


def test_edits_of_another_cluster_are_rejected(
    quorum: Quorum, stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.role.close()
    with Quorum(tmp_path / "others") as others:
        others.format(replace(stub.images.storage_info(), cluster_id="CID-other"))
        with (
            pytest.raises(StorageError, match="contains edits of another namespace"),
            daemon_of(others, stub, tmp_path),
        ):
            pass
        # if no node answers at the start, the namespace is checked later
        for node in others.nodes:
            node.cut_off()
        with daemon_of(others, stub, tmp_path) as strayed:
            for node in others.nodes:
                node.serve()
            strayed.role.tail()
            assert strayed.service.status()["appliedTxid"] == 0
            assert not strayed.service.ready().ok
    with daemon_of(quorum, stub, tmp_path) as again:
        last = write_edits(stub, "a")
        assert again.service.poll().details["txid"] == last


def test_journal_node_of_another_cluster_is_ignored(
    quorum: Quorum, stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.role.close()
    quorum.nodes[0].node.format("ns1", replace(stub.images.storage_info(), cluster_id="CID-other"), force=True)
    with daemon_of(quorum, stub, tmp_path) as again:
        last = write_edits(stub, "a")
        assert again.service.poll().details["txid"] == last


@pytest.mark.parametrize("in_progress", [False, True])
def test_past_of_a_cluster_that_was_set_back_is_set_aside(
    quorum: Quorum, stub_config: StubConfig, tmp_path: Path, in_progress: bool
) -> None:
    quorum.format(info_of(stub_config))
    with stub_on(quorum, stub_config) as stub, daemon_of(quorum, stub, tmp_path, tail_in_progress=in_progress) as made:
        write_edits(stub, "a")
        lost = made.service.poll().details["txid"]
    again = formatted(tmp_path / "again", checkpoint_transactions=TRANSACTIONS, rpc_address=("127.0.0.1", 0))
    namespace = info_of(stub_config)
    for directory in again.storage_directories:
        (directory / "current/VERSION").write_bytes((tmp_path / "active/name/current/VERSION").read_bytes())
    quorum.writer().format(namespace, force=True)
    with stub_on(quorum, again) as stub, daemon_of(quorum, stub, tmp_path, tail_in_progress=in_progress) as daemon:
        last = write_edits(stub, "b", 2)
        # only the journal and the NameNode show that the NameNode was set back
        daemon.role.tail()
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last
        last = write_edits(stub, "c", 30)
        result = daemon.service.request(force=True, wait=True)
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, last)
        assert images(tmp_path / "again/name") == [0, last]
        begun = daemon.service.status()["lostPast"]
        (folder,) = begun["setAside"]
        assert (Path(folder) / image_name(lost)).is_file()
        assert daemon.service.status()["alarms"] == []


def test_unavailable_journal_nodes_cause_no_lost_past(quorum: Quorum, stub: NameNodeStub, tmp_path: Path) -> None:
    """Of the nodes that answer, one has all transactions of our image, and another lags behind; a majority has fewer
    transactions than our image.
    """
    with daemon_of(quorum, stub, tmp_path, tail_in_progress=True) as daemon:
        quorum.nodes[2].cut_off()
        for number in range(TRANSACTIONS):
            stub.namespace.mkdirs(f"/{number}")
        daemon.role.tail()
        assert daemon.service.poll().details["txid"] == stub.namespace.transactions.log.last_txid
        quorum.nodes[2].serve()
        quorum.nodes[1].cut_off()
        for _ in range(2):
            daemon.role.tail()
            assert daemon.service.status()["alarms"] == []
        quorum.nodes[1].serve()
        # the node is in sync only from the next segment on; another node may be the only node with the last segment
        last = write_edits(stub, "b")
        quorum.nodes[0].cut_off()
        daemon.role.tail()
        status = daemon.service.status()
        # the first operation of the next segment may also be applied
        assert last <= status["appliedTxid"] <= last + 1
        assert status["alarms"] == []
        quorum.nodes[0].serve()


def test_image_in_the_middle_of_a_segment_is_kept_after_a_restart(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path
) -> None:
    with daemon_of(quorum, stub, tmp_path, tail_in_progress=True) as daemon:
        stub.namespace.mkdirs("/a")
        daemon.role.tail()
        middle = daemon.service.request(force=True, wait=True).details["txid"]
    last = write_edits(stub, "b")
    with daemon_of(quorum, stub, tmp_path) as daemon:
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last
        assert daemon.service.status()["lostPast"] is None
        assert min(images(tmp_path / "nn2")) == 0
        assert middle in images(tmp_path / "nn2")


# ---- the start, and missing edits --------------------------------------------------------------------------


def test_bootstrap_requires_a_namenode_that_reports_its_version(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path
) -> None:
    config = config_of(quorum, tmp_path, stub.server.url)
    with pytest.raises(StorageError, match="no image to start from: "), Daemon(config):
        pass
    assert not (tmp_path / "nn2/current").exists()
    with daemon_of(quorum, stub, tmp_path):
        assert images(tmp_path / "nn2") == [0]


@pytest.mark.parametrize("wanted", [False, True])
def test_missing_edits_with_and_without_rebootstrap(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, wanted: bool
) -> None:
    with daemon_of(quorum, stub, tmp_path, rebootstrap=wanted) as daemon:
        write_edits(stub, "a", 3)
        daemon.role.tail()
        applied = daemon.service.status()["appliedTxid"]
        end = write_edits(stub, "b", 3)
        with daemon_of(quorum, stub, tmp_path, image_directories=(tmp_path / "other",)) as other:
            assert other.service.request(force=True, wait=True).details["txid"] == end
        last = write_edits(stub, "c", 3)
        for node in quorum.nodes:
            for path in node.current.glob(f"edits_*-{end:019d}"):
                path.unlink()
        daemon.role.tail()
        status = daemon.service.status()
        if wanted:
            assert (status["alarms"], status["appliedTxid"]) == ([], last)
            return
        (alarm,) = status["alarms"]
        assert f"transactions from {applied + 1} to {end} are missing in qjournal://" in alarm
        assert "closes the gap" in alarm
        # transactions after the gap are known, so a checkpoint is tried
        result = daemon.service.poll()
        assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, 4)
        assert daemon.service.status()["journalTxid"] == last


def test_rolling_upgrade_is_detected_from_the_edits(quorum: Quorum, stub: NameNodeStub, daemon: Daemon) -> None:
    """The release does not report a rolling upgrade, and the edits have no readable VERSION."""
    ours = daemon.role.storage_info()
    theirs = replace(ours, layout_version=ours.layout_version - 1)
    follower = daemon.role._follower
    assert follower._rolling(theirs)
    write_edits(stub, "a")
    daemon.role.tail()
    assert not follower._rolling(theirs)
    assert stub.active.administration.start_rolling_upgrade() is not None
    daemon.role.tail()
    assert follower._rolling(theirs)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a node that is briefly silent as unavailable, and do not wait for it."""
    monkeypatch.setattr("journal.quorum.reader.LINGER", 0.25)
    monkeypatch.setattr("checkpointer.roles.standby.journal_node_monitor._PATIENCE", 0.2)


@pytest.mark.usefixtures("impatient")
def test_close_ends_a_waiting_tail(quorum: Quorum, stub: NameNodeStub, tmp_path: Path) -> None:
    """The nodes accept connections, but do not answer."""
    with ExitStack() as silent:
        listeners = [silent.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = [quorum.nodes[0].rpc_port, *(each.getsockname()[1] for each in listeners)]
        uri = f"qjournal://{';'.join(f'127.0.0.1:{port}' for port in ports)}/ns1"
        config = replace(config_of(quorum, tmp_path, stub.server.url), shared_edits=uri)
        config = replace(config, namenode_rpc_addresses=(stub.rpc_address,))
        config = replace(config, quorum=QuorumSettings(select_input_streams=600.0))
        with Daemon(config) as daemon:
            looking = threading.Thread(target=daemon.role.tail)
            looking.start()
            asked = {f"127.0.0.1:{port}" for port in ports[1:]}
            wait_until("a node to be waited for", lambda: silent_nodes(daemon) == asked)
            daemon.role.close()
            looking.join(600)
            assert not looking.is_alive()
            assert daemon.role.alarms() == []


@pytest.mark.usefixtures("impatient")
def test_silent_journal_node_is_not_waited_for(quorum: Quorum, stub: NameNodeStub, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = [*(node.rpc_port for node in quorum.nodes[:2]), silent.getsockname()[1]]
        uri = f"qjournal://{';'.join(f'127.0.0.1:{port}' for port in ports)}/ns1"
        config = replace(config_of(quorum, tmp_path, stub.server.url), shared_edits=uri)
        with Daemon(replace(config, namenode_rpc_addresses=(stub.rpc_address,))) as daemon:
            for number in range(2):
                last = write_edits(stub, str(number))
                daemon.role.tail()
                assert daemon.service.status()["appliedTxid"] == last
            assert daemon.service.poll().state is TriggerState.DONE
            wait_until("it to count as silent", lambda: silent_nodes(daemon) == {f"127.0.0.1:{ports[2]}"})


def silent_nodes(daemon: Daemon) -> set[str]:
    nodes = daemon.role.details().journal_nodes or ()
    return {node.address for node in nodes if "no answer for" in node.fault}


# ---- reports -----------------------------------------------------------------------------------------------


def test_metrics_and_beans(quorum: Quorum, stub: NameNodeStub, daemon: Daemon) -> None:
    last = write_edits(stub, "a")
    quorum.nodes[1].cut_off()
    daemon.role.tail()
    config = daemon.role._config
    limits = ServingLimits(transfer_options(config), daemon.role.counter)
    client = create_application(
        *daemon_blueprints(daemon.role, daemon.service, config, limits, AccessControl(config.access))
    ).test_client()
    reported = {
        (sample.name.removeprefix("hdfs_checkpointer_"), sample.labels.get("node", "")): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }
    nodes = [f"127.0.0.1:{node.rpc_port}" for node in quorum.nodes]
    assert [reported["journal_node_up", node] for node in nodes] == [1, 0, 1]
    assert [reported["journal_node_lag_transactions", node] for node in (nodes[0], nodes[2])] == [0, 0]
    assert (reported["source_txid", ""], reported["applied_txid", ""], reported["tailing_lag_transactions", ""]) == (
        last,
        last,
        0,
    )
    assert ("active_txid", "") not in reported
    (bean,) = client.get("/jmx?qry=Hadoop:service=Checkpointer,*").get_json()["beans"]
    assert (bean["SourceTxid"], bean["AppliedTxid"], bean["Journal"]) == (last, last, quorum.uri)
    assert [node["answers"] for node in bean["JournalNodes"]] == [True, False, True]
    # the nodes serve the segments
    assert client.get(f"/imagetransfer?getedit=1&startTxId=1&endTxId={last}").status_code == 410
    quorum.nodes[1].serve()
