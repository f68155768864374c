"""Alert rules for Prometheus and a dashboard for Grafana: `python -m install.monitoring` writes config/monitoring.

The daemon's declarations define both files: a rule for each kind of alarm, and a chart for each metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import Metric

from hadoop_common.transfer_counter import TransferCounter
from node_state.alarm_kinds import ALARM_KINDS, AlarmKind
from node_state.metrics import MetricsSnapshot, checkpointer_families
from node_state.state import ArchiveState, LakeState, LeaderState, NodeState, ReportState, ShadowState

FOLDER: Final = Path(__file__).parents[1] / "config" / "monitoring"
RULES: Final = "checkpointer-alerts.yml"
DASHBOARD: Final = "checkpointer-dashboard.json"
_PREFIX: Final = "hdfs_checkpointer_"

# conditions that a daemon cannot report as alarms: (alert, expression, for, severity, section, summary)
_OTHERS: Final = (
    (
        "CheckpointerGone",
        # applies while Prometheus scrapes the address, but not to an address that never had a checkpointer
        f"up == 0 and on (job, instance) max_over_time({_PREFIX}up[14d])",
        "5m",
        "page",
        "operations.md#run",
        "The checkpointer no longer answers",
    ),
    (
        "CheckpointerCannotRead",
        f"{_PREFIX}unreadable == 1 and on (job, instance) {_PREFIX}ready == 0",
        "15m",
        "page",
        "runbook.md#namenode-down",
        "The checkpointer cannot read storage or journal",
    ),
    (
        "CheckpointerJournalNodeLost",
        f"{_PREFIX}journal_node_up == 0",
        "5m",
        "warn",
        "runbook.md#a-journalnode-does-not-answer",
        "JournalNode {{ $labels.node }} does not answer",
    ),
    (
        "FailoverControllerNotReady",
        "hdfs_zkfc_ready == 0",
        "5m",
        "page",
        "runbook.md#no-namenode-becomes-active",
        "An automatic failover would not succeed",
    ),
    (
        "FailoverControllerGone",
        "up == 0 and on (job, instance) max_over_time(hdfs_zkfc_ready[14d])",
        "5m",
        "page",
        "operations.md#automatic-failover",
        "A failover controller no longer answers",
    ),
)


def alert_of(kind: AlarmKind) -> str:
    """Return the name of the rule for a kind of alarm."""
    return f"CheckpointerAlarm{kind.name.capitalize()}"


def rules_text() -> str:
    """Return the content of the rules file, in YAML."""
    lines = [
        "# Alert rules of the checkpointer, one for each kind of alarm; made by `python -m install.monitoring`.",
        "# Severity `page` requires immediate action; `warn` can wait until the morning.",
        "groups:",
        "- name: hdfs-checkpointer",
        "  rules:",
    ]
    for kind in ALARM_KINDS.values():
        silenced = f"{_PREFIX}alarm_silenced == 1"
        expression = f'{_PREFIX}alarm{{kind="{kind.name}"}} > 0 unless on (job, instance, kind) {silenced}'
        severity = "page" if kind.pages else "warn"
        lines += _rule(alert_of(kind), expression, "1m", severity, kind.section, kind.title)
    for each in _OTHERS:
        lines += _rule(*each)
    return "\n".join(lines) + "\n"


def _rule(name: str, expression: str, lasting: str, severity: str, section: str, summary: str) -> Iterator[str]:
    yield f"  - alert: {name}"
    yield f"    expr: {json.dumps(expression)}"
    yield f"    for: {lasting}"
    yield f"    labels: {{severity: {severity}}}"
    yield "    annotations:"
    yield f"      summary: {json.dumps(f'{summary} ({{{{ $labels.instance }}}})')}"
    scheme = "{{ with $labels.scheme }}{{ . }}{{ else }}http{{ end }}"
    yield f"      runbook: {json.dumps(f'{scheme}://{{{{ $labels.instance }}}}/docs/{section}')}"


def families() -> list[Metric]:
    """Return every metric family of a scrape."""
    leader = LeaderState(lock="", claim="", leader="")
    state = NodeState(
        role="standby",
        archive=ArchiveState(),
        lake=LakeState(),
        report=ReportState(),
        leader=leader,
        shadow=ShadowState(),
    )
    snapshot = MetricsSnapshot(state=state, now=0.0, version="", started_at=0.0, counter=TransferCounter())
    return [each for each in checkpointer_families(snapshot) if each.type != "info"]


def dashboard() -> dict[str, Any]:
    """Return the dashboard: the most important metrics, followed by a chart for each metric."""
    panels: list[dict[str, Any]] = []
    for column, (title, expression, unit) in enumerate(
        (
            ("Alarms", f"sum({_PREFIX}alarms)", "short"),
            ("Ready", f"min({_PREFIX}ready)", "bool_yes_no"),
            ("Age of the newest image", f"max({_PREFIX}checkpoint_age_seconds)", "s"),
            ("Transactions in no image", f"max({_PREFIX}transactions_since_checkpoint)", "short"),
        )
    ):
        panels.append(_panel(title, "stat", expression, unit, {"x": column * 6, "y": 0, "w": 6, "h": 4}))
    for number, family in enumerate(families()):
        place = {"x": number % 3 * 8, "y": 4 + number // 3 * 7, "w": 8, "h": 7}
        counter = family.type == "counter"
        expression = f"rate({family.name}_total[$__rate_interval])" if counter else family.name
        panels.append(_panel(family.documentation, "timeseries", expression, _unit(family.name), place))
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "HDFS checkpointer",
        "uid": "hdfs-checkpointer",
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def _panel(title: str, kind: str, expression: str, unit: str, place: dict[str, int]) -> dict[str, Any]:
    legend = "{{instance}}" if kind == "stat" else "__auto"
    return {
        "title": title.rstrip("."),
        "type": kind,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
    }


def _unit(name: str) -> str:
    if name.endswith("timestamp_seconds"):
        return "dateTimeAsIso"
    return next((unit for end, unit in (("seconds", "s"), ("bytes", "bytes")) if name.endswith(end)), "short")


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {RULES: rules_text(), DASHBOARD: json.dumps(dashboard(), indent=1) + "\n"}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
