"""TLS of this process: one set of files for its servers and one for its connections, reloaded when they change.

A replaced store takes effect at the next check, without a restart. New connections then use a new context, and existing
connections continue. If a new store is unusable, the process keeps the previous store and logs the fault.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.recurring_fault import with_next
from hadoop_common.tls.contexts import checks_host, client_context, server_context
from hadoop_common.tls.errors import HandshakeError
from hadoop_common.tls.material import TlsMaterial, client_material, server_material
from hadoop_common.tls.settings import TlsConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsStoreState:
    """State of one set of TLS files. `side` is server or client; times are in seconds since the epoch.

    Attributes:
        own_end: expiry of our certificate, None if we do not present a certificate.
        anchors_end: earliest expiry of the trusted certificates, None if the system's authorities are trusted.
        fault: reason why the process does not use changed files, "" if it uses all files.
    """

    side: str
    own_end: float | None
    anchors_end: float | None
    fault: str


class _ReloadingTls:
    """TLS material that is reloaded when its files change, with the contexts made from it; thread-safe."""

    def __init__(self, side: str, load: Callable[[], TlsMaterial]) -> None:
        self._side = side
        self._load = load
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self.fault = ""
        self.material = load()
        self._adopt(self.material)
        self._log_certificate()

    def reload_if_changed(self, *, now: bool = False) -> None:
        """Reload changed files if their interval has passed, or if `now` is true."""
        with self._lock:
            if not now and time.monotonic() < self._looked_at + self.material.interval:
                return
            self._looked_at = time.monotonic()
            if not self.material.changed():
                return
            try:
                found = self._load()
                self._adopt(found)
            except Exception as fault:
                # checks must continue after any failure, such as the limit on open files or a bug
                known, expected_message = as_hdfs_error(fault), error_text(fault) or type(fault).__name__
                if expected_message != self.fault:
                    problem = f"changed TLS files cannot be used; the previous files stay active: {expected_message}"
                    hint = "" if known is None else known.hint
                    _LOG.error("%s", with_next(problem, hint), exc_info=fault if known is None else None)
                self.fault = expected_message
                return
            self.fault, self.material = "", found
            self._log_certificate()

    @property
    def interval(self) -> float:
        """Seconds between two checks."""
        return self.material.interval

    @property
    def state(self) -> TlsStoreState:
        pair, anchors = self.material.pair, self.material.anchors
        ends = [each.not_valid_after_utc.timestamp() for each in anchors or ()]
        own = None if pair is None else pair.chain[0].not_valid_after_utc.timestamp()
        return TlsStoreState(self._side, own, min(ends, default=None), self.fault)

    def _adopt(self, material: TlsMaterial) -> None:
        """Adopt the material and build the contexts from it; raise TlsSetupError on failure."""
        raise NotImplementedError

    def _log_certificate(self) -> None:
        if self.material.pair is not None:
            own = self.material.pair.chain[0]
            ended = own.not_valid_after_utc <= datetime.now(UTC)
            _LOG.log(
                logging.ERROR if ended else logging.INFO,
                "TLS as %s: the certificate of %s in %s %s on %s",
                self._side,
                own.subject.rfc4514_string(),
                self.material.pair_file,
                "expired" if ended else "expires",
                own.not_valid_after_utc.date(),
            )


class ServerTls(_ReloadingTls):
    """TLS of our servers.

    Attributes:
        context: context for the next connection.

    Raises:
        TlsSetupError: the files cannot be used.
    """

    context: ssl.SSLContext

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        super().__init__("server", lambda: server_material(config))

    def _adopt(self, material: TlsMaterial) -> None:
        self.context = server_context(material, self._config)


class ClientTls(_ReloadingTls):
    """TLS of connections to servers.

    Args:
        load: loads the material; None uses ssl-client.xml.

    Raises:
        TlsSetupError: the files cannot be used.
    """

    def __init__(self, config: TlsConfig, load: Callable[[], TlsMaterial] | None = None) -> None:
        self.config = config
        super().__init__("client", load or (lambda: client_material(config)))

    def context(self, host: str, sockets: type[ssl.SSLSocket]) -> ssl.SSLContext:
        """Return the context for a connection to `host` that uses sockets of the class `sockets`."""
        self.reload_if_changed()
        with self._lock:
            which = (checks_host(self.config.verifier, host), sockets)
            found = self._contexts.get(which)
            if found is None:
                found = self._contexts[which] = self._made(self.material, *which)
            return found

    def _adopt(self, material: TlsMaterial) -> None:
        which = (True, ssl.SSLSocket)
        self._contexts = {which: self._made(material, *which)}

    def _made(self, material: TlsMaterial, check_host: bool, sockets: type[ssl.SSLSocket]) -> ssl.SSLContext:
        made = client_context(material, self.config, check_host=check_host)
        made.sslsocket_class = sockets
        return made


_lock = threading.Lock()
_client: ClientTls | TlsConfig = TlsConfig()
_servers: list[ServerTls] = []


def use_client(config: TlsConfig, *, at_once: bool = False) -> None:
    """Use `config` for all later connections; read its files at the first connection, or immediately if `at_once` is
    true.

    If `config` is unchanged, its active files remain active, because changed files may be faulty.

    Raises:
        TlsSetupError: the files cannot be used.
    """
    global _client  # noqa: PLW0603 - state of the process, as its login is
    with _lock:
        if isinstance(_client, ClientTls) and _client.config == config:
            return
        _client = ClientTls(config) if at_once else config


def context_for(host: str, sockets: type[ssl.SSLSocket] = ssl.SSLSocket) -> ssl.SSLContext:
    """Return the context for a connection of this process to `host`; see `ClientTls.context`.

    Raises:
        HandshakeError: the files of the configuration cannot be used.
    """
    global _client  # noqa: PLW0603 - see above
    try:
        with _lock:
            if isinstance(_client, TlsConfig):
                _client = ClientTls(_client)
            return _client.context(host, sockets)
    except HdfsError as fault:
        raise HandshakeError(f"TLS cannot be used: {fault.message}; {fault.hint}") from fault


def set_in_use(server: ServerTls, *, now: bool) -> None:
    with _lock:
        if now:
            _servers.append(server)
        elif server in _servers:
            _servers.remove(server)


def reload_changed_stores() -> None:
    for each in _in_use():
        each.reload_if_changed(now=True)


def store_states() -> list[TlsStoreState]:
    """Return the states of all sets of files in use."""
    return [each.state for each in _in_use()]


def _in_use() -> list[_ReloadingTls]:
    with _lock:
        return [*_servers, *([_client] if isinstance(_client, ClientTls) else [])]


class _Handshakes:
    """Counts of handshakes of this process by side and result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, side: str, result: str) -> None:
        """Count a handshake; `side` is server or client, and `result` is ok or a one-word reason."""
        with self._lock:
            self._counts[side, result] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


HANDSHAKES = _Handshakes()
