"""Decrypts keys in JKS and JCEKS stores, whose two algorithms only Java uses.

JKS uses a stream of SHA-1 over the password and the salt. JCEKS uses PBEWithMD5AndTripleDES of the SunJCE provider.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from hadoop_common.quantities import counted
from hadoop_common.tls.errors import KeyStoreError, WrongPasswordError

_JKS = bytes.fromhex("2b060104012a02110101")
_JCEKS = bytes.fromhex("2b060104012a021301")
_DIGEST = 20
_SALT = 8
_BLOCK = 8
# Java's limit: Java does not open a store with more iterations
MAX_ITERATIONS = 5_000_000
_SEQUENCE, _OCTETS, _INTEGER, _OBJECT = 0x30, 0x04, 0x02, 0x06


class PbeParameters(NamedTuple):
    """Salt and iteration count of PBEWithMD5AndTripleDES."""

    salt: bytes
    iterations: int


def open_key(protected: bytes, password: str) -> bytes:
    """Decrypt an EncryptedPrivateKeyInfo; return the private key as PKCS#8 in DER.

    Raises:
        WrongPasswordError: the password is wrong.
        KeyStoreError: the key is malformed, or protected by an unknown algorithm.
    """
    outer = Der(protected).sequence()
    algorithm, content = outer.sequence(), outer.value(_OCTETS)
    name = algorithm.value(_OBJECT)
    if name == _JKS:
        return _open_jks(content, password)
    if name == _JCEKS:
        return open_pbe(content, parse_parameters(algorithm.rest()), password)
    raise KeyStoreError(f"a key is protected by the unknown algorithm {name.hex()}")


def parse_parameters(data: bytes) -> PbeParameters:
    """Parse the DER parameters of PBEWithMD5AndTripleDES.

    Raises:
        KeyStoreError: the parameters are malformed.
    """
    inner = Der(data).sequence()
    salt, count = inner.value(_OCTETS), int.from_bytes(inner.value(_INTEGER))
    if len(salt) != _SALT:
        raise KeyStoreError(f"the salt of a key has {len(salt)} bytes, expected {_SALT}")
    if not 0 < count <= MAX_ITERATIONS:
        raise KeyStoreError(f"a key needs {counted(count, 'iteration')}, expected 1 to {MAX_ITERATIONS}")
    return PbeParameters(salt, count)


def _open_jks(content: bytes, password: str) -> bytes:
    if len(content) < 2 * _DIGEST:
        raise KeyStoreError(f"a protected key has {len(content)} bytes, expected at least {2 * _DIGEST}")
    secret = utf16(password)
    salt, hidden, check = content[:_DIGEST], content[_DIGEST:-_DIGEST], content[-_DIGEST:]
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise WrongPasswordError("the password of the key is wrong, or the key was changed")
    return plain


def open_pbe(content: bytes, parameters: PbeParameters, password: str) -> bytes:
    """Decrypt data protected by PBEWithMD5AndTripleDES.

    Raises:
        WrongPasswordError: the password is wrong.
        KeyStoreError: the size is not a multiple of the block size.
    """
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    if not content or len(content) % _BLOCK:
        raise KeyStoreError(f"the protected data has {len(content)} bytes, expected whole blocks of {_BLOCK}")
    derived = _derived(parameters, password)
    cipher = Cipher(TripleDES(derived[:24]), modes.CBC(derived[24:])).decryptor()
    padding = PKCS7(8 * _BLOCK).unpadder()
    try:
        return padding.update(cipher.update(content) + cipher.finalize()) + padding.finalize()
    except ValueError as fault:
        raise WrongPasswordError("the password is wrong, or the protected data was changed") from fault


def _derived(parameters: PbeParameters, password: str) -> bytes:
    """Derive key and initialisation vector by repeated MD5 of each half of the salt."""
    try:
        secret = password.encode("ascii")
    except UnicodeEncodeError as fault:
        raise WrongPasswordError("a JCEKS store cannot be protected by a password that is not ASCII") from fault
    halves = [parameters.salt[:4], parameters.salt[4:]]
    if halves[0] == halves[1]:
        # SunJCE has a bug: instead of reversing the first half, it produces this order
        a, b, _, d = halves[0]
        halves[0] = bytes((d, a, b, d))
    md5 = hashlib.md5
    for number, block in enumerate(halves):
        for _ in range(parameters.iterations):
            block = md5(block + secret).digest()  # noqa: PLW2901 - each hash is made of the previous one
        halves[number] = block
    return b"".join(halves)


def utf16(password: str) -> bytes:
    """Encode a password in the form that Java's stores hash."""
    return password.encode("utf-16-be", "surrogatepass")


class Der:
    """A reader of consecutive DER values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def rest(self) -> bytes:
        return self._data[self._position :]

    def sequence(self) -> Der:
        """Return the next value, which must be a sequence."""
        return Der(self.value(_SEQUENCE))

    def value(self, tag: int) -> bytes:
        """Return the next value; raise KeyStoreError if its tag is not `tag` or the value is truncated."""
        data, start = self._data, self._position
        if len(data) < start + 2 or data[start] != tag:
            found = data[start : start + 1].hex() or "nothing"
            raise KeyStoreError(f"a DER value begins with {found}, expected {tag:02x}")
        size, begin = data[start + 1], start + 2
        if size >= 0x80:
            count = size & 0x7F
            if not 0 < count <= 4:
                raise KeyStoreError(f"the length of a DER value takes {count} bytes, expected 1 to 4")
            size, begin = int.from_bytes(data[begin : begin + count]), begin + count
        if begin + size > len(data):
            raise KeyStoreError(f"a DER value of {size} bytes is truncated")
        self._position = begin + size
        return data[begin : begin + size]
