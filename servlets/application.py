"""The Flask application that serves the blueprints of a process."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException

from hadoop_common.file_faults import explained
from servlets.change_guard import ChangeGuard
from servlets.errors import ServletError

if TYPE_CHECKING:
    from servlets.entrance import Entrance

_LOG = logging.getLogger(__name__)

_MAX_REASON = 250
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


def sentence_response(status: int, sentence: str) -> Response:
    """Return an answer with `sentence` and a newline as plain text.

    A refusal also has the sentence in its status line, since Hadoop's clients log only that.
    """
    line: int | str = status if status < 400 else f"{int(status)} {_reason(sentence)}"
    return Response(sentence + "\n", status=line, content_type="text/plain; charset=utf-8")


def create_application(
    *blueprints: Blueprint, guard: ChangeGuard | None = None, entrance: Entrance | None = None
) -> Flask:
    """Make an application of `blueprints` that answers any fault with one plain sentence and no traceback.

    Args:
        guard: decides which hosts may request changes; by default only this host.
        entrance: authenticates callers, if required.
    """
    guard = guard or ChangeGuard()
    application = Flask("servlets", static_folder=None, template_folder=None)
    application.config["MAX_CONTENT_LENGTH"] = None
    for blueprint in blueprints:
        application.register_blueprint(blueprint)

    if entrance is not None:
        entrance.guard(application)

    @application.before_request
    def check() -> Response | None:
        problem = guard.refusal(request)
        if not problem:
            return None
        _LOG.warning("%s %s of %s is refused: %s", request.method, request.path, request.remote_addr, problem)
        return sentence_response(HTTPStatus.FORBIDDEN, problem)

    @application.errorhandler(ServletError)
    def refused(fault: ServletError) -> Response:
        return sentence_response(fault.status, str(fault))

    @application.errorhandler(HTTPException)
    def standard(fault: HTTPException) -> Response:
        answer = sentence_response(fault.code or 500, f"{fault.name}: {fault.description}")
        for name, value in fault.get_headers():
            if name.lower() not in ("content-type", "content-length"):
                answer.headers[name] = value
        return answer

    @application.errorhandler(Exception)
    def unexpected(fault: Exception) -> Response:
        known = explained(fault)
        if known is not None:
            _LOG.error("a request failed: %s", known)
            return sentence_response(500, known.message)
        _LOG.error("a request failed because of a bug", exc_info=fault)
        return sentence_response(500, "the request failed because of a bug in this server, see its log")

    return application


def _reason(sentence: str) -> str:
    text = " ".join(_UNPRINTABLE.sub(" ", sentence.encode("ascii", "replace").decode("ascii")).split())
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."
