"""Errors of key stores and TLS connections, with the reason for a failed connection as one sentence."""

from __future__ import annotations

import re
import ssl
from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode


class KeyStoreError(HdfsError):
    """Failure to open a key store, because its bytes are not valid or the password is wrong; the caller adds the file
    name.
    """


class WrongPasswordError(KeyStoreError):
    """Failure to open a key store, because the password is wrong or bytes were changed."""


class TlsSetupError(HdfsError):
    """Failure to use the TLS settings; the message names the file."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class HandshakeError(ConnectionError):
    """Failure of a TLS handshake; the message is one sentence with the next step."""


_VERIFY = {
    9: "its certificate is not valid yet: compare the clocks of both hosts",
    10: "its certificate has expired: renew it on that host",
    18: "its certificate is self-signed and not in our trust store: import it with keytool -importcert "
    "(ssl.client.truststore.location)",
    19: "the issuer of its certificate is not in our trust store: import it with keytool -importcert "
    "(ssl.client.truststore.location)",
    23: "its certificate was revoked: renew it on that host",
}
_VERIFY |= {20: _VERIFY[19], 21: _VERIFY[19]}
_NO_NAME = (62, 64)
_NAME = re.compile(r"'(.*)'")
_PLAIN = "it uses HTTP without TLS: dfs.http.policy and the address must agree on both sides"
_OLD = "it supports neither TLS 1.2 nor 1.3: set hadoop.ssl.enabled.protocols, or use a newer Java on that host"
_WANTS_ONE = "it requires our certificate: name our key store in ssl-client.xml and set hadoop.ssl.require.client.cert"
_DOUBTS = "it does not trust the certificate of this side: import its issuer into the other side's trust store"
_REASONS = {
    "WRONG_VERSION_NUMBER": _PLAIN,
    "HTTP_REQUEST": "it uses HTTP without TLS: dfs.http.policy must agree on both sides",
    "UNSUPPORTED_PROTOCOL": _OLD,
    "NO_PROTOCOLS_AVAILABLE": _OLD,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _WANTS_ONE,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, which dfs.client.https.need-auth requires",
    "TLSV1_ALERT_UNKNOWN_CA": _DOUBTS,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _DOUBTS,
    "SSLV3_ALERT_BAD_CERTIFICATE": _DOUBTS,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this side has expired: renew it",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "both sides share no version, cipher suite or certificate type: compare "
    "hadoop.ssl.enabled.protocols and ssl.server.exclude.cipher.list",
    "NO_SHARED_CIPHER": "both sides share no cipher suite: compare ssl.server.exclude.cipher.list",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection without a reply",
}
_LABELS = {"WRONG_VERSION_NUMBER": "plain", "HTTP_REQUEST": "plain", "UNEXPECTED_EOF_WHILE_READING": "closed"}


def tls_reason(fault: ssl.SSLError) -> str:
    """Return the reason why a handshake failed or the connection was lost."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        if fault.verify_code in _NO_NAME:
            name = _NAME.search(fault.verify_message)
            return (
                f"its certificate is not valid for {name[1] if name else 'this host'}: subjectAltName must contain "
                f"the name (keytool -ext san=dns:NAME)"
            )
        return _VERIFY.get(fault.verify_code, f"its certificate is not accepted: {fault.verify_message}")
    return _REASONS.get(fault.reason or "", f"TLS fails: {fault.reason or fault.strerror or fault}")


def tls_label(fault: OSError) -> str:
    """Return the reason as one word, for a count: certificate, plain, closed or protocol."""
    if isinstance(fault, ssl.SSLCertVerificationError) or "CERTIFICATE" in (getattr(fault, "reason", None) or ""):
        return "certificate"
    if not isinstance(fault, ssl.SSLError) or isinstance(fault, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "closed"
    return _LABELS.get(fault.reason or "", "protocol")
