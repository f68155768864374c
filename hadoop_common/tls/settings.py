"""Hadoop's TLS keys in core-site.xml and hdfs-site.xml; two separate files name the stores and passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TypeVar

from hadoop_common.config_key import NAMES, SWITCH, ConfigKey, keys_in, parsed, text
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector

E = TypeVar("E", bound=Enum)
VERSIONS = ("TLSv1.2", "TLSv1.3")
"""Supported versions; configured older versions have no effect."""


class Verifier(Enum):
    """Modes of host name verification, under Hadoop's names."""

    DEFAULT = "DEFAULT"
    DEFAULT_AND_LOCALHOST = "DEFAULT_AND_LOCALHOST"
    STRICT = "STRICT"
    STRICT_IE6 = "STRICT_IE6"
    ALLOW_ALL = "ALLOW_ALL"


class HttpPolicy(Enum):
    """Protocols of servers; clients prefer plain HTTP if a server has both (HttpConfig.Policy)."""

    HTTP_ONLY = "HTTP_ONLY"
    HTTPS_ONLY = "HTTPS_ONLY"
    HTTP_AND_HTTPS = "HTTP_AND_HTTPS"

    @property
    def plain(self) -> bool:
        return self is not HttpPolicy.HTTPS_ONLY

    @property
    def secure(self) -> bool:
        return self is not HttpPolicy.HTTP_ONLY


def _choice(kind: type[E], value: str) -> E:
    try:
        return kind(value.upper())
    except ValueError as fault:
        raise ValueError(f"is not one of {', '.join(each.value for each in kind)}") from fault


HTTP_POLICY = ConfigKey(
    "dfs.http.policy",
    "HTTP_ONLY",
    parsed("policy", partial(_choice, HttpPolicy)),
    "Protocols of servers, including ours: HTTP_ONLY, HTTPS_ONLY or HTTP_AND_HTTPS. Transfers use https with "
    "HTTPS_ONLY.",
)
SERVER_FILE = ConfigKey(
    "dfs.https.server.keystore.resource",
    "ssl-server.xml",
    text("file"),
    "File next to hdfs-site.xml that names the key store and the trust store of our servers.",
)
CLIENT_FILE = ConfigKey(
    "hadoop.ssl.client.conf",
    "ssl-client.xml",
    text("file"),
    "File next to hdfs-site.xml that names the stores for connections to other servers.",
)
NEED_CLIENT_CERTIFICATE = ConfigKey(
    "dfs.client.https.need-auth", "false", SWITCH, "Whether our HTTPS servers require a certificate from their clients."
)
OFFER_CERTIFICATE = ConfigKey(
    "hadoop.ssl.require.client.cert",
    "false",
    SWITCH,
    "Whether we send servers the certificate in the key store of ssl-client.xml.",
)
HOSTNAME_VERIFIER = ConfigKey(
    "hadoop.ssl.hostname.verifier",
    "DEFAULT",
    parsed("verifier", partial(_choice, Verifier)),
    "Servers whose names are compared with their certificates: all, or all but localhost (DEFAULT_AND_LOCALHOST).",
)
ALLOW_ALL_HOSTS = ConfigKey(
    "checkpointer.tls.allow-all-hosts",
    "false",
    SWITCH,
    "Whether the ALLOW_ALL verifier is accepted, with which any trusted server can impersonate any other. "
    "Specific to the checkpointer.",
)
PROTOCOLS = ConfigKey(
    "hadoop.ssl.enabled.protocols",
    "TLSv1.2",
    NAMES,
    "Versions of TLS; only TLSv1.2 and TLSv1.3 are supported, and both are used if no file sets the key.",
    release2="TLSv1",
)

TLS_KEYS = keys_in(globals())


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS settings without the passwords; the code that reads the stores also reads the passwords.

    Attributes:
        folder: folder of the configuration; None if there is none.
        server_file, client_file: ssl-server.xml and ssl-client.xml, one of which may be missing.
        need_client_certificate: whether our servers require a certificate from their clients.
        offer_certificate: whether we present our certificate to servers.
        versions: enabled versions of TLS, at least one of `VERSIONS`.
    """

    folder: Path | None = None
    server_file: Path = Path(SERVER_FILE.default)
    client_file: Path = Path(CLIENT_FILE.default)
    need_client_certificate: bool = False
    offer_certificate: bool = False
    verifier: Verifier = Verifier.DEFAULT
    versions: tuple[str, ...] = VERSIONS


@dataclass(frozen=True, slots=True)
class WebAddresses:
    """Host and port of the HTTP and HTTPS servers; at most one of them is None."""

    http: tuple[str, int] | None
    https: tuple[str, int] | None = None
    tls: TlsConfig = TlsConfig()

    @property
    def first(self) -> tuple[str, int]:
        """The address at which to call this process: the HTTP address if there is one, as Hadoop's clients choose."""
        found = self.http or self.https
        assert found is not None
        return found


def tls_config(settings: Configuration, policy: HttpPolicy, faults: FaultCollector) -> TlsConfig:
    """Read the keys of both files; add faults to `faults` if `policy` uses TLS.

    Otherwise, defaults replace faulty values without a fault, because Hadoop does not read these keys.
    """
    if not policy.secure:
        faults = FaultCollector()
    folder = settings.folder or Path()
    return TlsConfig(
        folder=settings.folder,
        server_file=folder / SERVER_FILE.take(settings, faults),
        client_file=folder / CLIENT_FILE.take(settings, faults),
        need_client_certificate=NEED_CLIENT_CERTIFICATE.take(settings, faults),
        offer_certificate=OFFER_CERTIFICATE.take(settings, faults),
        verifier=faults.take(lambda: _read_verifier(settings), Verifier.DEFAULT),
        versions=faults.take(lambda: _read_versions(settings), VERSIONS),
    )


def _read_verifier(settings: Configuration) -> Verifier:
    verifier = HOSTNAME_VERIFIER.read(settings)
    if verifier is Verifier.ALLOW_ALL and not ALLOW_ALL_HOSTS.read(settings):
        problem = f"lets any server impersonate any other; set {ALLOW_ALL_HOSTS.name} to true if that is intended"
        raise ConfigurationError([settings.fault(HOSTNAME_VERIFIER.name, problem)])
    return verifier


def _read_versions(settings: Configuration) -> tuple[str, ...]:
    if PROTOCOLS.name not in settings:
        return VERSIONS
    named = PROTOCOLS.read(settings)
    # ignore older versions, such as TLSv1 in configurations for Hadoop 2.7
    found = tuple(each for each in VERSIONS if each in named)
    if not found:
        raise ConfigurationError([settings.fault(PROTOCOLS.name, f"names none of {', '.join(VERSIONS)}")])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStores:
    """Stores that are configured individually instead of in ssl-client.xml.

    Attributes:
        key_store: None if the client does not present a certificate.
        trust_store: None to use the system's certificate authorities.
        keys: common prefix of the configuration keys, for hints.
    """

    key_store: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    trust_store: Path | None = None
    trust_password: str | None = field(default=None, repr=False)
    keys: str = ""
