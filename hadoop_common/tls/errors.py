"""Errors of key stores and TLS connections."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_USAGE, HdfsError


class KeyStoreError(HdfsError):
    """Bytes are not a key store, or the password does not open it; the caller knows the file."""


class WrongPasswordError(KeyStoreError):
    """The password is wrong, or bytes were changed."""


class TlsSetupError(HdfsError):
    """TLS cannot be used as configured; the message names the file."""

    exit_code: ClassVar[int] = EXIT_USAGE


class HandshakeError(ConnectionError):
    """A TLS handshake failed; the text is one sentence with what to do."""
