"""Contexts of the `ssl` module, made from the contents of key stores."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from collections.abc import Iterable

from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.key_store import KeyPair
from hadoop_common.tls.material import TlsMaterial
from hadoop_common.tls.settings import TlsConfig, Verifier
from hadoop_common.tls.sockets import TlsSocket

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# names of the suites in Python's default contexts for TLSv1.2
_SUITE = re.compile(r"(ECDHE|DHE)-(RSA|ECDSA)-(?:AES(128|256)-(GCM-)?(SHA\d+)|CHACHA20-POLY1305)")
_LOCALHOST = ("localhost", "localhost.localdomain")
_LOOPBACK = ("127.0.0.1", "::1")


def server_context(material: TlsMaterial, config: TlsConfig) -> ssl.SSLContext:
    """Make the context for our servers; its sockets are `TlsSocket`.

    Raises:
        TlsSetupError: the key does not match its certificate, or no cipher suite is left.
    """
    assert material.pair is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.sslsocket_class = TlsSocket
    context.options |= ssl.OP_NO_RENEGOTIATION
    excluded = _exclude(context, material.excluded)
    _limit(context, [each for each in config.versions if each != "TLSv1.3" or not excluded])
    _load(context, material)
    if config.need_client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, material)
    return context


def client_context(material: TlsMaterial, config: TlsConfig, *, check_host: bool) -> ssl.SSLContext:
    """Make a context for connections to servers; without a trust store, it trusts the system's authorities.

    Raises:
        TlsSetupError: the key does not match its certificate.
    """
    if material.anchors is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, material)
    context.check_hostname = check_host
    _limit(context, config.versions)
    if material.pair is not None:
        _load(context, material)
    return context


def checks_host(verifier: Verifier, host: str) -> bool:
    """Return whether the server's certificate must contain the name `host`.

    A loopback address always means this host, where commands call the local daemon, so the names in the certificate do
    not matter.
    """
    host = host.lower()
    if verifier is Verifier.ALLOW_ALL or host in _LOOPBACK:
        return False
    return not (verifier is Verifier.DEFAULT_AND_LOCALHOST and host in _LOCALHOST)


def _trust(context: ssl.SSLContext, material: TlsMaterial) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    assert material.anchors is not None
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in material.anchors))
    # as in Java, every certificate of the store is an anchor, self-signed or not
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def _load(context: ssl.SSLContext, material: TlsMaterial) -> None:
    """Load the key pair through an in-memory file with a one-time password, because `ssl` reads keys only from
    files.
    """
    assert material.pair is not None
    password = secrets.token_hex(32)
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(_pem(material.pair, password))
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    except ssl.SSLError as fault:
        problem = "the key does not match its certificate" if fault.reason == "KEY_VALUES_MISMATCH" else str(fault)
        raise TlsSetupError(
            f"the key in {material.pair_file} cannot be used: {problem}",
            hint="Rebuild the store: keytool -importkeystore from the key and its certificate.",
        ) from fault
    finally:
        os.close(descriptor)


def _pem(pair: KeyPair, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    key = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    return key + b"".join(each.public_bytes(Encoding.PEM) for each in pair.chain)


def _limit(context: ssl.SSLContext, versions: Iterable[str]) -> None:
    allowed = [_VERSIONS[each] for each in versions]
    if not allowed:
        raise TlsSetupError(
            "no version of TLS is left: a cipher suite of TLSv1.3 is excluded, and TLSv1.2 is not enabled",
            hint="Correct ssl.server.exclude.cipher.list or hadoop.ssl.enabled.protocols.",
        )
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)


def _exclude(context: ssl.SSLContext, patterns: Iterable[str]) -> bool:
    """Remove the cipher suites whose Java names match `patterns`, names or regular expressions.

    Return True if a TLSv1.3 suite matches. The caller then disables TLSv1.3, because OpenSSL cannot exclude its suites
    individually.
    """
    if not patterns:
        return False
    try:
        expressions = [re.compile(each) for each in patterns]
    except re.error as fault:
        raise TlsSetupError(
            f"ssl.server.exclude.cipher.list contains {fault.pattern!a}, which is not a regular expression: {fault}",
            hint="Specify cipher suites by Java's names, for example TLS_RSA_WITH_AES_128_CBC_SHA.",
        ) from fault
    kept, newest = [], False
    for suite in context.get_ciphers():
        hit = any(each.fullmatch(java_suite(suite["name"])) for each in expressions)
        if suite["name"].startswith("TLS_"):
            newest = newest or hit
        elif not hit:
            kept.append(suite["name"])
    if not kept:
        raise TlsSetupError(
            "ssl.server.exclude.cipher.list leaves no cipher suite", hint="Exclude fewer cipher suites."
        )
    context.set_ciphers(":".join(kept))
    return newest


def java_suite(name: str) -> str:
    """Return Java's name for a cipher suite of OpenSSL, or `name` itself if both names are equal."""
    found = _SUITE.fullmatch(name)
    if found is None:
        return name
    exchange, signature, bits, mode, digest = found.groups()
    cipher = f"AES_{bits}_{'GCM' if mode else 'CBC'}_{digest}" if bits else "CHACHA20_POLY1305_SHA256"
    return f"TLS_{exchange}_{signature}_WITH_{cipher}"
