"""The alert rules and the dashboard in config/monitoring match the declared metrics, and the rules fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.runbook import document
from hadoop_common.transfer_counter import TransferCounter
from install.monitoring import DASHBOARD, FOLDER, RULES, alert_of, families, files, rules_text
from node_state.alarm_kinds import ALARM_KINDS
from node_state.alarm_marks import AlarmAcknowledgement, AlarmSilence
from node_state.metrics import MetricsSnapshot, checkpointer_families
from node_state.state import JournalNodeState, NodeState, RoleDetails

PROMTOOL = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
MINUTES = 60


def test_the_files_are_up_to_date() -> None:
    for name, text in files().items():
        assert (FOLDER / name).read_text() == text, "python -m install.monitoring"


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(panel["targets"][0]["expr"] for panel in json.loads((FOLDER / DASHBOARD).read_text())["panels"])
    assert [each.name for each in families() if each.name not in shown] == []


def test_rules_refer_to_existing_metrics_and_runbook_sections() -> None:
    text = (FOLDER / RULES).read_text()
    names = {each.name for each in families()} | {"hdfs_zkfc_ready"}
    assert set(re.findall(r"hdfs_[a-z_]+", text)) <= names
    sections = re.findall(r"/docs/([\w-]+\.md)#([\w-]+)\"", text)
    assert len(sections) == text.count("- alert: ")
    assert text.count("{{ with $labels.scheme }}{{ . }}{{ else }}http{{ end }}://") == len(sections)
    pages = {page: document(page) for page, _ in sections}
    bodies = {page: found.body for page, found in pages.items() if found is not None}
    assert [anchor for page, anchor in sections if f'id="{anchor}"' not in bodies[page]] == []


def series(state: NodeState) -> list[dict[str, str]]:
    """Return the scrape of a daemon in `state` as series with constant values."""
    snapshot = MetricsSnapshot(state=state, now=0.0, version="1", started_at=0.0, counter=TransferCounter())
    found = []
    for family in checkpointer_families(snapshot):
        for sample in family.samples:
            labels = {**sample.labels, "job": "checkpointer", "instance": "nn1:9868"}
            text = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
            found.append({"series": f"{sample.name}{{{text}}}", "values": f"{sample.value:g}+0x{MINUTES}"})
    return found


def case(name: str, inputs: list[dict[str, str]], firing: Iterable[str], at: int = 30) -> dict[str, Any]:
    """Return a test of promtool: after `at` minutes, exactly the alerts of `firing` fire."""
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in firing]
    return {
        "name": name,
        "interval": "1m",
        "input_series": inputs,
        "promql_expr_test": [{"expr": query, "eval_time": f"{at}m", "exp_samples": expected}],
    }


def states() -> dict[str, tuple[NodeState, list[str]]]:
    """Return states of a daemon with the alerts that they raise."""
    well = NodeState(role="standby", details=RoleDetails(journal_nodes=(JournalNodeState(address="j", answers=True),)))
    found = {"well": (well, [])}
    for kind in ALARM_KINDS.values():
        raised = NodeState(role="standby", ready=False, alarms=("it is bad",), alarm_kinds={"it is bad": kind.name})
        found[kind.name] = raised, [alert_of(kind)]
    silence = AlarmSilence(by="ann", since=0.0, until=1e9, reason="known")
    quiet = NodeState(role="standby", alarms=("late",), alarm_kinds={"late": "late"}, silences={"late": silence})
    found["silenced"] = quiet, []
    known = AlarmAcknowledgement(by="ann", since=0.0, until=None, reason="known")
    found["acknowledged"] = replace(quiet, silences={}, acknowledgements={"late": known}), ["CheckpointerAlarmLate"]
    found["unnamed"] = NodeState(role="standby", alarms=("odd",)), ["CheckpointerAlarmOther"]
    # other alarms and their silences do not hide that the storage and the journal cannot be read
    unread = NodeState(role="standby", ready=False, error="no answer")
    found["unread"] = unread, ["CheckpointerCannotRead"]
    found["unread and silenced"] = replace(quiet, ready=False, error="no answer"), ["CheckpointerCannotRead"]
    found["switched off"] = replace(unread, ready=True, enabled=False), []
    lost = RoleDetails(journal_nodes=(JournalNodeState(address="jn1", answers=False, fault="down"),))
    found["journalnode"] = NodeState(role="standby", details=lost), ["CheckpointerJournalNodeLost"]
    return found


@PROMTOOL
def test_the_rules_fire_for_each_alarm_only(tmp_path: Path) -> None:
    cases = [case(name, series(state), firing) for name, (state, firing) in states().items()]
    labels = '{job="c",instance="i"}'
    gone = [
        {"series": f"hdfs_checkpointer_up{labels}", "values": "1+0x10 _x200"},
        {"series": f"up{labels}", "values": "1+0x10 0+0x200"},
        {"series": 'up{job="c",instance="other"}', "values": "0+0x200"},
    ]
    cases += [case(f"gone for {at} minutes", gone, ["CheckpointerGone"], at) for at in (30, 150)]
    controller = [{"series": 'hdfs_zkfc_ready{job="z",instance="i"}', "values": f"0+0x{MINUTES}"}]
    cases.append(case("controller", controller, ["FailoverControllerNotReady"]))
    dead = [
        {"series": 'hdfs_zkfc_ready{job="z",instance="i"}', "values": "1+0x10 _x200"},
        {"series": 'up{job="z",instance="i"}', "values": "1+0x10 0+0x200"},
    ]
    cases.append(case("dead controller", dead, ["FailoverControllerGone"]))
    fired = {
        each
        for test in cases
        for part in test["promql_expr_test"][0]["exp_samples"]
        for each in part["labels"].split('"')
    }
    assert set(re.findall(r"- alert: (\w+)", rules_text())) <= fired
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": [str(FOLDER / RULES)], "evaluation_interval": "1m", "tests": cases})
    )
    for words in (("check", "rules", str(FOLDER / RULES)), ("test", "rules", "test.yml")):
        ran = subprocess.run(
            ["promtool", *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
