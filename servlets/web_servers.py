"""The web servers of a process for one application: HTTP, HTTPS or both, according to dfs.http.policy."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from hadoop_common.lifetimes import Startable
from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.tls.reloading import ServerTls
from hadoop_common.tls.settings import WebAddresses
from servlets.http_connection import DEFAULT_HEADER_BYTES
from servlets.http_server import HttpServer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class WebServers(Startable):
    """Servers of an application; a context manager.

    Raises:
        TlsSetupError: the files for HTTPS cannot be used.
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
        """Start serving.

        Raises:
            HttpServerError: an address cannot be used.
        """
        with ExitStack() as started:
            for each in self._servers:
                started.enter_context(each)
            self._running = started.pop_all()

    def stop(self) -> None:
        """Stop all servers; idempotent."""
        self._running.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first server."""
        return self._servers[0].address

    @property
    def url(self) -> str:
        """The URL of the first server: `http://host:port`, or https if there is no HTTP server."""
        return self._servers[0].url

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self._servers]
