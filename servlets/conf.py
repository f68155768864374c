"""GET /conf: the configuration of a server as JSON in Hadoop's form (ConfServlet)."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, jsonify


def conf_blueprint(values: Mapping[str, str]) -> Blueprint:
    """Return the blueprint of /conf with these values by key."""
    blueprint = Blueprint("conf", __name__)

    @blueprint.get("/conf")
    def get_conf() -> Response:
        return jsonify(properties=[{"key": key, "value": value} for key, value in values.items()])

    return blueprint
