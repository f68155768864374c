"""Contexts of the `ssl` module made of what the stores hold."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from collections.abc import Iterable

from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.key_store import KeyPair
from hadoop_common.tls.material import Material
from hadoop_common.tls.settings import TlsConfig, Verifier
from hadoop_common.tls.sockets import TlsSocket

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# of those that Python's default contexts have for TLSv1.2
_SUITE = re.compile(r"(ECDHE|DHE)-(RSA|ECDSA)-(?:AES(128|256)-(GCM-)?(SHA\d+)|CHACHA20-POLY1305)")
_LOCALHOST = ("localhost", "localhost.localdomain")
_LOOPBACK = ("127.0.0.1", "::1")


def server_context(material: Material, config: TlsConfig) -> ssl.SSLContext:
    """For our servers; its sockets are `TlsSocket`.

    Raises:
        TlsSetupError: the key is not that of its certificate, or no cipher suite is left.
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


def client_context(material: Material, config: TlsConfig, *, check_host: bool) -> ssl.SSLContext:
    """For connections to servers; without a trust store it trusts whom the system does.

    Raises:
        TlsSetupError: the key is not that of its certificate.
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
    """Whether the name `host` has to be in its certificate.

    An address of loopback is this host, whatever its certificate says: commands ask their own daemon by it.
    """
    host = host.lower()
    if verifier is Verifier.ALLOW_ALL or host in _LOOPBACK:
        return False
    return not (verifier is Verifier.DEFAULT_AND_LOCALHOST and host in _LOCALHOST)


def _trust(context: ssl.SSLContext, material: Material) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    assert material.anchors is not None
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in material.anchors))
    # as Java: each certificate of the store is an anchor, not those alone that signed themselves
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def _load(context: ssl.SSLContext, material: Material) -> None:
    """Keys are loaded from files alone: one in memory, encrypted with a password that nobody knows a moment later."""
    assert material.pair is not None
    password = secrets.token_hex(32)
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(_pem(material.pair, password))
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    except ssl.SSLError as fault:
        said = "the key is not that of its certificate" if fault.reason == "KEY_VALUES_MISMATCH" else str(fault)
        raise TlsSetupError(
            f"the key in {material.pair_file} cannot be used: {said}",
            hint="Make the store anew: keytool -importkeystore from the key and the certificate that was made for it.",
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
    """Do without the cipher suites that `patterns`, names or expressions of Java's names, match.

    True where one is of TLSv1.3, whose suites cannot be chosen here: it is not spoken then.
    """
    if not patterns:
        return False
    try:
        expressions = [re.compile(each) for each in patterns]
    except re.error as fault:
        raise TlsSetupError(
            f"ssl.server.exclude.cipher.list holds {fault.pattern!a}, which is no regular expression: {fault}",
            hint="Name cipher suites as Java does: TLS_RSA_WITH_AES_128_CBC_SHA.",
        ) from fault
    kept, newest = [], False
    for suite in context.get_ciphers():
        hit = any(each.fullmatch(java_suite(suite["name"])) for each in expressions)
        if suite["name"].startswith("TLS_"):
            newest = newest or hit
        elif not hit:
            kept.append(suite["name"])
    if not kept:
        raise TlsSetupError("ssl.server.exclude.cipher.list leaves no cipher suite", hint="Exclude fewer.")
    context.set_ciphers(":".join(kept))
    return newest


def java_suite(name: str) -> str:
    """The name that Java has for a cipher suite of OpenSSL; `name` itself where they share it."""
    found = _SUITE.fullmatch(name)
    if found is None:
        return name
    exchange, signature, bits, mode, digest = found.groups()
    cipher = f"AES_{bits}_{'GCM' if mode else 'CBC'}_{digest}" if bits else "CHACHA20_POLY1305_SHA256"
    return f"TLS_{exchange}_{signature}_WITH_{cipher}"
