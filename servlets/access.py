"""Blueprints whose requests pass a decision first: who may do what."""

from __future__ import annotations

from flask import Blueprint, request

from hadoop_common.access import AccessControl, Caller, Right
from servlets.errors import NotAllowedError

_READING = ("GET", "HEAD", "OPTIONS")


def restrict(blueprint: Blueprint, access: AccessControl) -> Blueprint:
    """`blueprint`, which from now on refuses with 403 whoever may not read, or change, what it serves."""

    @blueprint.before_request
    def check() -> None:
        right = Right.READ if request.method in _READING else Right.CHANGE
        verdict = access.check(Caller(request.remote_addr or ""), right, f"{request.method} {request.path}")
        if not verdict.allowed:
            raise NotAllowedError(verdict.reason)

    return blueprint
