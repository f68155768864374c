"""The web servers of one process: HTTP, HTTPS, or both, as dfs.http.policy says, over one application."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.tls.process import ServerTls
from hadoop_common.tls.settings import WebAddresses
from servlets.http_connection import DEFAULT_HEADER_BYTES
from servlets.http_server import HttpServer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class WebServers:
    """A context manager that serves.

    Raises:
        TlsSetupError: what HTTPS needs cannot be used.
    """

    def __init__(
        self,
        application: WSGIApplication,
        addresses: WebAddresses,
        *,
        limits: PortLimits,
        refusals: Refusals,
        header_bytes: int = DEFAULT_HEADER_BYTES,
    ) -> None:
        def server(address: tuple[str, int], tls: ServerTls | None) -> HttpServer:
            return HttpServer(
                application, *address, limits=limits, refusals=refusals, tls=tls, header_bytes=header_bytes
            )

        self._servers = [] if addresses.http is None else [server(addresses.http, None)]
        if addresses.https is not None:
            self._servers.append(server(addresses.https, ServerTls(addresses.tls)))
        self._running = ExitStack()

    def start(self) -> None:
        """Serve.

        Raises:
            HttpServerError: an address cannot be used.
        """
        with ExitStack() as started:
            for each in self._servers:
                started.enter_context(each)
            self._running = started.pop_all()

    def stop(self) -> None:
        """End what runs; idempotent."""
        self._running.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first."""
        return self._servers[0].address

    @property
    def url(self) -> str:
        """`http://host:port` of the first, https where there is no other."""
        return self._servers[0].url

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self._servers]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
