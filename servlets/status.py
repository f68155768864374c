"""The state and control of a daemon over HTTP: GET /status and /health/*, POST /checkpoint, /cancel and /save-aside."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any, Protocol

from flask import Blueprint, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from hadoop_common.errors import HdfsError
from hadoop_common.quantities import duration

_LOG = logging.getLogger(__name__)

_TRUE = frozenset({"true", "1", "yes"})
_FALSE = frozenset({"false", "0", "no"})
# StandbyCheckpointer.PREVENT_AFTER_CANCEL_MS
_CANCEL_MINUTES = 2.0
_MAX_CANCEL_MINUTES = 24 * 60.0
_MAX_REASON = 200


class TriggerState(Enum):
    """Result of a request for a checkpoint."""

    DONE = "done"
    SKIPPED = "skipped"
    STARTED = "started"
    BUSY = "busy"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"

    @property
    def status(self) -> HTTPStatus:
        return _STATUS[self]


_STATUS = {
    TriggerState.DONE: HTTPStatus.OK,
    TriggerState.SKIPPED: HTTPStatus.OK,
    TriggerState.STARTED: HTTPStatus.ACCEPTED,
    TriggerState.BUSY: HTTPStatus.CONFLICT,
    TriggerState.FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    TriggerState.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """Result of a requested checkpoint: one sentence, and JSON values (txid, seconds, ...)."""

    state: TriggerState
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Outcome of a probe: whether it passes, and the reason in one sentence."""

    ok: bool
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


class CheckpointTrigger(Protocol):
    """Callback that runs a checkpoint, or joins a running checkpoint, and returns when the checkpoint has ended.

    `force` makes a checkpoint even if no checkpoint is pending. If `wait` is false, the call returns STARTED
    immediately. BUSY means that the caller cannot join the running checkpoint. UNAVAILABLE means that no checkpoint can
    be made now (no active NameNode, or shutdown).
    """

    def __call__(self, *, force: bool, wait: bool) -> TriggerResult: ...


class CancelTrigger(Protocol):
    """Callback that ends a running checkpoint or upload at its next safe point, and blocks new checkpoints and uploads
    for `prevent_for` seconds.

    The call returns when no checkpoint or upload is running.
    """

    def __call__(self, reason: str, *, prevent_for: float) -> None: ...


def cancelled_sentence(reason: str, seconds: float) -> str:
    """Describe the effect of a cancellation; `seconds` are the time for which it blocks checkpoints."""
    if seconds:
        return f"no checkpoint is running, and none can begin for {duration(seconds)}: {reason}"
    return "no checkpoint is running, and the next checkpoint may begin immediately"


def status_blueprint(
    *,
    status: Callable[[], Mapping[str, Any]],
    checkpoint: CheckpointTrigger,
    cancel: CancelTrigger,
    save_aside: Callable[[], TriggerResult],
    live: Callable[[], ProbeResult],
    ready: Callable[[], ProbeResult],
) -> Blueprint:
    """Return the blueprint of /status, /checkpoint, /cancel, /save-aside, /health/live and /health/ready, based on a
    daemon's callbacks.
    """
    blueprint = health_blueprint(status=status, live=live, ready=ready)

    @blueprint.post("/checkpoint")
    def post_checkpoint() -> Response:
        try:
            force, wait = _flag("force", default=False), _flag("wait", default=True)
        except ValueError as fault:
            return _json(HTTPStatus.BAD_REQUEST, "bad request", str(fault), {})
        return _result(checkpoint(force=force, wait=wait))

    @blueprint.post("/save-aside")
    def post_save_aside() -> Response:
        return _result(save_aside())

    @blueprint.post("/cancel")
    def post_cancel() -> Response:
        reason = " ".join(request.values.get("reason", "").split())[:_MAX_REASON] or "an operator cancelled it"
        try:
            seconds = 60 * _minutes("minutes", default=_CANCEL_MINUTES)
        except ValueError as fault:
            return _json(HTTPStatus.BAD_REQUEST, "bad request", str(fault), {})
        cancel(reason, prevent_for=seconds)
        details = {"seconds": seconds, "reason": reason}
        return _json(HTTPStatus.OK, TriggerState.DONE.value, cancelled_sentence(reason, seconds), details)

    return blueprint


def health_blueprint(
    *, status: Callable[[], Mapping[str, Any]], live: Callable[[], ProbeResult], ready: Callable[[], ProbeResult]
) -> Blueprint:
    """Return the blueprint of /status, /health/live and /health/ready, based on a server's callbacks."""
    blueprint = Blueprint("status", __name__)

    @blueprint.get("/status")
    def get_status() -> Response:
        return jsonify(dict(status()))

    @blueprint.get("/health/live")
    def get_live() -> Response:
        return _probe(live())

    @blueprint.get("/health/ready")
    def get_ready() -> Response:
        return _probe(ready())

    blueprint.register_error_handler(Exception, _answer_fault)
    return blueprint


def _probe(health: ProbeResult) -> Response:
    if health.ok:
        return _json(HTTPStatus.OK, "ok", health.message, health.details)
    return _json(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", health.message, health.details)


def _result(result: TriggerResult) -> Response:
    return _json(result.state.status, result.state.value, result.message, result.details)


def _json(status: HTTPStatus, state: str, message: str, details: Mapping[str, Any]) -> Response:
    answer = jsonify({**details, "state": state, "message": message})
    answer.status_code = status
    return answer


def _flag(name: str, *, default: bool) -> bool:
    if name not in request.values:
        return default
    text = request.values[name].lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"{name} is {text[:80]!a}, expected true or false")


def _minutes(name: str, *, default: float) -> float:
    text = request.values.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MAX_CANCEL_MINUTES:
        raise ValueError(f"{name} is {text[:80]!a}, expected a number of minutes from 0 to {_MAX_CANCEL_MINUTES:.0f}")
    return value


def _answer_fault(fault: Exception) -> Response:
    if isinstance(fault, HTTPException):
        return _json(HTTPStatus(fault.code or 500), "bad request", f"{fault.name}: {fault.description}", {})
    if isinstance(fault, HdfsError):
        _LOG.error("%s %s failed: %s", request.method, request.path, fault)
        return _json(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", str(fault), {"hint": fault.hint})
    _LOG.error("%s %s failed because of a bug", request.method, request.path, exc_info=fault)
    sentence = "the request failed because of a bug in this server; see its log"
    return _json(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", sentence, {})
