"""The key pair and trusted certificates that ssl-server.xml and ssl-client.xml name, read from their stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hadoop_common.configuration import Configuration, local_path
from hadoop_common.configuration_xml import read_properties
from hadoop_common.extras import install_hint
from hadoop_common.quantities import parse_time
from hadoop_common.regular_file import read_regular
from hadoop_common.tls.errors import KeyStoreError, TlsSetupError
from hadoop_common.tls.key_store import KeyPair, decode_anchors, decode_key_store
from hadoop_common.tls.passwords import Passwords
from hadoop_common.tls.settings import ClientStores, TlsConfig

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

T = TypeVar("T")

_MAX_STORE_BYTES = 16 << 20
_DEFAULT_INTERVAL = 10.0

# identifies a version of a file; None if the file is missing
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """The inputs of a TLS context, as read at one moment.

    Attributes:
        pair: our key pair, None if we present no certificate.
        pair_file: file of the key.
        anchors: trusted certificates; None to trust the system's authorities.
        excluded: Java names of excluded cipher suites.
        interval: seconds between two checks of the files.
        stamps: stamp of every file, read or missing, at the time of reading.
    """

    pair: KeyPair | None = None
    pair_file: Path | None = None
    anchors: tuple[Certificate, ...] | None = None
    excluded: tuple[str, ...] = ()
    interval: float = _DEFAULT_INTERVAL
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)

    def changed(self) -> bool:
        """Return whether a file has changed since it was read."""
        return any(stamp_of(path) != stamp for path, stamp in self.stamps.items())


def stamp_of(path: Path) -> Stamp:
    """Return the current stamp of a file; treat an unreadable file as missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size, found.st_ino


def server_material(config: TlsConfig) -> TlsMaterial:
    """Load the files for our servers. A key is required; trusted issuers are required only for client certificates.

    Raises:
        TlsSetupError: a file cannot be used; the message gives the reason.
    """
    return _SslFile(config.server_file, "server", config).material(key=True, trust=config.need_client_certificate)


def client_material(config: TlsConfig) -> TlsMaterial:
    """Load the files for connections to servers; without a configured trust store, trust the system's authorities.

    Raises:
        TlsSetupError: a file cannot be used; the message gives the reason.
    """
    if not config.client_file.exists() and not config.offer_certificate:
        return TlsMaterial(stamps={config.client_file: None})
    return _SslFile(config.client_file, "client", config).material(key=config.offer_certificate, trust=True)


def stores_material(stores: ClientStores) -> TlsMaterial:
    """Load separately named stores.

    Raises:
        TlsSetupError: a store cannot be used; the message gives the reason.
    """
    files = [path for path in (stores.key_store, stores.trust_store) if path is not None]
    stamps = {path: stamp_of(path) for path in files}
    pair: KeyPair | None = None
    anchors: tuple[Certificate, ...] | None = None
    where = f"by {stores.keys}.*"
    if stores.key_store is not None:
        name, password = f"{stores.keys}.keystore.password", stores.key_password
        found = _read_store(stores.key_store, lambda data: decode_key_store(data, password), where, name)
        if not found.keys:
            hint = f"Set {stores.keys}.keystore.location to the store that contains the key."
            raise TlsSetupError(f"{stores.key_store} contains no private key", hint=hint)
        pair = found.keys[0]
    if stores.trust_store is not None:
        name, other = f"{stores.keys}.truststore.password", stores.trust_password
        anchors = _read_store(stores.trust_store, lambda data: decode_anchors(data, other), where, name)
    return TlsMaterial(pair=pair, pair_file=stores.key_store, anchors=anchors, stamps=stamps)


def _read_store(path: Path, decode: Callable[[bytes], T], named: str, passwords: str) -> T:
    """Decode a store; hints of errors use `named` and `passwords`, the places that configure its path and passwords."""
    try:
        return decode(read_regular(path, _MAX_STORE_BYTES))
    except OSError as fault:
        raise TlsSetupError(
            f"the store {path} cannot be read: {fault.strerror or fault}",
            hint=f"Check its path {named}, and that the user of this process may read it.",
        ) from fault
    except KeyStoreError as fault:
        raise TlsSetupError(
            f"the store {path} cannot be used: {fault.message}",
            hint=f"Check {passwords}, and the store with keytool -list.",
        ) from fault
    except ImportError as fault:
        raise TlsSetupError(
            f"the store {path} cannot be used: the Python package cryptography, which reads it, is not installed",
            hint=install_hint("tls"),
        ) from fault


class _SslFile:
    """Settings in ssl-server.xml or ssl-client.xml.

    As in Hadoop, the file does not inherit from core-site.xml, so credential providers set in core-site.xml have no
    effect.
    """

    def __init__(self, path: Path, mode: str, config: TlsConfig) -> None:
        self._path = path
        self._mode = mode
        self._stamps: dict[Path, Stamp] = {path: stamp_of(path)}
        if not path.exists():
            raise TlsSetupError(
                f"{path} is missing; it names the key store of our HTTPS {mode}s",
                hint="Copy it from a NameNode's configuration, or set dfs.http.policy to HTTP_ONLY.",
            )
        self._settings = Configuration(read_properties(path), os.environ)
        self._passwords = Passwords(self._settings, config.folder or path.parent, os.environ)
        self._stamps |= {file: stamp_of(file) for file in self._passwords.files}

    def material(self, *, key: bool, trust: bool) -> TlsMaterial:
        pair_file, pair = self._key() if key else (None, None)
        anchors = self._anchors() if trust else None
        return TlsMaterial(
            pair=pair,
            pair_file=pair_file,
            anchors=anchors,
            excluded=tuple(self._settings.get_list(self._name("exclude.cipher.list"))),
            interval=self._interval(),
            stamps=self._stamps,
        )

    def _key(self) -> tuple[Path, KeyPair]:
        name = self._name("keystore.location")
        path = self._location(name)
        if path is None:
            raise TlsSetupError(f"{self._path} names no {name}", hint="Set this key to the path of the key store.")
        password = self._required(self._name("keystore.password"))
        own = self._passwords.find(self._name("keystore.keypassword"))
        found = self._read(
            path, lambda data: decode_key_store(data, password, own), "keystore.password and keypassword"
        )
        if not found.keys:
            raise TlsSetupError(
                f"{path} contains no private key", hint=f"Set {name} to the store that contains the key."
            )
        return path, found.keys[0]

    def _anchors(self) -> tuple[Certificate, ...] | None:
        path = self._location(self._name("truststore.location"))
        if path is None:
            if self._mode == "server":
                raise TlsSetupError(
                    f"{self._path} does not set ssl.server.truststore.location, although client certificates are "
                    f"requested",
                    hint="Set it to a store with the certificates' issuers, or unset dfs.client.https.need-auth.",
                )
            return None
        password = self._passwords.find(self._name("truststore.password"))
        found = self._read(path, lambda data: decode_anchors(data, password), "truststore.password")
        if not found:
            raise TlsSetupError(f"{path} contains no certificate", hint="Import the issuers: keytool -importcert.")
        return found

    def _read(self, path: Path, decode: Callable[[bytes], T], keys: str) -> T:
        self._stamps[path] = stamp_of(path)
        return _read_store(path, decode, f"in {self._path}", f"ssl.{self._mode}.{keys} in {self._passwords.sources()}")

    def _required(self, name: str) -> str:
        found = self._passwords.find(name)
        if found is None:
            raise TlsSetupError(
                f"{name} of {self._path} was not found in {self._passwords.sources()}",
                hint="Set it there, or specify its credential provider in this file.",
            )
        return found

    def _location(self, name: str) -> Path | None:
        text = self._settings.get(name, "")
        if not text:
            return None
        try:
            return local_path(text)
        except ValueError as fault:
            raise TlsSetupError(f"{self._path}: {name} {fault}", hint="Specify an absolute path.") from fault

    def _interval(self) -> float:
        for name in ("stores.reload.interval", "truststore.reload.interval"):
            text = self._settings.get(self._name(name), "")
            if text:
                try:
                    return max(0.001, parse_time(text, "ms"))
                except ValueError as fault:
                    raise TlsSetupError(
                        f"{self._path}: {self._name(name)} {fault}", hint="Specify milliseconds."
                    ) from fault
        return _DEFAULT_INTERVAL

    def _name(self, name: str) -> str:
        return f"ssl.{self._mode}.{name}"
