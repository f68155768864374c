"""Generates certificates and stores for tests within milliseconds."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from hadoop_common.tls.settings import TlsConfig
from tests.site_files import site_xml

STORE_PASSWORD, TRUST_PASSWORD = "marked-store-secret", "marked-trust-secret"
HERE = ("localhost", "127.0.0.1")
_DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass(frozen=True)
class Identity:
    """A key with its chain, which begins with the key's certificate."""

    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...]

    def issue(
        self, names: Sequence[str] = HERE, *, begin: int = -1, end: int = 30, common_name: str = "", ca: bool = False
    ) -> Identity:
        """Make a certificate for `names`, valid from `begin` to `end` in days from now."""
        return _made(common_name or names[0], names, begin, end, self, ca=ca)

    def pem(self, password: str = "") -> bytes:
        """Return the key and the chain."""
        hidden = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
        return key + b"".join(each.public_bytes(Encoding.PEM) for each in self.chain)

    def pkcs12(self, password: str = STORE_PASSWORD) -> bytes:
        own, *others = self.chain
        # one round is enough, because an expensive key derivation would not improve the test
        hidden = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1).build(password.encode())
        return pkcs12.serialize_key_and_certificates(b"own", self.key, own, others, hidden)

    @property
    def certificate(self) -> bytes:
        """Return the key's certificate in PEM."""
        return self.chain[0].public_bytes(Encoding.PEM)


def authority(name: str = "Test CA", *, end: int = 365) -> Identity:
    """Return a self-signed certificate authority."""
    return _made(name, (), -1, end, None, ca=True)


def self_signed(names: Sequence[str] = HERE) -> Identity:
    return _made(names[0], names, -1, 30, None, ca=False)


def _made(
    common_name: str, names: Sequence[str], begin: int, end: int, issuer: Identity | None, *, ca: bool
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(_name(common_name) if issuer is None else issuer.chain[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begin * _DAY)
        .not_valid_after(now + end * _DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(each) for each in names]), False)
    signed = builder.sign(key if issuer is None else issuer.key, hashes.SHA256())
    return Identity(key, (signed, *(() if issuer is None else issuer.chain)))


def write_xml(path: Path, properties: dict[str, str]) -> Path:
    path.write_text(site_xml(properties))
    return path


def tls_folder(
    folder: Path, own: Identity | None = None, trusted: Sequence[Identity] = (), **settings: bool
) -> TlsConfig:
    """Write Hadoop's two files and their stores into `folder`; servers show `own`, and clients do so on request."""
    folder.mkdir(parents=True, exist_ok=True)
    server, client = {"ssl.server.truststore.reload.interval": "20"}, {"ssl.client.truststore.reload.interval": "1"}
    if own is not None:
        (folder / "own.p12").write_bytes(own.pkcs12())
        for mode, found in (("server", server), ("client", client)):
            found[f"ssl.{mode}.keystore.location"] = str(folder / "own.p12")
            found[f"ssl.{mode}.keystore.password"] = STORE_PASSWORD
    if trusted:
        (folder / "trusted.pem").write_bytes(b"".join(each.certificate for each in trusted))
        for mode, found in (("server", server), ("client", client)):
            found[f"ssl.{mode}.truststore.location"] = str(folder / "trusted.pem")
            found[f"ssl.{mode}.truststore.password"] = TRUST_PASSWORD
    names = {"server_file": "ssl-server.xml", "client_file": "ssl-client.xml"}
    for name, found in zip(names.values(), (server, client), strict=True):
        write_xml(folder / name, found)
    return TlsConfig(folder=folder, **{key: folder / name for key, name in names.items()}, **settings)
