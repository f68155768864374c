"""Parser of the key stores that only Java uses, JKS and JCEKS (sun.security.provider.JavaKeyStore, JceKeyStore of
SunJCE).

A store begins with the number of entries. Each entry has a tag, an alias and a time. It contains a private key with its
chain, a certificate, or (JCEKS) a secret in a serialized Java object. The store ends with SHA-1 over the password, a
phrase and all preceding bytes.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from hadoop_common.tls.errors import KeyStoreError, WrongPasswordError
from hadoop_common.tls.java_object import ByteReader, JavaObject, read_object
from hadoop_common.tls.java_protection import open_pbe, parse_parameters, utf16

JKS_MAGIC = bytes.fromhex("feedfeed")
JCEKS_MAGIC = bytes.fromhex("cececece")

_VERSION = 2
_PHRASE = b"Mighty Aphrodite"
_DIGEST = 20
_KEY, _CERTIFICATE, _SECRET = 1, 2, 3
_X509 = "X.509"
_SEALED = "com.sun.crypto.provider.SealedObjectForKeyProtector"
_PBE = "PBEWithMD5AndTripleDES"


@dataclass(frozen=True, slots=True)
class JavaKey:
    """A private key that is still encrypted, and its chain in DER, beginning with the key's certificate."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JavaStore:
    """The entries by kind; `secrets` are sealed objects by alias."""

    keys: tuple[JavaKey, ...]
    certificates: tuple[bytes, ...]
    secrets: dict[str, JavaObject]


def parse_java_store(data: bytes, password: str | None) -> JavaStore:
    """Parse the entries of a JKS or JCEKS store; if no password is given, as for trust stores, do not check the digest.

    Raises:
        WrongPasswordError: the digest does not match this password and these bytes.
        KeyStoreError: the data is not a JKS or JCEKS store, or is truncated; the message gives the position.
    """
    if data[:4] not in (JKS_MAGIC, JCEKS_MAGIC):
        raise KeyStoreError(f"it begins with {data[:4].hex() or 'nothing'}, which is not a JKS or JCEKS store")
    if password is not None:
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not hmac.compare_digest(hashlib.sha1(utf16(password) + _PHRASE + body).digest(), digest):
            raise WrongPasswordError("the password of the store is wrong, or the store was changed or truncated")
    reader = ByteReader(data, 4)
    if (version := reader.number("I")) != _VERSION:
        raise KeyStoreError(f"its version is {version}, expected {_VERSION}")
    keys: list[JavaKey] = []
    certificates: list[bytes] = []
    secrets: dict[str, JavaObject] = {}
    for _ in range(reader.number("I")):
        begin = reader.position
        tag, alias = reader.number("I"), reader.text()
        reader.take(8)  # creation time
        if tag == _KEY:
            protected = reader.block()
            keys.append(JavaKey(alias, protected, tuple(_certificate(reader) for _ in range(reader.number("I")))))
        elif tag == _CERTIFICATE:
            certificates.append(_certificate(reader))
        elif tag == _SECRET and data[:4] == JCEKS_MAGIC:
            secrets[alias] = read_object(reader)
        else:
            raise KeyStoreError(f"at byte {begin}: an entry with the unknown tag {tag}")
    return JavaStore(tuple(keys), tuple(certificates), secrets)


def _certificate(reader: ByteReader) -> bytes:
    begin = reader.position
    if (kind := reader.text()) != _X509:
        raise KeyStoreError(f"at byte {begin}: a certificate of the type {kind!a}, expected {_X509}")
    return reader.block()


def open_secret(sealed: JavaObject, password: str) -> bytes:
    """Decrypt a secret key.

    Raises:
        WrongPasswordError: the password is wrong.
        KeyStoreError: the object is sealed by an unknown algorithm, or is not a secret key.
    """
    content, parameters = sealed.fields.get("encryptedContent"), sealed.fields.get("encodedParams")
    if sealed.kind != _SEALED or not isinstance(content, bytes) or not isinstance(parameters, bytes):
        raise KeyStoreError(f"an object of the class {sealed.kind!a}, expected {_SEALED}")
    if sealed.fields.get("sealAlg") != _PBE:
        raise KeyStoreError(f"a secret is sealed by {sealed.fields.get('sealAlg')!a}, expected {_PBE}")
    found = read_object(ByteReader(open_pbe(content, parse_parameters(parameters), password))).fields.get("key")
    if not isinstance(found, bytes):
        raise KeyStoreError("a sealed object contains no secret key")
    return found


def find_credential(data: bytes, password: str, alias: str) -> str | None:
    """Return a password from a credential provider's store (JavaKeyStoreProvider), or None if the alias is missing.

    Raises:
        KeyStoreError: the data is not a JCEKS store, the password does not open it, or the entry is not text.
    """
    sealed = parse_java_store(data, password).secrets.get(alias.lower())
    if sealed is None:
        return None
    try:
        return open_secret(sealed, password).decode("utf-8")
    except UnicodeDecodeError as fault:
        raise KeyStoreError(f"the entry {alias} is not UTF-8") from fault
