"""The HTTP application of a NameNode, which changes with its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from servlets.application import create_application

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class SwitchableApplication:
    """Forwards each request to the current `application`, initially one without routes."""

    def __init__(self) -> None:
        self.application: WSGIApplication = create_application()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self.application(environ, start_response)
