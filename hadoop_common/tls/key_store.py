"""Reader of PEM and of all key stores that Hadoop's Java accepts: private keys with their chains, and certificates.

The first bytes determine the kind, because names are not reliable: Java also opens PKCS12 as type jks, and since Java
9, keytool writes PKCS12 into `x.jks`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hadoop_common.tls.derivations import check_pkcs8, check_pkcs12
from hadoop_common.tls.errors import KeyStoreError, WrongPasswordError
from hadoop_common.tls.java_protection import open_key
from hadoop_common.tls.java_store import JCEKS_MAGIC, JKS_MAGIC, parse_java_store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

T = TypeVar("T")

_PEM = b"-----BEGIN "
_ENCRYPTED_KEY = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----([^-]*)-----END")
_DER = b"\x30"
_INTEGER = 0x02
_MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its chain, beginning with the key's certificate."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[Certificate, ...]


@dataclass(frozen=True, slots=True)
class KeyStore:
    keys: tuple[KeyPair, ...]
    certificates: tuple[Certificate, ...]


def decode_key_store(data: bytes, password: str | None, key_password: str | None = None) -> KeyStore:
    """Decode a JKS, JCEKS or PKCS12 store, or PEM.

    `key_password` None means the store's password. If `password` is also None, skip the keys of a JKS or JCEKS store,
    and the check of its digest.

    Raises:
        WrongPasswordError: a password does not open the store, or the store was changed.
        KeyStoreError: the data is malformed, of another kind, or contains unsupported entries.
    """

    def decode() -> KeyStore:
        if data[:4] in (JKS_MAGIC, JCEKS_MAGIC):
            return _java(data, password, password if key_password is None else key_password)
        if data[:1] == _DER:
            return _pkcs12(data, password)
        if _PEM in data:
            return _pem(data, password if key_password is None else key_password)
        raise KeyStoreError(
            f"it begins with {data[:4].hex() or 'nothing'}: neither a JKS, JCEKS or PKCS12 store nor PEM"
        )

    return _decoded(decode)


def decode_anchors(data: bytes, password: str | None) -> tuple[Certificate, ...]:
    """Return the certificates that a store makes trusted, including the first certificate of each key, as in Java.

    The function does not decrypt keys. A JKS or JCEKS store needs a password only for the check of its digest.

    Raises:
        KeyStoreError: see `decode_key_store`.
    """
    if data[:4] in (JKS_MAGIC, JCEKS_MAGIC):
        java = parse_java_store(data, password)
        of_keys = [each.chain[0] for each in java.keys if each.chain]
        return _decoded(lambda: _certificates([*java.certificates, *of_keys]))
    if data[:1] != _DER and _PEM in data:
        return _decoded(lambda: _pem_certificates(data))
    store = decode_key_store(data, password)
    return (*store.certificates, *(each.chain[0] for each in store.keys))


def _decoded(decode: Callable[[], T]) -> T:
    """Return the result of `decode`; convert the various errors of the library to KeyStoreError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.x509 import InvalidVersion

    try:
        return decode()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion) as fault:
        reason = (str(fault).splitlines() or [""])[0][:_MAX_REASON]
        raise KeyStoreError(f"its content is malformed, or of an unknown kind: {reason}") from fault


def _java(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    store = parse_java_store(data, password)
    keys = []
    for each in store.keys if key_password is not None else ():
        key = load_der_private_key(open_key(each.protected, key_password or ""), None)
        keys.append(_pair(each.alias, key, _certificates(each.chain)))
    return KeyStore(tuple(keys), _certificates(store.certificates))


def _pkcs12(data: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if _first_inner_tag(data) != _INTEGER:
        raise KeyStoreError(
            "it is DER, but not a PKCS12 store; BouncyCastle stores (BCFKS) are not supported: convert it with keytool "
            "-importkeystore"
        )
    check_pkcs12(data)
    try:
        found = load_pkcs12(data, None if password is None else _utf8(password))
    except ValueError as fault:
        if "password" not in str(fault).lower():
            raise
        raise WrongPasswordError("the password of the store is wrong, or the store was changed") from fault
    others = [each.certificate for each in found.additional_certs]
    if found.key is None or found.cert is None:
        own = [] if found.cert is None else [found.cert.certificate]
        return KeyStore((), (*own, *others))
    alias = (found.cert.friendly_name or b"").decode("utf-8", "replace")
    pair = _pair(alias, found.key, [found.cert.certificate, *others])
    return KeyStore((pair,), tuple(each for each in others if each not in pair.chain))


def _first_inner_tag(data: bytes) -> int | None:
    """Return the tag of the first value in a DER sequence."""
    begin = 2 + (data[1] & 0x7F if len(data) > 1 and data[1] > 0x80 else 0)
    return data[begin] if len(data) > begin else None


def _pem(data: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificates = _pem_certificates(data)
    if b"PRIVATE KEY-----" not in data:
        return KeyStore((), certificates)
    encrypted = b"ENCRYPTED" in data
    for block in _ENCRYPTED_KEY.finditer(data):
        check_pkcs8(base64.b64decode(block[1]))
    try:
        key = load_pem_private_key(data, _utf8(password or "") if encrypted else None)
    except ValueError as fault:
        if not encrypted:
            raise
        raise WrongPasswordError("the password of the key is wrong, or the key was changed") from fault
    own = [each for each in certificates if each.public_key() == key.public_key()]
    pair = _pair("", key, [*own, *certificates])
    return KeyStore((pair,), tuple(each for each in certificates if each not in pair.chain))


def _pem_certificates(data: bytes) -> tuple[Certificate, ...]:
    from cryptography import x509

    return tuple(x509.load_pem_x509_certificates(data)) if b"CERTIFICATE-----" in data else ()


def _utf8(password: str) -> bytes:
    # a password that is not valid Unicode opens nothing
    return password.encode("utf-8", "replace")


def _certificates(encoded: Iterable[bytes]) -> tuple[Certificate, ...]:
    from cryptography import x509

    return tuple(map(x509.load_der_x509_certificate, encoded))


def _pair(alias: str, key: PrivateKeyTypes, certificates: Sequence[Certificate]) -> KeyPair:
    """Make a key pair; `certificates` begins with the key's certificate, followed by the issuers' in any order."""
    if not certificates:
        raise KeyStoreError(f"the key {alias!a} has no certificate")
    chain = [certificates[0]]
    while chain[-1].issuer != chain[-1].subject:
        above = next((e for e in certificates if e.subject == chain[-1].issuer and e not in chain), None)
        if above is None:
            break
        chain.append(above)
    return KeyPair(key, tuple(chain))
