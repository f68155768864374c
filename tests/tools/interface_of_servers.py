"""The interface of the servers: HTTP endpoints, metrics and beans, as lines of docs/interface.txt."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

from flask import Flask
from prometheus_client.core import Metric

import failover.server
import journal_node.server
from checkpointer.daemon.blueprints import daemon_blueprints
from failover.settings import FailoverSettings
from failover.status import ControllerFacts, controller_families
from hadoop_common.configuration import Configuration
from install.monitoring import families, rules_text
from journal_node.config import JournalNodeConfig
from journal_node.journal_facts import JournalNodeFacts
from journal_node.journal_metrics import journal_node_families
from node_state.beans import NodeFacts, daemon_beans
from node_state.state import NodeState
from servlets.application import create_application
from tests.checkpointer.secondary_support import secondary_config
from tests.pipeline.sample_report import sample_report

# files of a console page, which only browsers request
_PAGES = ("/console/", "/docs/")
_METHODS = ("GET", "PUT", "POST")


def endpoints() -> Iterator[str]:
    """Yield `endpoint PROCESS METHOD PATH`; WebHDFS has one path and refuses changes, so only its GET is listed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        anything = mock.MagicMock()
        config = secondary_config(root, 1, 2)
        daemon = create_application(*daemon_blueprints(anything, anything, config, anything, anything, live=anything))
        journal = _settings({"dfs.journalnode.edits.dir": folder, "fs.defaultFS": "hdfs://127.0.0.1:1"})
        applications = {
            "daemon": daemon,
            "journalnode": _application(
                journal_node.server,
                lambda: journal_node.server.JournalNodeServer(JournalNodeConfig.from_configuration(journal)),
            ),
            "zkfc": _application(failover.server, lambda: failover.server.FailoverServer(_controller())),
        }
    for process, application in applications.items():
        for rule in application.url_map.iter_rules():
            if not rule.rule.startswith(_PAGES) and "<" not in rule.rule:
                for method in sorted({"GET"} if "webhdfs" in rule.rule else set(_METHODS) & (rule.methods or set())):
                    yield f"endpoint {process} {method} {rule.rule.rstrip('/') or '/'}"


def metrics() -> Iterator[str]:
    """Yield `metric NAME TYPE` of all servers and of a report, and `alert NAME` of the rules."""
    controller = dict.fromkeys(("nameservice", "namenode", "fatal", "state", "healthReason", "decision"), "")
    facts = {**controller, "health": "healthy", "takesPart": True, "outSeconds": 0.0}
    attempts = {"lastAttempt": None, "lastFencing": None}
    zkfc = ControllerFacts({**facts, **attempts}, {}, {}, {}, {}, "", 0.0)
    found: list[Metric] = [
        *families(),
        *journal_node_families(JournalNodeFacts("", "", 0.0, ())),
        *controller_families(zkfc),
    ]
    for each in found:
        yield f"metric {each.name}{'_total' if each.type == 'counter' else ''} {each.type}"
    yield from map("alert {}".format, re.findall(r"- alert: (\w+)", rules_text()))


def report_metrics() -> Iterator[str]:
    """Yield `metric NAME TYPE` of a report."""
    from pipeline.reports.writers.prometheus import metrics_text

    for line in metrics_text(sample_report()).splitlines():
        if line.startswith("# TYPE "):
            yield line.replace("# TYPE", "metric")


def beans() -> Iterator[str]:
    """Yield `bean NAME ATTRIBUTE` for each attribute in a daemon's response to GET /jmx."""
    for bean in daemon_beans(NodeState(role="secondary"), NodeFacts("", 0.0, security_enabled=False)):
        name = bean.name.replace(" ", "_")
        yield from (f"bean {name} {attribute}" for attribute in bean.attributes)


def all_of_servers() -> Iterable[str]:
    return (*endpoints(), *metrics(), *report_metrics(), *beans())


class _CapturedError(Exception):
    """Exception that ends the construction of a server once its application is known."""


def _application(module: ModuleType, make: Callable[[], object]) -> Flask:
    """Return the application that the server of `module` creates, without starting the server."""
    found = []

    def capture(*arguments: object, **settings: object) -> Flask:
        found.append(create_application(*arguments, **settings))  # type: ignore[arg-type]
        raise _CapturedError

    with mock.patch.object(module, "create_application", capture):
        try:
            make()
        except _CapturedError:
            return found[0]
    raise AssertionError(f"{module.__name__} creates no application")


def _settings(values: dict[str, str]) -> Configuration:
    return Configuration.from_mapping(values, {})


def _controller() -> FailoverSettings:
    nodes = {f"dfs.namenode.rpc-address.ns.nn{port}": f"127.0.0.1:{port}" for port in (1, 2)}
    ha = {"dfs.nameservices": "ns", "dfs.ha.namenodes.ns": "nn1,nn2", "dfs.ha.namenode.id": "nn1"}
    election = {"ha.zookeeper.quorum": "127.0.0.1:3", "dfs.ha.fencing.methods": "shell(/bin/true)"}
    return FailoverSettings.from_configuration(_settings({"fs.defaultFS": "hdfs://ns", **nodes, **ha, **election}))
