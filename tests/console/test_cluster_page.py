"""All nodes of a cluster on one page: the queried nodes, the contents for each node, and unreachable nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Blueprint, jsonify, request

from checkpointer.checks.ask_peers import ask_peers, peers_of
from checkpointer.cli.console_clusters import console_clusters
from console.cluster_page import ClusterPage, Peer, PeerAnswer, ShownCluster
from console.model import Level, NodePage, PageCell
from hadoop_common.configuration import Configuration, ConfigurationError
from namenode_stub.ports import free_port
from node_state.state import as_json
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.status import ProbeResult, health_blueprint
from site_config.checkpoint_config import Role
from tests.console.console_support import client_of, daemon_state, text_of
from tests.site_files import write_site

HA = {
    "dfs.nameservices": "ns1",
    "dfs.ha.namenodes.ns1": "nn1,nn2",
    "dfs.namenode.rpc-address.ns1.nn1": "host1:8020",
    "dfs.namenode.rpc-address.ns1.nn2": "host2:8020",
    "dfs.namenode.http-address.ns1.nn1": "host1:9870",
    "dfs.namenode.http-address.ns1.nn2": "host2:9870",
    "dfs.namenode.shared.edits.dir": "qjournal://j1:8485;j2:8485;j3:8485/ns1",
    "dfs.ha.automatic-failover.enabled": "true",
    "ha.zookeeper.quorum": "zk:2181",
    "dfs.namenode.name.dir": "/name",
    "checkpointer.console.peers": "http://host3:9868/",
}


def beans(state: str) -> dict[str, dict[str, object]]:
    return {"NameNodeStatus": {"State": state}, "FSNamesystem": {}}


def page_with(answers: Sequence[PeerAnswer]) -> ClusterPage:
    page = ClusterPage([ShownCluster("ns1", lambda: answers)])
    query(page)
    return page


def query(page: ClusterPage) -> NodePage:
    """Return the page after a query of all clusters."""
    page.page()
    for thread in threading.enumerate():
        if thread.name.startswith("console-"):
            thread.join()
    return page.page()


def test_nodes_are_taken_from_the_configuration() -> None:
    found = peers_of(Configuration.from_mapping(HA, {}), Role.STANDBY)
    assert [(peer.url, peer.kind, peer.optional) for peer in found] == [
        ("http://host1:9870", "namenode", False),
        ("http://host2:9870", "namenode", False),
        ("http://j1:8480", "journalnode", False),
        ("http://j2:8480", "journalnode", False),
        ("http://j3:8480", "journalnode", False),
        ("http://127.0.0.1:9868", "daemon", False),
        ("http://host3:9868", "daemon", False),
        ("http://host1:8018", "daemon", True),
        ("http://host2:8018", "daemon", True),
    ]


def test_controllers_are_found_by_the_keys_of_their_namenodes() -> None:
    own = {
        "dfs.ha.automatic-failover.enabled": "false",
        "dfs.ha.automatic-failover.enabled.ns1": "true",
        "checkpointer.zkfc.http-address.ns1.nn1": "0.0.0.0:18018",
        "checkpointer.zkfc.http-address.ns1.nn2": "admin2:8018",
    }
    found = peers_of(Configuration.from_mapping({**HA, **own}, {}), Role.STANDBY)
    assert [peer.url for peer in found if peer.optional] == ["http://host1:18018", "http://admin2:8018"]
    own["dfs.ha.automatic-failover.enabled.ns1"] = "false"
    found = peers_of(Configuration.from_mapping({**HA, **own}, {}), Role.STANDBY)
    assert not any(peer.optional for peer in found)


def test_page_has_a_row_for_each_node_and_all_problems() -> None:
    answers = [
        PeerAnswer(Peer("http://nn1:9870", "namenode"), beans=beans("active")),
        PeerAnswer(Peer("http://nn2:9870", "namenode"), error="no answer: connection refused"),
        PeerAnswer(Peer("http://here:9868", "daemon"), status=as_json(daemon_state())),
        PeerAnswer(Peer("http://nn1:8018", "daemon", optional=True), error="no answer"),
        PeerAnswer(Peer("http://j1:8480", "journalnode"), beans={"JournalNodeInfo": {}}),
    ]
    found = page_with(answers).page()
    (panel,) = found.panels
    assert [(row[0].text, row[2].text) for row in panel.rows] == [
        ("nn1:9870", "active"),
        ("nn2:9870", "does not answer"),
        ("here:9868", "needs attention"),
        ("nn1:8018", "does not answer"),
        ("j1:8480", "answers"),
    ]
    assert panel.rows[3][2].level is Level.NEUTRAL
    titles = [each.title for each in found.attention]
    assert "ns1: NameNode nn2:9870 cannot be reached" in titles
    assert "ns1: A storage directory is not used (here:9868)" in titles
    assert not any("8018" in title for title in titles)
    client = client_of(daemon_state(), pages={"cluster": ("Cluster", page_with(answers).page)})
    page = client.get("/console/cluster").text
    assert 'href="http://nn1:9870/"' in page
    assert 'href="../docs/runbook.md#namenode-down"' in page


def test_missing_active_namenode_needs_attention() -> None:
    answers = [PeerAnswer(Peer(f"http://nn{n}:9870", "namenode"), beans=beans("standby")) for n in (1, 2)]
    assert [each.section for each in page_with(answers).page().attention] == ["runbook.md#no-namenode-becomes-active"]


def test_two_active_namenodes_need_attention() -> None:
    answers = [PeerAnswer(Peer(f"http://nn{n}:9870", "namenode"), beans=beans("active")) for n in (1, 2)]
    assert [each.title for each in page_with(answers).page().attention] == ["ns1: More than one NameNode is active"]


@pytest.mark.parametrize(
    ("found", "text", "level"),
    [
        (beans("observer"), "observer", Level.GOOD),
        (beans("initializing"), "initializing", Level.NEUTRAL),
        ({"NameNodeStatus": {}, "FSNamesystem": {}}, "answers", Level.NEUTRAL),
        (beans("active") | {"FSNamesystemState": {"FSState": "safeMode"}}, "active, safe mode", Level.WARNING),
        (beans("active") | {"FSNamesystemState": {"FSState": "Operational"}}, "active", Level.GOOD),
    ],
)
@pytest.mark.parameters(5)
def test_health_level_of_each_namenode_state(found: dict[str, Any], text: str, level: Level) -> None:
    (panel,) = page_with([PeerAnswer(Peer("http://nn1:9870", "namenode"), beans=found)]).page().panels
    assert panel.rows[0][2] == PageCell(text, level)


def test_ages_on_the_page_are_by_the_clock_of_each_node() -> None:
    there = time.time() - 7200
    found = {"NameNodeStatus": {}, "FSNamesystem": {"LastCheckpointTime": int(there * 1000) - 60_000}}
    answer = PeerAnswer(Peer("http://nn1:9870", "namenode"), beans=found, clock_ahead=-7200.0)
    (panel,) = page_with([answer]).page().panels
    assert panel.rows[0][5].text.startswith("last checkpoint 1 min ")


@pytest.mark.parametrize(
    "odd",
    [
        {"phase": "idle"},
        {"election": "x"},
        {"phase": "idle", "role": "standby", "targets": [{}]},
        {"journals": {"a": None}},
    ],
)
@pytest.mark.parameters(4)
def test_malformed_response_affects_only_its_own_row(odd: dict[str, Any]) -> None:
    answers = [
        PeerAnswer(Peer("http://odd:9868", "daemon"), status=odd),
        PeerAnswer(Peer("http://nn1:9870", "namenode"), beans={"FSNamesystem": {"LastCheckpointTime": "never"}}),
        PeerAnswer(Peer("http://here:9868", "daemon"), status=as_json(daemon_state())),
    ]
    found = page_with(answers).page()
    first, second, third = found.panels[0].rows
    assert "not the state of a node" in first[5].text
    assert "not the state of a node" in second[5].text
    assert third[2].text == "needs attention"
    assert "ns1: Daemon odd:9868 cannot be read" in [each.title for each in found.attention]


def test_peers_are_queried_in_parallel_and_timeouts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # a busy machine is not a fault
    monkeypatch.setattr("checkpointer.checks.ask_peers._SECONDS", 300.0)
    jmx = Blueprint("jmx", __name__)
    lacks_txids: list[bool] = []

    @jmx.get("/jmx")
    def get_jmx() -> object:
        txids = '{"LastAppliedOrWrittenTxId": "1009", "MostRecentCheckpointTxId": "1000"}'
        if lacks_txids and "get" in request.args:
            return jsonify({"error": "not allowed"}), 403
        # the NameNode has not written any transaction since its start
        return jsonify(
            {"beans": [{"State": "standby", "LastWrittenTransactionId": 9, "JournalTransactionInfo": txids}]}
        )

    @jmx.get("/refusing/status")
    def refuse() -> object:
        return jsonify({"error": "not now"}), 503

    fine = ProbeResult(True, "fine")
    state = health_blueprint(status=lambda: as_json(daemon_state()), live=lambda: fine, ready=lambda: fine)
    gone = free_port()
    with HttpServer(create_application(state, jmx), "127.0.0.1", 0) as server:
        peers = [
            Peer(server.url, "daemon"),
            Peer(server.url, "namenode"),
            Peer(f"{server.url}/nothing", "daemon"),
            Peer(f"{server.url}/refusing", "daemon"),
            Peer(f"http://127.0.0.1:{gone}", "daemon"),
            Peer("nonsense", "daemon"),
        ]
        daemon, namenode, nothing, refusing, silent, nonsense = ask_peers(peers)
        lacks_txids.append(True)
        (without_txids,) = ask_peers([peers[1]])
    assert daemon.status is not None
    assert daemon.status["role"] == "standby"
    assert page_with([namenode]).page().panels[0].rows[0][4] == PageCell("1,009")
    assert (without_txids.error, without_txids.last_txid, without_txids.beans) == ("", None, namenode.beans)
    assert "HTTP 404" in nothing.error
    assert "HTTP 503" in refusing.error
    assert "no answer" in silent.error
    assert nonsense.error


@pytest.mark.parametrize("faulty", ["a", "b"])
def test_cluster_with_a_faulty_configuration_is_shown_until_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], faulty: str
) -> None:
    monkeypatch.setattr("console.cluster_page.SECONDS", 0.0)
    monkeypatch.setattr(
        "checkpointer.cli.console_clusters.ask_peers", lambda peers: [PeerAnswer(each, error="none") for each in peers]
    )
    folders = {name: tmp_path / name for name in ("a", "b")}
    for name, folder in folders.items():
        write_site(folder, {"fs.defaultFS": f"hdfs://{name}:8020"}, "core-site.xml")
    sound = (folders[faulty] / "core-site.xml").read_text()
    (folders[faulty] / "core-site.xml").write_text(sound.replace("8020", "no-port"))
    page = ClusterPage(console_clusters(list(folders.values())))
    assert f"warning: the configuration in {folders[faulty]} is faulty: " in capsys.readouterr().err
    found = query(page)
    broken, other = sorted(found.panels, key=lambda panel: bool(panel.rows))
    assert broken.title == str(folders[faulty])
    assert "fs.defaultFS" in broken.text
    assert {row[1].text for row in other.rows} == {"NameNode", "Daemon"}
    fault = next(each for each in found.attention if each.title.startswith(f"{broken.title}: "))
    assert (fault.level, fault.text) == (Level.FAULT, broken.text)
    assert str(folders[faulty]) in fault.next_step
    (folders[faulty] / "core-site.xml").write_text(sound)
    query(page)
    found = query(page)
    assert [panel.text for panel in found.panels] == ["", ""]
    assert [panel.rows[0][0].text for panel in found.panels] == ["a:9870", "b:9870"]
    assert not any("cannot be queried" in each.title for each in found.attention)
    assert [panel.title for panel in found.panels] == [f"{name}:9870 ({folder})" for name, folder in folders.items()]
    assert found.cluster == ", ".join(panel.title for panel in found.panels)


def test_console_does_not_start_without_a_usable_configuration(tmp_path: Path) -> None:
    folders = [write_site(tmp_path / name, {"fs.defaultFS": "file:///"}) for name in ("a", "b")]
    with pytest.raises(ConfigurationError, match="does not name the NameNode's host"):
        console_clusters(folders)


def test_console_command_serves_several_clusters_until_sigterm(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        addresses = {"dfs.namenode.http-address": f"127.0.0.1:{free_port()}", "dfs.nameservices": f"ns-{name}"}
        write_site(tmp_path / name, {"fs.defaultFS": f"hdfs://127.0.0.1:{free_port()}", **addresses})
    words = [f"--conf={tmp_path / name}" for name in ("a", "b")]
    command = [sys.executable, "-m", "checkpointer", "console", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            deadline = time.monotonic() + 600
            while "cannot be reached" not in (text := text_of(requests.get(url, timeout=600).text)):
                assert time.monotonic() < deadline
            assert f"({tmp_path / 'a'})" in text
            assert f"({tmp_path / 'b'})" in text
            assert "Good Nothing needs" not in text
            foreign = requests.get(url, headers={"Host": "foreign.example"}, timeout=600)
            assert foreign.status_code == 403
            assert "an address or name of its host" in foreign.text
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
