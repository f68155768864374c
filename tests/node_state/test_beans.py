from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hadoop_common.errors import HdfsError
from node_state.beans import (
    NodeFacts,
    checkpointer_bean,
    daemon_beans,
    fs_namesystem_bean,
    namenode_status_bean,
    secondary_namenode_bean,
)
from node_state.state import CheckpointRecord, NodeState, RoleDetails, TargetState, as_json
from servlets.application import create_application
from servlets.jmx import Bean, jmx_blueprint

FACTS = NodeFacts(
    software_version="1.2.3",
    started_at=1000.5,
    security_enabled=True,
    namenode="nn1.example.org:8020",
    address="snn.example.org:9868",
    hostname="snn.example.org",
    checkpoint_directories=["file:///data/1", "file:///data/2"],
    edits_directories=["file:///data/1"],
    compile_info="2024-01-01 by me from main",
)
STATE = NodeState(
    role="secondary",
    image_txid=100,
    journal_txid=130,
    transactions_behind=30,
    checkpoint_at=2000.25,
    seconds_since_checkpoint=12.5,
    targets=(TargetState(address="nn1:9870", result="SUCCESS"),),
    record=CheckpointRecord(saved_at=2000.25, last_seconds={"load": 1.0}),
)
BEANS = [
    Bean("Hadoop:service=NameNode,name=FSNamesystem", "FSNamesystem", {"tag.HAState": "active", "Missing": None}),
    Bean("Hadoop:service=NameNode,name=NameNodeInfo", "org.x.NameNode", {"ClusterId": "CID", "a b": 1, "name": "x"}),
    Bean("java.lang:type=Memory", "sun.management.MemoryImpl", {}),
]


@pytest.fixture
def client():
    return create_application(jmx_blueprint(lambda: BEANS)).test_client()


def found(client, **query: str) -> list[str]:
    answer = client.get("/jmx", query_string=query)
    assert answer.status_code == 200
    return [bean["name"] for bean in answer.json["beans"]]


def test_jmx_returns_all_beans(client):
    answer = client.get("/jmx")
    assert answer.headers["Content-Type"] == "application/json; charset=utf8"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.json["beans"][0] == {
        "name": "Hadoop:service=NameNode,name=FSNamesystem",
        "modelerType": "FSNamesystem",
        "tag.HAState": "active",
        "Missing": None,
    }
    assert answer.json["beans"][1] == {"name": BEANS[1].name, "modelerType": "org.x.NameNode", "ClusterId": "CID"}


def test_json_is_formatted_as_by_jackson(client):
    text = client.get("/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem").text
    assert '"tag.HAState" : "active"' in text


def test_beans_are_selected_by_query(client):
    assert found(client, qry="Hadoop:service=NameNode,name=FSNamesystem") == [BEANS[0].name]
    assert found(client, qry="Hadoop:name=FSNamesystem,service=NameNode") == [BEANS[0].name]
    assert found(client, qry="Hadoop:*") == [BEANS[0].name, BEANS[1].name]
    assert found(client, qry="Hadoop:service=NameNode,name=*Info") == [BEANS[1].name]
    assert found(client, qry="") == [bean.name for bean in BEANS]
    assert found(client, qry="Hadoop:service=DataNode,*") == []


def test_get_returns_one_attribute(client):
    answer = client.get("/jmx?get=Hadoop:service=NameNode,name=NameNodeInfo::ClusterId")
    assert answer.status_code == 200
    assert answer.json == {"beans": [{"name": BEANS[1].name, "modelerType": "org.x.NameNode", "ClusterId": "CID"}]}


@pytest.mark.parametrize("attribute", ["Nonsense", "Missing"])
def test_missing_attribute_is_404(client, attribute):
    answer = client.get(f"/jmx?get=Hadoop:service=NameNode,name=FSNamesystem::{attribute}")
    assert answer.status_code == 404
    (bean,) = answer.json["beans"]
    assert bean["result"] == "ERROR"
    assert bean["message"] == f"No attribute with name {attribute} was found."


def test_attribute_of_a_missing_bean_returns_no_beans(client):
    assert found(client, get="Hadoop:service=X::Y") == []


def test_get_of_several_beans_stops_at_the_first_without_the_attribute(client):
    answer = client.get("/jmx?get=Hadoop:*::tag.HAState")
    assert answer.status_code == 404
    assert [bean.get("tag.HAState") for bean in answer.json["beans"]] == ["active", None]


@pytest.mark.parametrize("query", ["get=x", "get=a::b::c", "get=a::", "get=", "get=a::b", "qry=x", "qry=a:b=c,b=d"])
def test_malformed_query_is_400(client, query):
    answer = client.get("/jmx?" + query)
    assert answer.status_code == 400
    assert answer.json["result"] == "ERROR"
    assert answer.json["message"]


def test_empty_last_part_of_get_is_ignored(client):
    assert client.get("/jmx?get=Hadoop:service=NameNode,name=NameNodeInfo::ClusterId::").status_code == 200


def test_only_the_get_method_is_allowed(client):
    assert client.post("/jmx").status_code == 405
    assert client.open("/jmx", method="TRACE").status_code == 405


@pytest.mark.parametrize(
    ("fault", "expected_message"), [(HdfsError("journal is away"), "journal"), (KeyError("x"), "its log")]
)
def test_fault_of_the_daemon_is_500(fault, expected_message):
    def broken():
        raise fault

    answer = create_application(jmx_blueprint(broken)).test_client().get("/jmx")
    assert answer.status_code == 500
    assert expected_message in answer.json["message"]


def test_secondary_namenode_bean():
    bean = secondary_namenode_bean(STATE, FACTS)
    assert bean.name == "Hadoop:service=SecondaryNameNode,name=SecondaryNameNodeInfo"
    assert bean.attributes == {
        "HostAndPort": "nn1.example.org:8020",
        "SecurityEnabled": True,
        "StartTime": 1000500,
        "LastCheckpointTime": 2000250,
        "LastCheckpointDeltaMs": 12500,
        "CheckpointDirectories": ["file:///data/1", "file:///data/2"],
        "CheckpointEditlogDirectories": ["file:///data/1"],
        "CompileInfo": "2024-01-01 by me from main",
        "SoftwareVersion": "1.2.3",
    }


def test_secondary_namenode_bean_before_the_first_checkpoint():
    attributes = secondary_namenode_bean(replace(STATE, checkpoint_at=None), FACTS).attributes
    assert (attributes["LastCheckpointTime"], attributes["LastCheckpointDeltaMs"]) == (0, -1)


def test_fs_namesystem_bean_of_a_standby():
    state = replace(STATE, details=RoleDetails(tailing_lag_seconds=1.5))
    attributes = fs_namesystem_bean(state, FACTS, ha_state="standby").attributes
    assert attributes == {
        "tag.Context": "dfs",
        "tag.HAState": "standby",
        "tag.Hostname": "snn.example.org",
        "TransactionsSinceLastCheckpoint": 30,
        "TransactionsSinceLastLogRoll": 0,
        "LastWrittenTransactionId": 130,
        "LastCheckpointTime": 2000250,
        "MillisSinceLastLoadedEdits": 1500,
    }


def test_fs_namesystem_bean_of_an_active_namenode():
    state = replace(STATE, transactions_behind=15, details=RoleDetails(transactions_since_roll=5))
    attributes = fs_namesystem_bean(state, FACTS, ha_state="active").attributes
    assert attributes["TransactionsSinceLastCheckpoint"] == 15
    assert attributes["TransactionsSinceLastLogRoll"] == 5


def test_unknown_txids_are_omitted():
    attributes = fs_namesystem_bean(
        NodeState(role="standby", error="the journal is away"), FACTS, ha_state="standby"
    ).attributes
    assert "LastWrittenTransactionId" not in attributes
    assert "TransactionsSinceLastCheckpoint" not in attributes


def test_checkpointer_bean_contains_the_whole_status():
    attributes = checkpointer_bean(replace(STATE, seconds_since_checkpoint=float("nan")), FACTS).attributes
    assert attributes["ImageTxid"] == 100
    assert attributes["LastSeconds"] == {"load": 1.0}
    assert attributes["Targets"] == as_json(STATE.targets)
    assert attributes["StartTime"] == 1000500
    assert attributes["SecondsSinceCheckpoint"] is None


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("secondary", {"CheckpointerStatus", "SecondaryNameNodeInfo"}),
        ("standby", {"CheckpointerStatus", "FSNamesystem", "NameNodeStatus"}),
        ("backup", {"CheckpointerStatus", "FSNamesystem", "NameNodeStatus"}),
    ],
)
def test_beans_of_each_role_are_served(role, expected):
    client = create_application(jmx_blueprint(lambda: daemon_beans(replace(STATE, role=role), FACTS))).test_client()
    answer = client.get("/jmx")
    assert {bean["name"].split("name=")[1] for bean in answer.json["beans"]} == expected
    json.loads(answer.text)


def test_namenode_status_bean():
    attributes = namenode_status_bean(FACTS, ha_state="active").attributes
    assert attributes["State"] == "active"
    assert attributes["NNRole"] == "NameNode"
    assert attributes["HostAndPort"] == "snn.example.org:9868"
