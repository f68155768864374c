"""`checkpointer check` against a NameNode and a daemon that answer over real sockets."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from checkpointer.checks.gather import Cluster, gather
from checkpointer.checks.registry import CHECKS, FactGroup
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import open_lock_backend
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name, segment_name
from hadoop_common.storage_info import format_version
from hadoop_common.storage_lock import StorageLock, storage_user
from hadoop_rpc.errors import AccessControlError, StandbyError
from image_format.md5_file import md5_of_file, write_md5_file
from image_format.reader import ImageFile
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.leading_process import leading_process
from tests.checkpointer.quorum_support import Quorum, write_recorded
from tests.checkpointer.schemas import valid
from tests.cli_runner import Outcome, fingerprint, run_cli
from tests.failover.failover_support import LONG_SESSIONS, LONGEST_SESSION
from tests.namenode_stub.namenode_double import ANY_CALL, NamenodeDouble
from tests.namenode_stub.recorded_namespace import BASIC_FILES
from tests.servlets.support import INFO, NEW_TXID, OLD_IMAGE, OLD_TXID, OTHER_INFO, SEGMENT
from tests.site_files import write_site
from tests.web_server import JsonServer, QuietHandler, json_server

DAEMON = {
    "/health/live": (200, '{"state": "ok", "message": "running"}'),
    "/health/ready": (200, '{"state": "ok", "message": "0 behind"}'),
    "/status": (200, '{"role": "secondary", "failures": 0, "lastError": "", "lastErrorAt": null}'),
}
SESSION_TIMEOUT = "ha.zookeeper.session-timeout.ms"
# the recorded image is too old for the default thresholds
THRESHOLDS = ("--warning", "age=100000d", "--critical", "age=100000d")


@dataclass
class Site:
    """A NameNode, a daemon, a formatted storage directory, and their common configuration."""

    root: Path
    namenode: NamenodeDouble
    daemon: JsonServer
    values: dict[str, str]

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    def run(self, *options: str) -> Outcome:
        # a busy machine may be slow, and with a cold cache the check compiles kernels
        patience = () if "--timeout" in options else ("--timeout", "600")
        return run_cli("check", "--conf", write_site(self.root / "conf", self.values), *options, *patience)

    def answer(self, *options: str) -> dict[str, Any]:
        """Return the JSON output after validating its documented shape."""
        outcome = self.run("--json", *THRESHOLDS, *options)
        answer: dict[str, Any] = valid("check.json")(json.loads(outcome.out))
        assert outcome.code == answer["exitCode"]
        return answer

    def states(self, *options: str) -> dict[str, str]:
        answer = self.answer(*options)
        return {check["name"]: check["state"] for check in answer["checks"]}

    def reported(self, name: str, *options: str) -> dict[str, Any]:
        (found,) = self.answer("--only", name, *options)["checks"]
        assert found["name"] == name
        return dict(found)


def make_storage(root: Path) -> None:
    current = root / "current"
    current.mkdir(parents=True)
    for path in (OLD_IMAGE, OLD_IMAGE.with_name(OLD_IMAGE.name + ".md5")):
        shutil.copy(path, current)
    (current / "VERSION").write_bytes(format_version(INFO, datetime.now(UTC)))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with NamenodeDouble(tmp_path / "namenode", BASIC_FILES) as namenode, json_server(dict(DAEMON)) as daemon:
        namenode.roll()
        namenode.info, namenode.written = INFO, NEW_TXID
        values = {
            "fs.defaultFS": f"hdfs://{namenode.addresses().rpc}",
            "dfs.namenode.http-address": namenode.addresses().http,
            "dfs.namenode.secondary.http-address": daemon.url.removeprefix("http://"),
            "dfs.namenode.checkpoint.dir": (tmp_path / "storage").as_uri(),
            "hadoop.user.name": "hdfs",
            "hadoop.tmp.dir": str(tmp_path),
        }
        make_storage(tmp_path / "storage")
        yield Site(tmp_path, namenode, daemon, values)


def test_all_checks_are_ok(site: Site) -> None:
    before = fingerprint(site.storage)
    outcome = site.run(*THRESHOLDS, "--deep")
    assert (outcome.code, outcome.err) == (0, "")
    first, *lines = outcome.out.splitlines()
    summary, _, metrics = first.partition(" | ")
    assert summary.startswith(f"CHECKPOINTER OK - {len(CHECKS)} checks")
    values = dict(metric.split("=", 1) for metric in metrics.split())
    assert values["age"].split(";")[1:] == ["8640000000", "8640000000"]
    assert values["transactions"].startswith(f"{NEW_TXID - OLD_TXID};")
    assert values["space"].partition("B;")[2]
    assert [line.partition(":")[0] for line in lines] == [f"[OK] {check.name}" for check in CHECKS]
    assert fingerprint(site.storage) == before


def test_json_output(site: Site) -> None:
    outcome = site.run("--json", *THRESHOLDS)
    answer = json.loads(outcome.out)
    assert (answer["state"], answer["exitCode"], answer["role"]) == ("OK", 0, "secondary")
    storage = next(check for check in answer["checks"] if check["name"] == "storage")
    assert any(md5_of_file(OLD_IMAGE).hex() in detail for detail in storage["details"])
    assert storage["metrics"] == [
        {"name": "image", "value": OLD_IMAGE.stat().st_size, "unit": "B", "warning": None, "critical": None}
    ]


def test_leader_by_a_lock_file(site: Site, tmp_path: Path) -> None:
    site.values["checkpointer.leader.lock"] = (tmp_path / "lock").as_uri()
    found = site.reported("leader")
    assert (found["state"], found["summary"].partition(" (")[0]) == ("WARNING", "no daemon is the leader")
    with leading_process(tmp_path / "lock"):
        found = site.reported("leader")
        assert found["state"] == "OK"
        assert found["summary"].startswith("standby on b (process 2, HTTP b:9870) has been the leader for ")


def test_leader_by_a_lock_in_zookeeper(site: Site, tmp_path: Path) -> None:
    """Regardless of the selected checks, the check reads the znode that the daemon of this configuration uses."""
    if MISSING:
        pytest.skip(MISSING)
    with ZooKeeperServer(tmp_path / "zookeeper", LONG_SESSIONS) as zookeeper:
        more = {"ha.zookeeper.quorum": zookeeper.hosts, SESSION_TIMEOUT: f"{1000 * LONGEST_SESSION:.0f}"}
        site.values |= {**more, "checkpointer.leader.required": "true"}
        loaded = Configuration.load(write_site(tmp_path / "conf", site.values), {})
        settings = CheckpointConfig.from_configuration(loaded, Role.SECONDARY).leader
        leader = Leader(host="b", pid=2, role="secondary", address="b:9868", since=1.0)
        keeper = open_lock_backend(settings)
        assert keeper is not None
        with closing(keeper):
            keeper.ask(leader)
            assert site.reported("leader")["summary"].startswith(f"{leader} has been the leader for ")
        assert site.reported("leader")["state"] == "WARNING"
    site.values[SESSION_TIMEOUT] = "3000"
    away = site.run("--only", "leader", "--timeout", "10")
    assert (away.code, away.err) == (2, "")
    assert "checkpoints stop without it" in away.out


def test_only_the_selected_checks_run(site: Site) -> None:
    assert site.states("--only", "space", "--only", "storage") == {"storage": "OK", "space": "OK"}
    assert site.namenode.steps == []
    assert site.daemon.asked == []


def test_old_checkpoint_is_critical(site: Site, closed_port: int) -> None:
    site.values["dfs.namenode.http-address"] = f"127.0.0.1:{closed_port}"
    os.utime(site.storage / "current" / OLD_IMAGE.name, (0, 0))
    outcome = site.run("--only", "age")
    assert outcome.code == 2
    assert outcome.out.startswith("CHECKPOINTER CRITICAL - age: last checkpoint ")
    assert "  next: Check the daemon's log" in outcome.out
    assert site.run("--only", "age", "--critical", "age=100000d").code == 1


def test_age_of_the_image_is_read_from_jmx(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test data have the shape of Hadoop's own /jmx. The age is the same if the NameNode's clock is wrong."""
    bean = {"name": "Hadoop:service=NameNode,name=FSNamesystem", "LastCheckpointTime": 1000}
    with json_server({"/jmx": (200, json.dumps({"beans": [bean]}))}) as jmx:
        site.values["dfs.namenode.http-address"] = jmx.url.removeprefix("http://")
        assert site.run("--only", "age").code == 2
        monkeypatch.setattr(QuietHandler, "date_time_string", lambda *_: formatdate(6, usegmt=True))
        found = site.reported("age")
    assert (found["state"], found["metrics"][0]["value"] < 3600) == ("WARNING", True)
    assert "behind this host's clock" in found["summary"]


def test_checks_while_the_namenode_is_down(site: Site, closed_port: int) -> None:
    site.values["fs.defaultFS"] = f"hdfs://127.0.0.1:{closed_port}"
    site.values["dfs.namenode.http-address"] = f"127.0.0.1:{closed_port}"
    found = site.states()
    assert found == {check.name: "OK" for check in CHECKS} | {
        "namenode": "CRITICAL",
        "version": "UNKNOWN",
        "transactions": "UNKNOWN",
        "edits": "UNKNOWN",
    }


def test_namenode_without_response_is_unknown(site: Site) -> None:
    """The NameNode accepts the connection but does not respond within the time limit."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.values["fs.defaultFS"] = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
        assert site.reported("transactions", "--timeout", "0.5")["state"] == "UNKNOWN"


def test_failed_rpc_is_critical(site: Site) -> None:
    site.namenode.faults[ANY_CALL] = StandbyError("read is not supported in state standby")
    found = site.reported("namenode")
    assert found["state"] == "CRITICAL"
    assert "read is not supported" in found["details"][0]


def test_hint_for_a_user_who_may_not_call_the_namenode(site: Site) -> None:
    site.namenode.faults[ANY_CALL] = AccessControlError("Access denied for user erin. Superuser privilege is required")
    found = site.reported("namenode")
    assert found["state"] == "UNKNOWN"
    assert "superuser" in found["hint"]


def test_namenode_of_another_cluster_is_critical(site: Site) -> None:
    site.namenode.info = OTHER_INFO
    found = site.reported("version")
    assert found["state"] == "CRITICAL"
    assert "CID-other" in found["summary"]


def test_gap_in_the_edits_is_critical(site: Site) -> None:
    (segment,) = (each.path for each in site.namenode.segments())
    segment.rename(segment.with_name(segment_name(OLD_TXID + 5, NEW_TXID)))
    found = site.reported("edits")
    assert (found["state"], found["metrics"][0]["value"]) == ("CRITICAL", 4)
    assert f"{OLD_TXID + 1}-{OLD_TXID + 4}" in found["summary"]


def test_damaged_image_is_critical(site: Site) -> None:
    path = site.storage / "current" / OLD_IMAGE.name
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    assert site.reported("storage")["state"] == "CRITICAL"


def test_damaged_image_with_a_matching_digest_is_found_by_deep(site: Site) -> None:
    path = site.storage / "current" / OLD_IMAGE.name
    content = bytearray(path.read_bytes())
    with ImageFile.open(path) as opened:
        position = opened.place("INODE_DIR").base
    content[position + 1 : position + 5] = b"\xff" * 4
    path.write_bytes(content)
    write_md5_file(path, md5_of_file(path))
    assert site.reported("storage")["state"] == "OK"
    assert site.reported("storage", "--deep")["state"] == "CRITICAL"


def test_missing_storage_is_a_warning(site: Site) -> None:
    shutil.rmtree(site.storage)
    assert site.reported("storage")["state"] == "WARNING"
    assert site.reported("space")["state"] == "OK"


def test_missing_daemon_is_critical(site: Site, closed_port: int) -> None:
    site.values["dfs.namenode.secondary.http-address"] = f"127.0.0.1:{closed_port}"
    assert site.reported("daemon")["state"] == "CRITICAL"


def test_another_server_at_the_address_of_the_daemon(site: Site) -> None:
    site.daemon.answers.clear()
    assert site.reported("daemon")["state"] == "CRITICAL"
    site.daemon.answers |= {**DAEMON, "/status": (500, "oops")}
    assert site.reported("daemon")["state"] == "UNKNOWN"
    site.daemon.answers["/health/ready"] = (503, '{"message": "3 periods late"}')
    assert site.reported("daemon")["state"] == "WARNING"


def test_standby_checks_its_shared_edits(site: Site) -> None:
    shared = site.root / "shared"
    make_storage(shared)
    shutil.copy(SEGMENT, shared / "current" / SEGMENT.name)
    site.values |= {"dfs.namenode.shared.edits.dir": shared.as_uri(), "dfs.namenode.name.dir": site.storage.as_uri()}
    assert set(site.states().values()) == {"OK"}
    site.namenode.written = NEW_TXID + 3
    assert site.reported("edits")["state"] == "WARNING"
    (shared / "current" / SEGMENT.name).rename(shared / "current" / segment_name(OLD_TXID + 3, NEW_TXID))
    assert site.reported("edits")["state"] == "CRITICAL"
    shutil.rmtree(shared)
    assert site.reported("edits")["state"] == "UNKNOWN"


def test_standby_checks_its_journal_nodes(site: Site) -> None:
    with Quorum(site.root / "nodes") as quorum:
        quorum.format(INFO)
        source = site.root / "edits"
        source.mkdir()
        shutil.copy(SEGMENT, source / SEGMENT.name)
        write_recorded(quorum, INFO, source)
        site.values |= {"dfs.namenode.shared.edits.dir": quorum.uri, "dfs.namenode.name.dir": site.storage.as_uri()}
        epochs = quorum.settled_epochs()
        assert set(site.states().values()) == {"OK"}
        assert site.reported("journalnodes")["metrics"][0]["value"] == 3
        site.namenode.written = NEW_TXID + 3
        assert site.reported("edits")["state"] == "WARNING"
        site.namenode.written = NEW_TXID
        quorum.nodes[0].cut_off()
        found = site.reported("journalnodes")
        assert (found["state"], found["metrics"][0]["value"]) == ("WARNING", 2)
        assert site.reported("edits")["state"] == "OK"
        quorum.nodes[1].cut_off()
        assert site.reported("journalnodes")["state"] == "CRITICAL"
        assert "1 of 3 JournalNodes answer" in site.reported("edits")["summary"]
        for node in quorum.nodes[:2]:
            node.serve()
        assert quorum.settled_epochs() == epochs
        for node in quorum.nodes[:2]:
            node.node.format("ns1", replace(INFO, cluster_id="CID-other"), force=True)
        found = site.reported("journalnodes")
        assert found["state"] == "CRITICAL"
        assert "its journal belongs to another namespace" in found["details"][0]


@pytest.mark.parametrize(
    "options",
    [
        ("--only", "nothing"),
        ("--warning", "age"),
        ("--critical", "storage=1"),
        ("--warning", "space=much"),
        ("--unheard-of",),
        ("--timeout", "0"),
    ],
)
def test_wrong_usage_is_unknown(site: Site, options: tuple[str, ...]) -> None:
    outcome = site.run(*options)
    assert outcome.code == 3
    assert outcome.out == ""


def test_a_faulty_configuration_is_unknown(site: Site) -> None:
    site.values["dfs.namenode.checkpoint.period"] = "so|on"
    outcome = site.run()
    assert outcome.code == 3
    assert outcome.out.startswith("CHECKPOINTER UNKNOWN - ")
    assert "|" not in outcome.out.splitlines()[0]
    answer = json.loads(site.run("--json").out)
    assert (answer["state"], answer["exitCode"]) == ("UNKNOWN", 3)
    assert run_cli("check", "--conf", site.root / "nowhere").code == 3


def test_unreadable_configuration_is_unknown(tmp_path: Path) -> None:
    """Exit codes other than 0 to 3 have no meaning for a monitoring system."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    outcome = run_cli("check", "--conf", loop)
    assert (outcome.code, "Too many levels of symbolic links" in outcome.err) == (3, True)
    (tmp_path / "hdfs-site.xml").symlink_to(loop)
    outcome = run_cli("check", "--conf", tmp_path)
    assert (outcome.code, "Too many levels of symbolic links" in outcome.out) == (3, True), outcome


def test_journal_nodes_are_checked_without_a_namenode_address(tmp_path: Path) -> None:
    conf = write_site(tmp_path, {"dfs.namenode.shared.edits.dir": "qjournal://127.0.0.1:1/j1"})
    alone = run_cli("check", "--conf", conf, "--role", "standby", "--only", "journalnodes", "--timeout", "2")
    assert (alone.code, "0 of 1 answer" in alone.out) == (2, True), alone
    with_others = run_cli("check", "--conf", conf, "--role", "standby", "--only", "journalnodes", "--only", "age")
    assert (with_others.code, "dfs.namenode.rpc-address" in with_others.out) == (3, True), with_others


def test_daemon_check_names_cancellation_and_alarms(site: Site) -> None:
    held: dict[str, object] = {"role": "secondary", "alarms": ["the lake fails"]}
    held |= {"cancelled": {"reason": "maintenance", "secondsLeft": 90.0}}
    site.daemon.answers["/status"] = (200, json.dumps(held))
    found = site.reported("daemon")
    assert found["state"] == "WARNING"
    assert found["summary"] == "the lake fails; checkpoints are cancelled and blocked for 1 min 30 s: maintenance"


def _hold(root: str, ready: Any, done: Any) -> None:
    with StorageLock(Path(root)):
        ready.set()
        done.wait(600)


def test_lock_of_another_process_is_found(tmp_path: Path) -> None:
    assert storage_user(tmp_path) == ""
    processes = multiprocessing.get_context("spawn")
    ready, done = processes.Event(), processes.Event()
    other = processes.Process(target=_hold, args=(str(tmp_path), ready, done))
    other.start()
    try:
        assert ready.wait(600)
        assert storage_user(tmp_path).startswith(f"{other.pid}@")
    finally:
        done.set()
        other.join()
    (tmp_path / "in_use.lock").touch()
    assert storage_user(tmp_path) == ""


def test_free_space_of_a_directory_for_edits_is_read(site: Site, tmp_path: Path) -> None:
    edits = tmp_path / "edits"
    configuration = Configuration.from_mapping({**site.values, "dfs.namenode.checkpoint.edits.dir": str(edits)}, {})
    found = gather(Cluster.of(configuration, Role.SECONDARY, {FactGroup.STORAGE}), {FactGroup.STORAGE}, limit=600)
    assert [each.root for each in found.edits_directories] == [edits]
    assert found.edits_directories[0].free.value


def test_directories_for_images_and_for_edits_show_whether_the_others_lost_their_contents(
    site: Site, tmp_path: Path
) -> None:
    images, edits = tmp_path / "images", tmp_path / "edits"
    folders = {"dfs.namenode.checkpoint.dir": str(images), "dfs.namenode.checkpoint.edits.dir": str(edits)}
    configuration = Configuration.from_mapping({**site.values, **folders}, {})
    cluster = Cluster.of(configuration, Role.SECONDARY, {FactGroup.STORAGE})
    for present, absent in ((images, edits), (edits, images)):
        (present / "current").mkdir(parents=True)
        (present / "current" / image_name(OLD_TXID)).touch()
        found = gather(cluster, {FactGroup.STORAGE}, limit=600)
        faults = {each.root: each.listing.error for each in (*found.directories, *found.edits_directories)}
        assert f"{present} contains images: its file system may not be mounted" in faults[absent]
        shutil.rmtree(present)
