"""The routes of the console: GET / and further pages, their style and script, and the documents.

All links are relative, so that a proxy may serve the console below any path. Each rendered page is cached for a second:
with any number of browsers, a page is rendered at most once a second, and never without a browser.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, abort, g, request
from jinja2 import Environment, PackageLoader, StrictUndefined
from werkzeug.exceptions import HTTPException

from console.assets import console_script, console_style
from console.model import RUNBOOK, Level, NodePage, without_paths
from console.report_panel import FOLDER, report_response
from console.runbook import document
from console.server_pages import page_of
from console.sources import BriefCache, ConsoleSources, PageSource
from console.words import code_marked, time_text
from hadoop_common.access import AccessControl, Resource
from servlets.change_guard import FORM_TOKEN, ChangeGuard, sent_form
from servlets.http_authenticator import request_caller, restrict

_CACHE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 2
_RELOAD_SECONDS: Final = 10
_DAY: Final = 86_400
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class Administrators:
    """Rule that decides which readers are administrators: only they see log lines, the configuration and paths."""

    def __init__(self, access: AccessControl, guard: ChangeGuard) -> None:
        self._access = access
        self._guard = guard

    def is_caller(self) -> bool:
        """Return whether the caller is an administrator: with Kerberos by access lists, else by the caller's host."""
        if self._access.by_name:
            caller = request_caller()
            return caller is not None and self._access.allows(caller, Resource.CONTROL)
        return self._guard.is_operator(request)


def console_blueprint(sources: ConsoleSources, access: AccessControl, guard: ChangeGuard | None = None) -> Blueprint:
    """Make the blueprint of the console.

    Args:
        access: rules for the users who may read the console, as for /status, and for administrators with Kerberos.
        guard: guard of the application; it decides which hosts are administrators without Kerberos, by default only
            this host.
    """
    blueprint = Blueprint("console", __name__)
    guard = guard or ChangeGuard()
    administrators = Administrators(access, guard)
    actions = {each.name: each for each in sources.actions}
    cache: BriefCache[str] = BriefCache(_CACHE_SECONDS)

    def show(name: str, make: Callable[[bool], NodePage]) -> Response:
        administrator, still = administrators.is_caller(), request.args.get("refresh") == "off"
        text = cache.get((name, administrator, still), lambda: _page(name, make, administrator, still))
        if text is None:
            abort(HTTPStatus.SERVICE_UNAVAILABLE, "the state is still being read: is a disk or a mount stuck?")
        return _answer(text)

    def _page(name: str, make: Callable[[bool], NodePage], administrator: bool, still: bool) -> str:
        page = make(administrator)
        return _render(
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

    def overview(administrator: bool) -> NodePage:
        found = sources.overview()
        page = found if isinstance(found, NodePage) else page_of(found, time.time())
        more = sources.private_panels() if administrator else ()
        shown = tuple(panel for panel in page.panels if not panel.folded)
        folded = tuple(panel for panel in page.panels if panel.folded)
        return replace(page, panels=(*shown, *sources.panels(), *more, *folded))

    @blueprint.get("/")
    def get_overview() -> Response:
        return show("", overview)

    for key, (title, source) in sources.pages.items():

        def make(administrator: bool, title: str = title, source: PageSource = source) -> NodePage:
            found = source()
            return found if isinstance(found, NodePage) else NodePage(title, "", "", Level.NEUTRAL, panels=tuple(found))

        blueprint.add_url_rule(f"/console/{key}", key, functools.partial(show, key, make))

    @blueprint.get("/console/confirm")
    def get_confirmation() -> Response:
        action = actions.get(request.args.get("action", ""))
        if action is None:
            abort(HTTPStatus.NOT_FOUND)
        if not administrators.is_caller():
            abort(HTTPStatus.FORBIDDEN, "actions are for administrators")
        token = (FORM_TOKEN, guard.form_token)
        return _answer(_render("confirm.html.j2", action=action, values=request.args, token=token))

    @blueprint.get(f"/{FOLDER}/<name>")
    def get_report(name: str) -> Response:
        if not administrators.is_caller():
            abort(HTTPStatus.FORBIDDEN, "reports are for administrators")
        found = report_response(sources.reports, name)
        if found is None:
            abort(HTTPStatus.NOT_FOUND)
        found.headers["Cache-Control"] = "no-store"
        return found

    @blueprint.after_app_request
    def show_result(answer: Response) -> Response:
        # a browser without the script shows the response to its form; the body of a refused request is not read
        if request.method != "POST" or "accepted" not in g or not _has_token():
            return answer
        found = answer.get_json(silent=True)
        message = found.get("message") if isinstance(found, dict) else answer.get_data(as_text=True)
        level = Level.GOOD if answer.status_code < HTTPStatus.BAD_REQUEST else Level.FAULT
        root = "../" * (request.path.count("/") - 1)
        shown = _answer(_render("result.html.j2", root=root, message=message, level=level))
        shown.status_code = answer.status_code
        return shown

    @blueprint.get("/console/<asset>")
    def get_asset(asset: str) -> Response:
        found = {"console.css": (console_style, "text/css"), "console.js": (console_script, "text/javascript")}
        if asset not in found:
            abort(HTTPStatus.NOT_FOUND)
        make, kind = found[asset]
        answer = Response(make(), content_type=f"{kind}; charset=utf-8")
        answer.headers["Cache-Control"] = f"private, max-age={_DAY}" if "v" in request.args else "no-cache"
        return _secured(answer)

    @blueprint.get("/docs/<name>")
    def get_document(name: str) -> Response:
        found = document(name)
        if found is None:
            abort(HTTPStatus.NOT_FOUND)
        return _answer(_render("document.html.j2", document=found))

    return restrict(blueprint, access, Resource.STATE)


def _has_token() -> bool:
    try:
        return FORM_TOKEN in sent_form(request)
    except HTTPException:
        # the body was truncated
        return False


def _answer(text: str) -> Response:
    answer = Response(text, content_type="text/html; charset=utf-8")
    answer.headers["Cache-Control"] = "no-store"
    return _secured(answer)


def _secured(answer: Response) -> Response:
    answer.headers.update(_HEADERS)
    return answer


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(runbook=RUNBOOK, version=_version(), **values)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["code"] = code_marked
    return environment


@functools.cache
def _version() -> str:
    """Return a name for the present style and script, under which a browser may cache them."""
    import hashlib

    return hashlib.sha256((console_style() + console_script()).encode()).hexdigest()[:12]
