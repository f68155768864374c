"""Access checks for blueprints."""

from __future__ import annotations

from http import HTTPStatus

from flask import Blueprint, Response, request

from hadoop_common.access import AccessControl, Door, Right
from servlets.application import sentence_response
from servlets.entrance import caller

_READING = ("GET", "HEAD", "OPTIONS")


def restrict(blueprint: Blueprint, access: AccessControl, door: Door) -> Blueprint:
    """Make `blueprint` refuse requests without the right to read or change with 403; return it.

    Args:
        door: the resource; changes to `Door.STATE` are checked as `Door.CONTROL`.
    """

    @blueprint.before_request
    def check() -> Response | None:
        who = caller()
        if who is None:
            return None
        right = Right.READ if request.method in _READING else Right.CHANGE
        behind = Door.CONTROL if door is Door.STATE and right is Right.CHANGE else door
        verdict = access.check(who, right, f"{request.method} {request.path}", behind)
        return None if verdict.allowed else sentence_response(HTTPStatus.FORBIDDEN, verdict.reason)

    return blueprint
