"""The state of a controller for HTTP: readiness, status and metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint
from prometheus_client.core import InfoMetricFamily, Metric

from failover.health import NameNodeHealth
from hadoop_rpc.ha_protocol import HAState
from servlets.metrics import MetricFamilies, families_blueprint, server_families
from servlets.status import ProbeResult

_FAMILIES = MetricFamilies("hdfs_zkfc")


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """The state of a controller at one moment.

    Attributes:
        controller: `Controller.facts`.
        election: `Election.facts` with its `state`.
        transitions, fencings: transitions by state and result, and fencing attempts by method and result.
        started_at: start of the process, in seconds since the epoch.
    """

    controller: Mapping[str, Any]
    election: Mapping[str, Any]
    transitions: Mapping[tuple[str, str], int]
    fencings: Mapping[tuple[str, str], int]
    refused: Mapping[str, int]
    version: str
    started_at: float

    def as_dict(self) -> dict[str, Any]:
        """Return the content of /status."""
        ready = readiness(self)
        return {
            **self.controller,
            "election": dict(self.election),
            "ready": ready.ok,
            "readyReason": ready.message,
            "version": self.version,
            "startedAt": self.started_at,
        }


def readiness(facts: ControllerFacts) -> ProbeResult:
    """Return whether an automatic failover is possible, and the reason."""
    state, election = facts.controller, str(facts.election.get("state", ""))
    details = {"state": state["state"], "election": election}
    if state["fatal"]:
        return ProbeResult(False, f"the election has failed: {state['fatal']}", details)
    if state["health"] != NameNodeHealth.HEALTHY.name.lower():
        reason = f": {state['healthReason']}" if state["healthReason"] else ""
        return ProbeResult(
            False, f"{state['namenode']} is {NameNodeHealth[state['health'].upper()].value}{reason}", details
        )
    if state["state"] == HAState.OBSERVER.name.lower():
        return ProbeResult(True, f"{state['namenode']} is an observer, which takes no part in the election", details)
    if not state["takesPart"]:
        return ProbeResult(False, f"{state['namenode']} {state['decision']}", details)
    # Frequent retries must not hide why the last attempt failed.
    if problem := str(facts.election.get("problem", "")):
        return ProbeResult(False, problem, details)
    if doing := str(facts.election.get("doing", "")):
        return ProbeResult(False, f"{state['namenode']} has the lock, and {doing}", details)
    if election not in ("active", "standby"):
        return ProbeResult(False, "the owner of the lock in ZooKeeper is not known yet", details)
    return ProbeResult(True, f"{state['namenode']} is {state['state']}, and takes part in the election", details)


def metrics_blueprint(facts: Callable[[], ControllerFacts]) -> Blueprint:
    """Return the blueprint of /metrics; each scrape calls `facts` once, from any thread."""
    return families_blueprint(lambda: controller_families(facts()))


def controller_families(now: ControllerFacts) -> Iterator[Metric]:
    """Yield the metric families of a controller."""
    state, gauge, counter = now.controller, _FAMILIES.gauge, _FAMILIES.counter
    labels = {"version": now.version, "nameservice": state["nameservice"], "namenode": state["namenode"]}
    yield InfoMetricFamily(_FAMILIES.prefix, "Version of the controller, and its NameNode.", labels)
    yield gauge("start_time_seconds", "Start of the process, in seconds since the epoch.", now.started_at)
    yield gauge("ready", "1 while an automatic failover is possible.", readiness(now).ok)
    yield gauge("takes_part", "1 while the NameNode takes part in the election.", state["takesPart"])
    yield gauge("out_seconds", "Seconds until the NameNode returns to the election.", state["outSeconds"])
    yield gauge("election_failed", "1 while the election has failed.", bool(state["fatal"]))
    yield gauge("has_lock", "1 while the NameNode has the lock.", _has_lock(now.election))
    # true until a node owns the lock and uses it
    unsettled = bool(now.election.get("problem"))
    failing = unsettled and state["lastAttempt"] is not None and bool(state["lastAttempt"]["problem"])
    yield gauge("activation_failing", "1 while the NameNode has the lock but does not become active.", failing)
    unfenced = unsettled and state["lastFencing"] is not None and not state["lastFencing"]["done"]
    yield gauge("fencing_failing", "1 while the last active NameNode cannot be fenced.", unfenced)
    healths, states = (
        [((each.name.lower(),), float(each.name.lower() == state[name])) for each in kind]
        for name, kind in (("health", NameNodeHealth), ("state", HAState))
    )
    yield gauge("health", "1 for the present health of the NameNode, 0 for the others.", healths, ("health",))
    yield gauge("state", "1 for the HA state that the NameNode reports, 0 for the others.", states, ("state",))
    transitions, fencings = sorted(now.transitions.items()), sorted(now.fencings.items())
    yield counter("transitions", "State changes of the NameNode.", transitions, ("state", "result"))
    text = "Attempts to fence another NameNode, by method."
    yield counter("fencings", text, fencings, ("method", "result"))
    yield from server_families(_FAMILIES.prefix, now.refused, time.time())


def _has_lock(election: Mapping[str, Any]) -> bool:
    """Return whether the lock is ours, even during a long activation."""
    return election.get("state") == "active" or bool(election.get("doing"))
