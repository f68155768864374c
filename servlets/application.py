"""The Flask application that serves the blueprints of a process."""

from __future__ import annotations

import logging
from http import HTTPStatus

from flask import Blueprint, Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from hadoop_common.file_faults import as_hdfs_error
from servlets.change_guard import ChangeGuard
from servlets.errors import ServletError, sentence_response
from servlets.http_authenticator import HttpAuthenticator

_LOG = logging.getLogger(__name__)


def create_application(
    *blueprints: Blueprint, guard: ChangeGuard | None = None, authenticator: HttpAuthenticator | None = None
) -> Flask:
    """Return an application of `blueprints`, which responds to any fault with one plain sentence without a traceback.

    The application sets `flask.g.accepted` while it handles a request that the guard accepted.

    Args:
        guard: decides which hosts may request changes; by default only this host.
        authenticator: authenticates callers, if required.
    """
    guard = guard or ChangeGuard()
    application = Flask("servlets", static_folder=None, template_folder=None)
    application.config["MAX_CONTENT_LENGTH"] = None
    for blueprint in blueprints:
        application.register_blueprint(blueprint)

    if authenticator is not None:
        authenticator.guard(application)

    @application.before_request
    def check() -> Response | None:
        problem = guard.refusal(request)
        if not problem:
            g.accepted = True
            return None
        _LOG.warning("%s %s from %s is refused: %s", request.method, request.path, request.remote_addr, problem)
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
        known = as_hdfs_error(fault)
        if known is not None:
            _LOG.error("a request failed: %s", known)
            return sentence_response(500, known.message)
        _LOG.error("a request failed because of a bug", exc_info=fault)
        return sentence_response(500, "the request failed because of a bug in this server; see its log")

    return application
