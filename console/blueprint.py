"""The routes of the console: GET / and further pages, their style and script, and the documents.

All links are relative, so that a proxy may serve the console below any path. A cache keeps each rendered page for one
second. However many browsers show a page, the program renders it at most once per second, and only on request.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, abort, g, request
from werkzeug.exceptions import HTTPException

from console.assets import console_script, console_style
from console.model import Level, NodePage, without_paths
from console.rendering import html_answer, render, secured
from console.report_panel import FOLDER, report_response
from console.runbook import document
from console.server_pages import page_of
from console.sources import BriefCache, ConsoleSources
from console.words import time_text
from hadoop_common.access import AccessControl, Resource
from servlets.change_guard import FORM_TOKEN, ChangeGuard, sent_form
from servlets.http_authenticator import request_caller, restrict

_CACHE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 2
_RELOAD_SECONDS: Final = 10
_DAY: Final = 86_400


class Administrators:
    """Rule that identifies administrators; other users do not see log lines, the configuration or paths."""

    def __init__(self, access: AccessControl, guard: ChangeGuard) -> None:
        self._access = access
        self._guard = guard

    def is_caller(self) -> bool:
        """Return whether the caller is an administrator; access lists (with Kerberos) or the caller's host decide."""
        if self._access.by_name:
            caller = request_caller()
            return caller is not None and self._access.allows(caller, Resource.CONTROL)
        return self._guard.is_operator(request)


def console_blueprint(sources: ConsoleSources, access: AccessControl, guard: ChangeGuard | None = None) -> Blueprint:
    """Create the blueprint of the console.

    Args:
        access: rules for the users who may read the console, as for /status, and for administrators with Kerberos.
        guard: change guard of the application; without Kerberos, it decides which hosts are administrators (by default,
            only this host).
    """
    routes = ConsoleRoutes(sources, access, guard or ChangeGuard())
    blueprint = Blueprint("console", __name__)
    blueprint.add_url_rule("/", "overview", routes.get_overview)
    for key in sources.pages:
        blueprint.add_url_rule(f"/console/{key}", key, functools.partial(routes.get_page, key))
    blueprint.add_url_rule("/console/confirm", "confirmation", routes.get_confirmation)
    blueprint.add_url_rule(f"/{FOLDER}/<name>", "report", routes.get_report)
    blueprint.add_url_rule("/console/<asset>", "asset", get_asset)
    blueprint.add_url_rule("/docs/<name>", "document", get_document)
    blueprint.after_app_request(show_result)
    return restrict(blueprint, access, Resource.STATE)


class ConsoleRoutes:
    """The routes that depend on the program's sources and on the caller."""

    def __init__(self, sources: ConsoleSources, access: AccessControl, guard: ChangeGuard) -> None:
        self._sources = sources
        self._guard = guard
        self._administrators = Administrators(access, guard)
        self._cache: BriefCache[str] = BriefCache(_CACHE_SECONDS)

    def get_overview(self) -> Response:
        return self._show("", self._overview)

    def get_page(self, name: str) -> Response:
        return self._show(name, lambda administrator: self._further_page(name))

    def get_confirmation(self) -> Response:
        name = request.args.get("action", "")
        action = next((each for each in self._sources.actions if each.name == name), None)
        if action is None:
            abort(HTTPStatus.NOT_FOUND)
        if not self._administrators.is_caller():
            abort(HTTPStatus.FORBIDDEN, "actions are for administrators")
        token = (FORM_TOKEN, self._guard.form_token)
        return html_answer(render("confirm.html.j2", action=action, values=request.args, token=token))

    def get_report(self, name: str) -> Response:
        if not self._administrators.is_caller():
            abort(HTTPStatus.FORBIDDEN, "reports are for administrators")
        found = report_response(self._sources.reports, name)
        if found is None:
            abort(HTTPStatus.NOT_FOUND)
        found.headers["Cache-Control"] = "no-store"
        return found

    def _show(self, name: str, make: Callable[[bool], NodePage]) -> Response:
        administrator, still = self._administrators.is_caller(), request.args.get("refresh") == "off"
        text = self._cache.get((name, administrator, still), lambda: self._page(name, make, administrator, still))
        if text is None:
            abort(HTTPStatus.SERVICE_UNAVAILABLE, "the state is still being read: is a disk or a mount stuck?")
        return html_answer(text)

    def _page(self, name: str, make: Callable[[bool], NodePage], administrator: bool, still: bool) -> str:
        page, sources = make(administrator), self._sources
        return render(
            "page.html.j2",
            page=page if administrator else without_paths(page),
            name=name,
            pages={key: title for key, (title, _) in sources.pages.items()},
            administrator=administrator,
            alarm_actions=[each for each in sources.actions if each.on_alarm and administrator and not name],
            still=still,
            now=time_text(time.time()),
            poll=_POLL_SECONDS,
            reload=_RELOAD_SECONDS,
        )

    def _overview(self, administrator: bool) -> NodePage:
        found = self._sources.overview()
        page = found if isinstance(found, NodePage) else page_of(found, time.time())
        more = self._sources.private_panels() if administrator else ()
        shown = tuple(panel for panel in page.panels if not panel.folded)
        folded = tuple(panel for panel in page.panels if panel.folded)
        return replace(page, panels=(*shown, *self._sources.panels(), *more, *folded))

    def _further_page(self, name: str) -> NodePage:
        title, source = self._sources.pages[name]
        found = source()
        return found if isinstance(found, NodePage) else NodePage(title, "", "", Level.NEUTRAL, panels=tuple(found))


def get_asset(asset: str) -> Response:
    found = {"console.css": (console_style, "text/css"), "console.js": (console_script, "text/javascript")}
    if asset not in found:
        abort(HTTPStatus.NOT_FOUND)
    make, kind = found[asset]
    answer = Response(make(), content_type=f"{kind}; charset=utf-8")
    answer.headers["Cache-Control"] = f"private, max-age={_DAY}" if "v" in request.args else "no-cache"
    return secured(answer)


def get_document(name: str) -> Response:
    found = document(name)
    if found is None:
        abort(HTTPStatus.NOT_FOUND)
    return html_answer(render("document.html.j2", document=found))


def show_result(answer: Response) -> Response:
    """Return `answer`, as a page if a browser without JavaScript sent the form. The body of a refused request is not
    read.
    """
    if request.method != "POST" or "accepted" not in g or not _has_token():
        return answer
    found = answer.get_json(silent=True)
    message = found.get("message") if isinstance(found, dict) else answer.get_data(as_text=True)
    level = Level.GOOD if answer.status_code < HTTPStatus.BAD_REQUEST else Level.FAULT
    root = "../" * (request.path.count("/") - 1)
    shown = html_answer(render("result.html.j2", root=root, message=message, level=level))
    shown.status_code = answer.status_code
    return shown


def _has_token() -> bool:
    try:
        return FORM_TOKEN in sent_form(request)
    except HTTPException:
        # the body was truncated
        return False
