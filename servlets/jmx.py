"""GET /jmx: management beans as JSON in Hadoop's form (JMXJsonServlet)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from hadoop_common.errors import HdfsError
from servlets.object_name import MalformedObjectNameError, parse_object_name

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bean:
    """A bean: its `name` as `domain:key=value,...`, the Java class that it represents, and its JSON attributes."""

    name: str
    modeler_type: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


def jmx_blueprint(beans: Callable[[], Iterable[Bean]]) -> Blueprint:
    """Return the blueprint of /jmx with the beans that `beans` returns for each request.

    `qry=PATTERN` selects beans by name (`Hadoop:service=*,name=FSNamesystem`, `Hadoop:*`); if there is no match, the
    list is empty. `get=BEAN::ATTRIBUTE` returns one attribute, or 404 if the bean lacks it. The response to a malformed
    name is 400.
    """
    blueprint = Blueprint("jmx", __name__)

    @blueprint.get("/jmx")
    def get_jmx() -> Response:
        pattern, attribute = request.args.get("qry", "*:*"), None
        if "get" in request.args:
            parts = _split(request.args["get"])
            if len(parts) != 2:
                sentence = "query format is not as expected: get must be BEAN::ATTRIBUTE."
                return _answer(HTTPStatus.BAD_REQUEST, _error(sentence))
            pattern, attribute = parts
        wanted = parse_object_name(pattern)
        found = [bean for bean in beans() if wanted.matches(parse_object_name(bean.name))]
        return _all(found) if attribute is None else _one(found, attribute)

    blueprint.register_error_handler(Exception, _answer_fault)
    return blueprint


def _split(text: str) -> list[str]:
    """Split a bean and its attribute; as in Java, ignore empty parts at the end."""
    parts = text.split("::")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _all(found: list[Bean]) -> Response:
    return _answer(HTTPStatus.OK, {"beans": [_head(bean) | _shown(bean.attributes) for bean in found]})


def _one(found: list[Bean], attribute: str) -> Response:
    shown: list[dict[str, Any]] = []
    for bean in found:
        value = bean.attributes.get(attribute)
        if value is None:
            # as in Hadoop, return only the preceding beans
            shown.append(_head(bean) | _error(f"No attribute with name {attribute} was found."))
            return _answer(HTTPStatus.NOT_FOUND, {"beans": shown})
        shown.append(_head(bean) | {attribute: value})
    return _answer(HTTPStatus.OK, {"beans": shown})


def _head(bean: Bean) -> dict[str, Any]:
    return {"name": bean.name, "modelerType": bean.modeler_type}


def _shown(attributes: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {"name", "modelerType"}
    return {name: value for name, value in attributes.items() if name not in hidden and not set(name) & set("=: ")}


def _error(sentence: str) -> dict[str, Any]:
    return {"result": "ERROR", "message": sentence}


def _answer(status: HTTPStatus, content: Mapping[str, Any]) -> Response:
    # the layout of Jackson's pretty printer, because operators' scripts parse the text with grep and sed
    text = json.dumps(content, indent=2, separators=(",", " : "), default=str)
    answer = Response(text + "\n", status=status, content_type="application/json; charset=utf8")
    answer.headers["Access-Control-Allow-Methods"] = "GET"
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


def _answer_fault(fault: Exception) -> Response:
    if isinstance(fault, MalformedObjectNameError):
        return _answer(HTTPStatus.BAD_REQUEST, _error(f"malformed bean name: {fault}"))
    if isinstance(fault, HTTPException):
        return _answer(HTTPStatus(fault.code or 500), _error(f"{fault.name}: {fault.description}"))
    if isinstance(fault, HdfsError):
        _LOG.error("GET /jmx failed: %s", fault)
        return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, _error(str(fault)))
    _LOG.error("GET /jmx failed because of a bug", exc_info=fault)
    sentence = "the request failed because of a bug in this server; see its log"
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, _error(sentence))
