"""The namespace over HTTP: JSON in, JSON out, one route an operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response, request

from hadoop_common.errors import HdfsError
from namenode_stub.active_namespace import ActiveNamespace, OperationRefusedError

__all__ = ["namespace_blueprint"]

_BAD_REQUEST = 400
_CONFLICT = 409
_UNAVAILABLE = 503


def namespace_blueprint(namespace: ActiveNamespace, roll: Callable[[], int]) -> Blueprint:
    """POST /namespace/OPERATION with a JSON object of its arguments; GET /namespace/{status,list,tree}."""
    blueprint = Blueprint("namespace", __name__, url_prefix="/namespace")
    operations: dict[str, Callable[..., Any]] = {
        "mkdirs": namespace.mkdirs,
        "create": namespace.create,
        "add_block": namespace.add_block,
        "complete": namespace.complete,
        "rename": namespace.rename,
        "delete": namespace.delete,
        "set_permission": namespace.set_permission,
        "set_owner": namespace.set_owner,
        "set_times": namespace.set_times,
        "set_replication": namespace.set_replication,
        "set_quota": namespace.set_quota,
        "roll": roll,
    }

    @blueprint.post("/<operation>")
    def change(operation: str) -> Response:
        perform = operations.get(operation)
        if perform is None:
            return _answer(_BAD_REQUEST, error=f"no operation {operation}; known are {', '.join(operations)}")
        arguments = request.get_json(silent=True) if request.data else {}
        if not isinstance(arguments, dict):
            return _answer(_BAD_REQUEST, error="the body must be a JSON object of arguments")
        try:
            return _answer(200, result=perform(**arguments))
        except TypeError as error:
            return _answer(_BAD_REQUEST, error=f"{operation}: {error}")

    @blueprint.get("/status")
    def status() -> Response:
        return _answer(200, result=asdict(namespace.status(request.args.get("path", "/"))))

    @blueprint.get("/list")
    def listing() -> Response:
        return _answer(200, result=[asdict(child) for child in namespace.list(request.args.get("path", "/"))])

    @blueprint.get("/tree")
    def tree() -> Response:
        def lines() -> Iterator[str]:
            for inode in namespace.walk():
                yield json.dumps(inode) + "\n"

        return Response(lines(), mimetype="application/x-ndjson")

    @blueprint.errorhandler(OperationRefusedError)
    def refused(error: OperationRefusedError) -> Response:
        return _answer(_CONFLICT, error=error.message, hint=error.hint)

    @blueprint.errorhandler(HdfsError)
    def failed(error: HdfsError) -> Response:
        return _answer(_UNAVAILABLE, error=error.message, hint=error.hint)

    return blueprint


def _answer(status: int, **content: Any) -> Response:
    return Response(json.dumps(content) + "\n", status, mimetype="application/json")
