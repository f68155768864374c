"""Encryption of objects: AES-256-GCM in chunks, with a separate key for each object.

    header      magic, and a random salt of 32 bytes
    chunk*      up to 1 MiB of content and the tag of 16 bytes; the nonce contains the number of the chunk and a flag
                for the last chunk, so chunks cannot be reordered, repeated or truncated

The key of an object is the HKDF-SHA256 of the key file's key and the salt (RFC 5869). The `cryptography` package
provides both algorithms.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from pathlib import Path
from struct import Struct
from typing import IO, TYPE_CHECKING

from archive.errors import ArchiveDamagedError, ArchiveError
from hadoop_common.extras import install_hint
from hadoop_common.file_faults import file_faults
from hadoop_common.regular_file import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"HCARENC1"
_SALT = 32
_KEY_BYTES = 32
_TAG = 16
_CHUNK = 1 << 20
_NONCE = Struct(">IQ")
_MAX_KEY_FILE = 1024


class ArchiveKey:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def load(cls, path: Path) -> ArchiveKey:
        """Read a key file, which contains 64 hexadecimal digits (`openssl rand -hex 32`).

        Raises:
            ArchiveError: the file cannot be read, or is readable by others.
        """
        try:
            with file_faults(path, "cannot be read"):
                text = read_regular(path, _MAX_KEY_FILE).decode("ascii", "replace").strip()
                shared = path.stat().st_mode & 0o077
        except OSError as fault:
            raise ArchiveError(
                f"the key of the archive: {fault}", hint="Check the path and its permissions."
            ) from fault
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) != _KEY_BYTES:
            raise ArchiveError(
                f"{path} is not a key: a key has 64 hexadecimal digits",
                hint="Create a key with `openssl rand -hex 32`.",
            )
        if shared:
            raise ArchiveError(f"{path} is readable by other users", hint=f"chmod 600 {path}")
        return cls(secret)

    def check(self) -> str:
        """Return a value that identifies the key of an archive."""
        return hashlib.blake2b(b"check", key=self._secret, digest_size=16).hexdigest()

    def cipher(self, salt: bytes) -> AESGCM:
        """Return the cipher of the object that begins with `salt`."""
        try:
            # imported here, because the package is optional
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as fault:
            raise ArchiveError(
                "encryption needs the cryptography package, which is not installed", hint=install_hint("archive")
            ) from fault
        return AESGCM(HKDF(SHA256(), _KEY_BYTES, salt, b"hdfs-checkpointer archive").derive(self._secret))


class EncryptingStream(io.RawIOBase):
    """A stream that encrypts to `out`; `close` writes the last chunk, but does not close `out`."""

    def __init__(self, out: IO[bytes], key: ArchiveKey) -> None:
        super().__init__()
        salt = secrets.token_bytes(_SALT)
        self._out, self._cipher = out, key.cipher(salt)
        self._rest, self._number = bytearray(), 0
        out.write(_MAGIC + salt)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        content = memoryview(data)  # type: ignore[arg-type]
        self._rest += content
        while len(self._rest) > _CHUNK:
            self._chunk(bytes(self._rest[:_CHUNK]), last=False)
            del self._rest[:_CHUNK]
        return content.nbytes

    def close(self) -> None:
        if not self.closed:
            self._chunk(bytes(self._rest), last=True)
        super().close()

    def _chunk(self, content: bytes, *, last: bool) -> None:
        self._out.write(self._cipher.encrypt(_NONCE.pack(last, self._number), content, None))
        self._number += 1


class DecryptingStream(io.RawIOBase):
    """The content of an encrypted object, for reading at any position."""

    def __init__(self, stream: IO[bytes], key: ArchiveKey, name: str) -> None:
        super().__init__()
        self._stream, self._name = stream, name
        head = stream.read(len(_MAGIC) + _SALT)
        if head[: len(_MAGIC)] != _MAGIC or len(head) < len(_MAGIC) + _SALT:
            raise ArchiveDamagedError(name, "it does not begin with the header of an encrypted object")
        self._cipher = key.cipher(head[len(_MAGIC) :])
        body = stream.seek(0, os.SEEK_END) - len(head)
        self._chunks = max(1, -(-body // (_CHUNK + _TAG)))
        self._size = body - self._chunks * _TAG
        self._position, self._kept = 0, (-1, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if not 0 <= self._position < self._size:
            return 0
        content = self._content(self._position // _CHUNK)[self._position % _CHUNK :][: len(target)]
        target[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _content(self, number: int) -> bytes:
        if self._kept[0] != number:
            # the import also proves that the package is installed
            from cryptography.exceptions import InvalidTag

            self._stream.seek(len(_MAGIC) + _SALT + number * (_CHUNK + _TAG))
            packed = self._stream.read(_CHUNK + _TAG)
            try:
                nonce = _NONCE.pack(number == self._chunks - 1, number)
                self._kept = (number, self._cipher.decrypt(nonce, packed, None))
            except InvalidTag as fault:
                raise ArchiveDamagedError(
                    self._name,
                    f"chunk {number} cannot be decrypted: it is damaged, or the key is wrong",
                    hint="Check the key file; `checkpointer archive check` lists damaged objects.",
                ) from fault
        return self._kept[1]
