"""What a controller tells of itself over HTTP: readiness, and metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from failover.health import Health
from hadoop_rpc.ha_protocol import HAState
from servlets.metrics import collector_blueprint, login_families, refused_family, tls_families
from servlets.status import Health as Probe

_PREFIX = "hdfs_zkfc"


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """One moment of a controller.

    Attributes:
        controller: `Controller.facts`.
        election: `Election.facts`, and its `state`.
        transitions, fencings: counts by state or method, and result.
        started_at: seconds since the epoch.
    """

    controller: Mapping[str, Any]
    election: Mapping[str, Any]
    transitions: Mapping[tuple[str, str], int]
    fencings: Mapping[tuple[str, str], int]
    refused: Mapping[str, int]
    version: str
    started_at: float

    def as_dict(self) -> dict[str, Any]:
        """For /status."""
        ready = readiness(self)
        return {
            **self.controller,
            "election": dict(self.election),
            "ready": ready.ok,
            "readyReason": ready.message,
            "version": self.version,
            "startedAt": self.started_at,
        }


def readiness(facts: ControllerFacts) -> Probe:
    """Whether there would be a failover if one were needed, and why not."""
    told, election = facts.controller, str(facts.election.get("state", ""))
    details = {"state": told["state"], "election": election}
    if told["fatal"]:
        return Probe(False, f"the election does not go on: {told['fatal']}", details)
    if told["health"] != Health.HEALTHY.name.lower():
        reason = f": {told['healthReason']}" if told["healthReason"] else ""
        return Probe(False, f"{told['namenode']} is {Health[told['health'].upper()].value}{reason}", details)
    if told["state"] == HAState.OBSERVER.name.lower():
        return Probe(True, f"{told['namenode']} is an observer, which takes no part in the election", details)
    if not told["takesPart"]:
        return Probe(False, f"{told['namenode']} {told['decision']}", details)
    doing = str(facts.election.get("doing", ""))
    if doing:
        return Probe(False, f"{told['namenode']} has the lock, and {doing}", details)
    problem = str(facts.election.get("problem", ""))
    if problem or election not in ("active", "standby"):
        return Probe(False, problem or "ZooKeeper has not said who has the lock", details)
    return Probe(True, f"{told['namenode']} is {told['state']}, and takes part in the election", details)


def metrics_blueprint(facts: Callable[[], ControllerFacts]) -> Blueprint:
    """The blueprint of /metrics; `facts` is asked once a scrape, from any thread."""
    return collector_blueprint(_ControllerCollector(facts))


class _ControllerCollector(Collector):
    def __init__(self, facts: Callable[[], ControllerFacts]) -> None:
        self._facts = facts

    def describe(self) -> Iterator[Metric]:
        """Names nothing ahead, so that registering asks for no facts."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._facts()
        told = now.controller
        labels = {"version": now.version, "nameservice": told["nameservice"], "namenode": told["namenode"]}
        yield InfoMetricFamily(_PREFIX, "Version of the controller, and whose it is.", labels)
        yield _gauge("start_time_seconds", "Start of the process, in seconds since the epoch.", now.started_at)
        yield _gauge("ready", "1 while there would be a failover if one were needed.", readiness(now).ok)
        yield _gauge("takes_part", "1 while the NameNode takes part in the election.", told["takesPart"])
        yield _gauge("out_seconds", "How long it stays out of it, as it was asked to.", told["outSeconds"])
        yield _gauge("election_failed", "1 while the election does not go on.", bool(told["fatal"]))
        yield _gauge("has_lock", "1 while it has the lock.", _has_lock(now.election))
        # until somebody has the lock and is well with it
        unsettled = bool(now.election.get("problem"))
        failing = unsettled and told["lastAttempt"] is not None and bool(told["lastAttempt"]["problem"])
        yield _gauge("activation_failing", "1 while the NameNode has the lock and does not become active.", failing)
        unfenced = unsettled and told["lastFencing"] is not None and not told["lastFencing"]["done"]
        yield _gauge("fencing_failing", "1 while whoever was active before cannot be fenced.", unfenced)
        yield _states("health", "1 for how the NameNode is.", [each.name.lower() for each in Health], told["health"])
        yield _states("state", "1 for the state it tells.", [each.name.lower() for each in HAState], told["state"])
        yield _counts("transitions", "States that it was given.", "state", now.transitions)
        yield _counts("fencings", "Tries to fence another one, by each method.", "method", now.fencings)
        yield refused_family(_PREFIX, now.refused)
        yield from tls_families(_PREFIX, time.time())
        yield from login_families(_PREFIX)


def _has_lock(election: Mapping[str, Any]) -> bool:
    """Also on the way to being active, which may last long."""
    return election.get("state") == "active" or bool(election.get("doing"))


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", documentation, value=float(value))


def _states(name: str, documentation: str, all_of_them: list[str], now: str | None) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", documentation, labels=(name,))
    for each in all_of_them:
        family.add_metric((each,), float(each == now))
    return family


def _counts(name: str, documentation: str, label: str, counts: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", documentation, labels=(label, "result"))
    for (which, result), count in sorted(counts.items()):
        family.add_metric((which, result), count)
    return family
