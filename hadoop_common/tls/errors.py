"""What can be wrong with key stores and with connections over TLS."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_USAGE, HdfsError


class KeyStoreError(HdfsError):
    """Bytes that are no key store, or that this password does not open; who read them knows the file."""


class WrongPasswordError(KeyStoreError):
    """The password does not open it, or bytes were changed."""


class TlsSetupError(HdfsError):
    """TLS cannot be used as it is configured; names the file."""

    exit_code: ClassVar[int] = EXIT_USAGE


class HandshakeError(ConnectionError):
    """A connection over TLS did not come about; the text is one sentence with what to do."""
