"""Serves the namespace over HTTP as JSON, with one route per operation, and routes for operators."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, request

from hadoop_common.errors import HdfsError
from hadoop_rpc.ha_protocol import RequestSource
from namenode_stub.active_namespace import ActiveNamespace, OperationRefusedError
from namenode_stub.fail_stop import StandbyRefusalError

_NAMESPACE = "/namespace"


def namespace_blueprint(namespace: ActiveNamespace, roll: Callable[[], int]) -> Blueprint:
    """Make the blueprint of POST /namespace/OPERATION with a JSON object of arguments, and of GET
    /namespace/{status,list,tree}.

    400 means invalid arguments, 409 a refusal by the namespace, and 503 that the NameNode does not serve requests. Each
    of these responses contains the reason in `error`.
    """
    blueprint = Blueprint("namespace", __name__, url_prefix=_NAMESPACE)
    operations: dict[str, Callable[..., Any]] = {
        "mkdirs": namespace.mkdirs,
        "create": namespace.create,
        "add_block": namespace.files.add_block,
        "complete": namespace.files.close,
        "rename": namespace.rename,
        "delete": namespace.delete,
        "set_permission": namespace.attributes.set_permission,
        "set_owner": namespace.attributes.set_owner,
        "set_times": namespace.attributes.set_times,
        "set_replication": namespace.attributes.set_replication,
        "set_quota": namespace.attributes.set_quota,
        "roll": roll,
    }
    signatures = {name: inspect.signature(operation, eval_str=True) for name, operation in operations.items()}

    @blueprint.post("/<operation>")
    def change(operation: str) -> Response:
        if operation not in operations:
            problem = f"no operation {operation}; known are {', '.join(operations)}"
            return _answer(HTTPStatus.BAD_REQUEST, error=problem)
        arguments = request.get_json(silent=True, force=True) if request.data else {}
        if not isinstance(arguments, dict):
            return _answer(HTTPStatus.BAD_REQUEST, error="the body must be a JSON object of arguments")
        problem = _misfit(signatures[operation], arguments)
        if problem:
            return _answer(HTTPStatus.BAD_REQUEST, error=f"{operation}: {problem}")
        return _answer(HTTPStatus.OK, result=operations[operation](**arguments))

    @blueprint.get("/status")
    def status() -> Response:
        return _answer(HTTPStatus.OK, result=asdict(namespace.status(request.args.get("path", "/"))))

    @blueprint.get("/list")
    def listing() -> Response:
        children = namespace.listing(request.args.get("path", "/"))
        return _answer(HTTPStatus.OK, result=[asdict(child) for child in children])

    @blueprint.get("/tree")
    def tree() -> Response:
        lines = (json.dumps(asdict(inode)) + "\n" for inode in namespace.walk())
        return Response(lines, mimetype="application/x-ndjson")

    @blueprint.errorhandler(OperationRefusedError)
    def refused(error: OperationRefusedError) -> Response:
        return _answer(HTTPStatus.CONFLICT, error=error.message, hint=error.hint)

    @blueprint.errorhandler(HdfsError)
    def failed(error: HdfsError) -> Response:
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, error=error.message, hint=error.hint)

    return blueprint


def refusing_blueprint() -> Blueprint:
    """Return a blueprint that answers 503 to every request, with the message and hint of StandbyRefusalError.

    It replaces the blueprint of the namespace while the NameNode is not active.
    """
    blueprint = Blueprint("namespace", __name__, url_prefix=_NAMESPACE)

    @blueprint.route("/<path:operation>", methods=["GET", "POST"])
    def refused(operation: str) -> Response:
        error = StandbyRefusalError()
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, error=error.message, hint=error.hint)

    return blueprint


def transition_blueprint(
    transitions: Mapping[str, Callable[[], None]], check: Callable[[RequestSource], None]
) -> Blueprint:
    """Make the blueprint of POST /transition/STATE[?force=true] for each of `transitions`: 200 after the transition,
    503 if it fails.

    A request for the current state changes nothing. If `check` raises OperationRefusedError, the response is 409.
    """
    blueprint = Blueprint("transition", __name__)

    @blueprint.post("/transition/<state>")
    def transition(state: str) -> Response:
        if state not in transitions:
            return _answer(HTTPStatus.BAD_REQUEST, error=f"no state {state}; known are {', '.join(transitions)}")
        forced = request.args.get("force", "") == "true"
        try:
            check(RequestSource.USER_FORCED if forced else RequestSource.USER)
            transitions[state]()
        except OperationRefusedError as error:
            return _answer(HTTPStatus.CONFLICT, error=error.message, hint=error.hint)
        except HdfsError as error:
            return _answer(HTTPStatus.SERVICE_UNAVAILABLE, error=error.message, hint=error.hint)
        return _answer(HTTPStatus.OK, result=state)

    return blueprint


def shutdown_blueprint(shut_down: Callable[[], None]) -> Blueprint:
    """Make the blueprint of POST /shutdown, which answers 202; while running requests end, changes receive 503."""
    blueprint = Blueprint("shutdown", __name__)

    @blueprint.post("/shutdown")
    def shutdown() -> Response:
        shut_down()
        return _answer(HTTPStatus.ACCEPTED, result="shutting down")

    return blueprint


def _misfit(signature: inspect.Signature, arguments: Mapping[str, Any]) -> str:
    """Describe the fault in the names and types of `arguments`; return "" if there is none."""
    try:
        signature.bind(**arguments)
    except TypeError as error:
        return str(error)
    for name, value in arguments.items():
        wanted = signature.parameters[name].annotation
        # bool is a subtype of int in Python, but not a number in JSON
        if type(value) is not wanted:
            return f"{name} must be of type {wanted.__name__}"
    return ""


def _answer(status: HTTPStatus, **content: Any) -> Response:
    return Response(json.dumps(content) + "\n", status, mimetype="application/json")
