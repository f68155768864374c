"""`checkpointer status`: with a daemon, without one, and through a restart."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys

import pytest

from namenode_stub.node import NameNodeStub
from tests.checkpointer.cli.standby_cluster import Cluster, daemon, write_edits
from tests.cli_runner import Outcome, run_cli
from tests.namenode_stub.stub_support import wait_until

PERIOD = "dfs.namenode.checkpoint.period"


def test_status_output_with_and_without_a_daemon(cluster: Cluster, stub: NameNodeStub) -> None:
    missing = run_cli("status", "--conf", cluster.conf)
    assert (missing.code, "no daemon answers" in missing.err) == (7, True)
    outcomes: list[Outcome] = []

    def idle() -> bool:
        # a poll may be running
        outcomes.append(run_cli("status", "--conf", cluster.conf))
        return re.search("^phase +idle$", outcomes[-1].out, re.MULTILINE) is not None

    with daemon(cluster):
        last = write_edits(stub, "a")
        assert cluster.checkpoint("--force").code == 0
        wait_until("a state between polls", idle)
        state = json.loads(run_cli("status", "--conf", cluster.conf, "--json").out)
    outcome = outcomes[-1]
    assert outcome.code == 0, outcome.err
    first, *lines = outcome.out.splitlines()
    assert first.startswith(f"standby at {cluster.ports.daemon_url}, ready, ")
    facts = {line[:16].rstrip(): line[16:] for line in lines}
    assert re.fullmatch(rf"txid {last}, made \d[\w ]* ago \(forced\), [0-9.]+ \w+", facts["image"])
    assert facts["edits"].startswith("0 transactions without an image; ")
    taken = f"http://127.0.0.1:{cluster.ports.stub} (nn1 active): accepted the image at txid {last}, "
    assert facts["NameNode"].startswith(taken)
    assert facts["cluster"] == state["clusterId"]
    assert facts["alarm"] == "none"
    assert (state["ready"], state["imageTxid"], state["url"]) == (True, last, cluster.ports.daemon_url)
    assert "\x1b" not in outcome.out


def test_daemon_is_shown_while_the_configuration_on_disk_is_faulty(cluster: Cluster, stub: NameNodeStub) -> None:
    site = cluster.conf / "hdfs-site.xml"
    faulty = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in {PERIOD: "soon", "dfs.namenode.name.dir": "relative"}.items()
    )
    with daemon(cluster):
        site.write_text(site.read_text().replace("</configuration>", f"{faulty}</configuration>"))
        shown = run_cli("status", "--conf", cluster.conf)
        as_json = run_cli("status", "--conf", cluster.conf, "--json")
        history = run_cli("history", "--conf", cluster.conf)
        silenced = run_cli("silence", "late", "--conf", cluster.conf, "--reason", "repair")
        acknowledged = run_cli("acknowledge", "late", "--conf", cluster.conf, "--minutes", "0")
        asked = cluster.checkpoint("--force")
        checked = run_cli("check", "--conf", cluster.conf)
    # a daemon could not start with this configuration
    stopped = run_cli("status", "--conf", cluster.conf)
    assert shown.out.startswith(f"standby at {cluster.ports.daemon_url}, ready, ")
    for each in (shown, as_json, history, silenced, acknowledged, asked):
        assert each.code == 0, each.err
        (warning,) = each.err.splitlines()
        assert warning.startswith(f"warning: the configuration in {cluster.conf} is faulty, so a reload would change ")
        assert f"{PERIOD}='soon'" in warning
        assert "and 1 other fault" in warning
    period, directory = json.loads(as_json.out)["configurationFaults"]
    assert (period["key"], period["value"], period["source"]) == (PERIOD, "soon", str(site))
    assert directory["key"] == "dfs.namenode.name.dir"
    assert checked.code == 3
    assert "`checkpointer status` shows its state" in checked.out
    assert stopped.code == 2
    assert PERIOD in stopped.err
    assert "dfs.namenode.name.dir" in stopped.err
    assert f"{cluster.ports.daemon_url} (standby): no daemon answers" in stopped.err


def test_commands_report_a_stopped_daemon(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel accepts connections on behalf of a stopped process."""
    monkeypatch.setattr("checkpointer.cli.status_command._TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", cluster.ports.daemon)):
        shown = run_cli("status", "--conf", cluster.conf)
        monkeypatch.setattr("checkpointer.cli.checkpoint_command._PROBE_SECONDS", 0.2)
        asked = cluster.checkpoint("--force")
    assert (shown.code, asked.code) == (7, 7)
    assert "no answer within 0.2 s" in shown.err
    assert "stopped (T)" in shown.err
    for outcome in (shown, asked):
        assert "continues" not in outcome.err


def test_status_watch_continues_through_a_restart(cluster: Cluster, stub: NameNodeStub) -> None:
    # in a background job, SIGINT is ignored
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeding}; from checkpointer.cli import main; main()"
    command = [sys.executable, "-c", program, "status", "--conf", str(cluster.conf), "--watch", "0.1"]
    with daemon(cluster):
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        seen = (line for line in watching.stdout)
        for _ in range(2):
            assert any(line.startswith("standby at ") for line in seen)
    assert any("no daemon answers" in line for line in seen)
    watching.send_signal(signal.SIGINT)
    assert "interrupted" in watching.communicate()[1]
    assert watching.returncode == 130
