"""`checkpointer config`: every key with its status, value and source, and all faults together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.config_key import KeyStatus
from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.catalogue import CATALOGUE, PREFIXES, entry_of
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.keys import DEFAULTS, KEYS
from site_config.report import likely_role, report
from tests.cli_runner import run_cli
from tests.site_files import write_site

ROOT = Path(__file__).parents[3]
SINGLE = {"fs.defaultFS": "hdfs://nn.example.org:8020"}
HA = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "nn1,nn2",
    "dfs.namenode.rpc-address.ns.nn1": "one:8020",
    "dfs.namenode.rpc-address.ns.nn2": "two:8020",
    "dfs.namenode.shared.edits.dir": "/shared",
}


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "hdfs")


def keys_of(folder: Path, values: dict[str, str], *options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    outcome = run_cli("config", "--conf", write_site(folder, values), "--json", *options)
    assert outcome.code == code, outcome.err
    return {row["key"]: row for row in json.loads(outcome.out)["keys"]}


def settings(values: dict[str, str]) -> Configuration:
    return Configuration.from_mapping(values, {"USER": "hdfs"})


def test_every_key_is_listed_with_its_status_and_default(tmp_path: Path) -> None:
    rows = keys_of(tmp_path, SINGLE)
    assert [key.name for key in CATALOGUE if key.name not in rows] == []
    for key in CATALOGUE:
        ignored = key.status is KeyStatus.IGNORED
        assert rows[key.name]["status"] == ("ignored" if ignored else "supported")
        assert rows[key.name]["default"] == key.default
        assert bool(rows[key.name]["reason"]) == ignored
    assert rows["dfs.namenode.checkpoint.period"]["source"] == "(default)"
    assert rows["dfs.namenode.http-address"]["defaultHadoop2"] == "0.0.0.0:50070"
    assert rows["dfs.image.parallel.load"]["defaultHadoop2"] is None


@pytest.mark.parametrize(("period", "verdict"), [("60", "valid: the secondary role can"), ("soon", "not valid: ")])
def test_last_line_tells_whether_the_configuration_is_valid(tmp_path: Path, period: str, verdict: str) -> None:
    outcome = run_cli("config", "--conf", write_site(tmp_path, {**SINGLE, "dfs.namenode.checkpoint.period": period}))
    *_, counts, last = outcome.out.splitlines()
    assert last.startswith(verdict)
    assert " 0 refused, " in counts


def test_keys_are_listed_with_value_and_source(tmp_path: Path) -> None:
    values = {**SINGLE, "fs.checkpoint.period": "30m", "dfs.namenode.checkpoint.dir": "${base}/a", "base": "/data"}
    rows = keys_of(tmp_path, values)
    period = rows["dfs.namenode.checkpoint.period"]
    assert (period["value"], period["alias"]) == ("30m", "fs.checkpoint.period")
    assert period["source"].endswith("hdfs-site.xml")
    assert rows["dfs.namenode.checkpoint.dir"]["value"] == "/data/a"


def test_key_with_a_suffix_overrides_the_general_key(tmp_path: Path) -> None:
    name = "dfs.namenode.name.dir"
    rows = keys_of(tmp_path, {**HA, "dfs.ha.namenode.id": "nn1", name: "/a", f"{name}.ns.nn1": "/b"})
    assert rows[name]["overriddenBy"] == f"{name}.ns.nn1"
    assert rows[f"{name}.ns.nn1"]["overriddenBy"] == ""
    assert rows["dfs.namenode.rpc-address.ns.nn2"]["value"] == "two:8020"


def test_key_of_another_namenode_is_not_used(tmp_path: Path) -> None:
    name = "dfs.namenode.name.dir"
    rows = keys_of(tmp_path, {**HA, "dfs.ha.namenode.id": "nn1", f"{name}.ns.nn2": "/b"})
    assert rows[name]["source"] == "(default)"
    assert rows[f"{name}.ns.nn2"]["value"] == "/b"


def test_unknown_checkpoint_keys_are_shown(tmp_path: Path) -> None:
    values = {**SINGLE, "dfs.namenode.checkpoint.perod": "1h", "dfs.image.whatever": "1", "dfs.blocksize": "1m"}
    rows = keys_of(tmp_path, values)
    assert rows["dfs.namenode.checkpoint.perod"]["status"] == "unknown"
    assert "did you mean dfs.namenode.checkpoint.period?" in rows["dfs.namenode.checkpoint.perod"]["reason"]
    assert rows["dfs.image.whatever"]["status"] == "unknown"
    assert "dfs.blocksize" not in rows


def test_all_faults_are_reported_together(tmp_path: Path) -> None:
    values = {
        **SINGLE,
        "dfs.namenode.checkpoint.period": "soon",
        "dfs.namenode.checkpoint.txns": "0",
        "hadoop.security.authentication": "ldap",
        "hadoop.rpc.socket.factory.class.default": "org.apache.hadoop.net.SocksSocketFactory",
    }
    outcome = run_cli("config", "--conf", write_site(tmp_path, values), "--json", "--role", "secondary")
    assert outcome.code == 2
    answer = json.loads(outcome.out)
    assert not answer["valid"]
    assert {fault["key"] for fault in answer["faults"]} == values.keys() - SINGLE.keys()
    assert all(key in outcome.err for key in values.keys() - SINGLE.keys())
    rows = {row["key"]: row for row in answer["keys"]}
    assert rows["hadoop.security.authentication"]["status"] == "refused"
    assert rows["dfs.namenode.checkpoint.period"]["status"] == "supported"


def test_keys_of_a_quorum_journal(tmp_path: Path) -> None:
    values = {**HA, "dfs.namenode.shared.edits.dir": "qjournal://a:8485;b:8485;c/ns"}
    rows = keys_of(tmp_path, values, "--role", "standby")
    assert rows["dfs.namenode.shared.edits.dir"]["status"] == "supported"
    values |= {
        "dfs.namenode.edits.qjournals.resolution-enabled": "true",
        "dfs.qjournal.select-input-streams.timeout.ms": "0",
        "dfs.qjournal.http.read.timeout.ms": "soon",
        "dfs.ha.tail-edits.qjm.rpc.max-txns": "0",
        "checkpointer.standby.lag-alarm": "-1",
    }
    outcome = run_cli("config", "--conf", write_site(tmp_path, values), "--json", "--role", "standby")
    answer = json.loads(outcome.out)
    assert {fault["key"] for fault in answer["faults"]} == values.keys() - HA.keys()
    rows = {row["key"]: row for row in answer["keys"]}
    assert rows["dfs.namenode.edits.qjournals.resolution-enabled"]["status"] == "refused"


def test_unknown_kind_of_journal_is_refused_for_the_standby(tmp_path: Path) -> None:
    values = {**HA, "dfs.namenode.shared.edits.dir": "cassandra://zk1/ledgers"}
    rows = keys_of(tmp_path, values, "--role", "standby", code=2)
    assert rows["dfs.namenode.shared.edits.dir"]["status"] == "refused"


def test_unreadable_configuration_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    outcome = run_cli("config", "--conf", tmp_path, "--json")
    assert outcome.code == 2
    assert json.loads(outcome.out)["faults"]
    assert "Traceback" not in outcome.err


def test_table_output(tmp_path: Path) -> None:
    outcome = run_cli("config", "--conf", write_site(tmp_path, {**SINGLE, "fs.checkpoint.dir": "/x"}))
    assert outcome.code == 0
    assert "role secondary" in outcome.out
    assert "dfs.namenode.checkpoint.max-retries" in outcome.out
    assert "as fs.checkpoint.dir" in outcome.out
    assert "deprecated" in outcome.err
    few = run_cli("config", "--conf", tmp_path, "--set").out
    assert "as fs.checkpoint.dir" in few
    assert "dfs.namenode.checkpoint.max-retries" not in few


def test_secrets_are_hidden(tmp_path: Path) -> None:
    rows = keys_of(tmp_path, {**SINGLE, "dfs.namenode.bookkeeperjournal.digestPw": "swordfish"})
    assert rows["dfs.namenode.bookkeeperjournal.digestPw"]["value"] == "(hidden)"


def test_values_with_circular_variables(tmp_path: Path) -> None:
    values = {
        **SINGLE,
        "dfs.namenode.checkpoint.dir": "${dfs.namenode.checkpoint.dir}",
        "dfs.image.odd": "${dfs.image.even}",
        "dfs.image.even": "x${dfs.image.odd}",
    }
    rows = keys_of(tmp_path, values, code=2)
    assert rows["dfs.image.odd"]["value"] == "(variables refer to each other)"


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (SINGLE, Role.SECONDARY),
        (HA, Role.STANDBY),
        ({**SINGLE, "dfs.namenode.shared.edits.dir": "/shared"}, Role.STANDBY),
        ({"dfs.nameservices": "a,b"}, Role.SECONDARY),
        ({"dfs.nameservices": "a,b", "dfs.ha.namenodes.b": "n1,n2"}, Role.STANDBY),
        ({**SINGLE, "dfs.nameservices": "a"}, Role.SECONDARY),
    ],
)
def test_likely_role_of_a_configuration(values: dict[str, str], role: Role) -> None:
    assert likely_role(settings(values)) is role


def test_refused_key_prevents_the_start_of_the_daemon() -> None:
    values = {**SINGLE, "hadoop.rpc.socket.factory.class.default": "a.B"}
    with pytest.raises(ConfigurationError, match="is refused"):
        CheckpointConfig.from_configuration(settings(values), Role.SECONDARY)
    found = report(settings(values), Role.SECONDARY)
    assert [fault.key for fault in found.faults] == ["hadoop.rpc.socket.factory.class.default"]


def test_catalogue_of_keys_is_consistent() -> None:
    names = [key.name for key in CATALOGUE]
    assert len(set(names)) == len(names)
    supported = {key.name for key in KEYS}
    assert DEFAULTS.keys() <= supported
    assert all(key.status is KeyStatus.SUPPORTED for key in KEYS)
    assert entry_of("dfs.namenode.name.dir.ns.nn1", ["ns.nn1", "ns"]) is entry_of("dfs.namenode.name.dir")
    assert entry_of("dfs.namenode.edits.journal-plugin.mine") is entry_of("dfs.namenode.edits.journal-plugin")
    assert entry_of("dfs.blocksize") is None
    assert all(not prefix.startswith(other) for prefix in PREFIXES for other in PREFIXES if prefix != other)


def test_unknown_nameservice_is_the_only_fault(tmp_path: Path) -> None:
    """Keys of a nameservice are not reported as missing while the nameservice is unknown."""
    values = {
        "dfs.nameservices": "a,b",
        **{f"dfs.ha.namenodes.{each}": "nn1,nn2" for each in "ab"},
        **{f"dfs.namenode.rpc-address.{each}.{name}": "198.51.100.9:8020" for each in "ab" for name in ("nn1", "nn2")},
        **{f"dfs.namenode.shared.edits.dir.{each}": f"/shared/{each}" for each in "ab"},
    }
    outcome = run_cli("config", "--conf", write_site(tmp_path, values), "--role", "standby", "--json")
    assert {fault["key"] for fault in json.loads(outcome.out)["faults"]} == {"dfs.nameservice.id"}


def test_disabled_checkpoints_are_a_warning(tmp_path: Path) -> None:
    outcome = run_cli("config", "--conf", write_site(tmp_path, {**HA, "dfs.ha.standby.checkpoints": "false"}))
    assert outcome.code == 0
    assert "warning: dfs.ha.standby.checkpoints is false" in outcome.err


def test_hint_for_journal_nodes_that_commas_separate(tmp_path: Path) -> None:
    values = {**HA, "dfs.namenode.shared.edits.dir": "qjournal://a:8485,b:8485,c:8485/ns"}
    outcome = run_cli("config", "--conf", write_site(tmp_path, values))
    assert outcome.code == 2
    assert "semicolons" in outcome.err
