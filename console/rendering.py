"""HTML responses of the console: its templates, and the headers of every response."""

from __future__ import annotations

import functools
from typing import Final

from flask import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from console.assets import console_script, console_style
from console.model import RUNBOOK
from console.words import code_marked

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def html_answer(text: str) -> Response:
    answer = Response(text, content_type="text/html; charset=utf-8")
    answer.headers["Cache-Control"] = "no-store"
    return secured(answer)


def secured(answer: Response) -> Response:
    answer.headers.update(_HEADERS)
    return answer


def render(template: str, **values: object) -> str:
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
    """Return a version for the URLs of the style sheet and the script, so that a browser may cache both."""
    import hashlib

    return hashlib.sha256((console_style() + console_script()).encode()).hexdigest()[:12]
