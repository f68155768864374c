"""The server side of the SASL mechanism DIGEST-MD5 (RFC 2831), which clients use to log in with a delegation token; no
I/O.

The server sends a challenge, the client proves that it knows the password, and then the server proves its knowledge.
The server makes a new nonce for each login, so it does not accept subsequent authentication. All values are ASCII, as
in Hadoop.

Privacy uses Triple DES, the cipher that Java prefers, and requires the `cryptography` package.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from hadoop_rpc.errors import KerberosError, SaslError
from hadoop_rpc.security import MessageLayer, Protection, Unwrapped

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

_QOPS: Final = {Protection.AUTHENTICATION: "auth", Protection.INTEGRITY: "auth-int", Protection.PRIVACY: "auth-conf"}
_PROTECTIONS: Final = {name: protection for protection, name in _QOPS.items()}
_DIRECTIVE: Final = re.compile(r'[\s,]*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*(?=,|$)', re.ASCII)
_REQUIRED: Final = ("username", "realm", "nonce", "cnonce", "nc", "digest-uri", "response")
_MAX_RESPONSE: Final = 4096
_FIRST_USE: Final = "00000001"
_CIPHER: Final = "3des"
_BUFFER: Final = 1 << 16
"""Default of `maxbuf`: the bytes that each side accepts in one message."""
_SIGNING: Final = (
    b"Digest session key to client-to-server signing key magic constant",
    b"Digest session key to server-to-client signing key magic constant",
)
_SEALING: Final = (
    b"Digest H(A1) to client-to-server sealing key magic constant",
    b"Digest H(A1) to server-to-client sealing key magic constant",
)
_MAC_BYTES: Final = 10
_TYPE: Final = b"\x00\x01"
_TAIL_BYTES: Final = len(_TYPE) + 4
_BLOCK: Final = 8


def supports(protections: tuple[Protection, ...]) -> bool:
    """Return whether this mechanism supports all given protections on this host."""
    return Protection.PRIVACY not in protections or find_spec("cryptography") is not None


@dataclass(frozen=True, slots=True)
class DigestResponse:
    """A client's response that matches the challenge but is not yet verified."""

    user: str
    protection: Protection
    values: Mapping[str, str]


class DigestLogin(NamedTuple):
    """A verified login: the server's proof, and the protection of messages (None if only authentication was agreed)."""

    proof: bytes
    layer: MessageLayer | None


class DigestServer:
    """The server's side of one DIGEST-MD5 login.

    Args:
        realm, uri: names of the server.
        protections: offered protections, which must be supported (`supports`).
        nonce: nonce of the challenge, by default random.
    """

    def __init__(self, realm: str, uri: str, protections: tuple[Protection, ...], nonce: str = "") -> None:
        self._realm = realm
        self._uri = uri
        self._protections = protections
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(30)).decode()

    @property
    def challenge(self) -> bytes:
        qops = ",".join(_QOPS[each] for each in self._protections)
        cipher = f'cipher="{_CIPHER}",' if Protection.PRIVACY in self._protections else ""
        first = f'realm="{self._realm}",nonce="{self._nonce}",qop="{qops}",'
        return f"{first}{cipher}charset=utf-8,algorithm=md5-sess".encode()

    def read(self, response: bytes) -> DigestResponse:
        """Decode a response.

        Raises:
            SaslError: the response is malformed, or does not match the challenge.
        """
        values = _directives(response)
        if missing := [name for name in _REQUIRED if name not in values]:
            raise _refused(f"{missing[0]} is missing")
        protection = _PROTECTIONS.get(values.setdefault("qop", _QOPS[Protection.AUTHENTICATION]))
        expected = {
            "realm": self._realm,
            "nonce": self._nonce,
            "nc": _FIRST_USE,
            "digest-uri": self._uri,
            "charset": "utf-8",
            "authzid": values["username"],
            "cipher": _CIPHER,
        }
        if wrong := [name for name, value in expected.items() if values.get(name, value) != value]:
            raise _refused(f"{wrong[0]} does not match the challenge")
        if protection is None or protection not in self._protections:
            raise _refused("qop was not offered")
        if protection is Protection.PRIVACY and "cipher" not in values:
            raise _refused("cipher is missing")
        buffer = values.get("maxbuf", str(_BUFFER))
        if protection is not Protection.AUTHENTICATION and not (buffer.isdigit() and int(buffer) >= _BUFFER):
            raise _refused(f"maxbuf is less than {_BUFFER}")
        return DigestResponse(values["username"], protection, values)

    def verify(self, response: DigestResponse, password: bytes) -> DigestLogin:
        """Verify that the client knows the password of its user.

        Raises:
            SaslError: the password is wrong.
        """
        values = response.values
        session = _session_key(values, password)
        if not hmac.compare_digest(_proof(session, values, "AUTHENTICATE"), values["response"].encode()):
            raise _refused("the password is wrong")
        layer = None
        if response.protection is not Protection.AUTHENTICATION:
            layer = DigestLayer(session, encrypts=response.protection is Protection.PRIVACY)
        return DigestLogin(b"rspauth=" + _proof(session, values, ""), layer)


def _directives(response: bytes) -> dict[str, str]:
    if len(response) > _MAX_RESPONSE or not response.isascii():
        raise _refused(f"the response is not ASCII, or longer than {_MAX_RESPONSE} bytes")
    text, position = response.decode("ascii"), 0
    found: dict[str, str] = {}
    while text[position:].strip(" \t\r\n,"):
        directive = _DIRECTIVE.match(text, position)
        if directive is None:
            raise _refused(f"the response is malformed at byte {position}")
        name, quoted, plain = directive.groups()
        if name in found:
            raise _refused(f"{name} appears twice")
        found[name] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = directive.end()
    return found


def _session_key(values: Mapping[str, str], password: bytes) -> bytes:
    """Return H(A1)."""
    secret = md5(f"{values['username']}:{values['realm']}:".encode() + password, usedforsecurity=False).digest()
    rest = [values["nonce"], values["cnonce"], *([values["authzid"]] if "authzid" in values else [])]
    return md5(b":".join([secret, *(each.encode() for each in rest)]), usedforsecurity=False).digest()


def _proof(session: bytes, values: Mapping[str, str], method: str) -> bytes:
    """Return the proof of one side; `method` is empty for the server's proof."""
    action = f"{method}:{values['digest-uri']}" + ("" if values["qop"] == "auth" else f":{'0' * 32}")
    hashed = md5(action.encode(), usedforsecurity=False).hexdigest()
    parts = (session.hex(), values["nonce"], values["nc"], values["cnonce"], values["qop"], hashed)
    return md5(":".join(parts).encode(), usedforsecurity=False).hexdigest().encode()


def _refused(why: str) -> SaslError:
    return SaslError(f"DIGEST-MD5: {why}")


# ---- messages after the login ----


class DigestLayer:
    """Integrity or privacy of a server's messages (`MessageLayer`): each message contains a MAC and a number.

    Args:
        session: H(A1).
        encrypts: whether messages are also encrypted.
    """

    def __init__(self, session: bytes, *, encrypts: bool) -> None:
        self._checking, self._signing = (_key(session, each) for each in _SIGNING)
        self._sent = self._received = 0
        self._encryptor = self._decryptor = None
        if encrypts:
            theirs, ours = (_key(session, each) for each in _SEALING)
            self._encryptor, self._decryptor = _cipher(ours, decrypts=False), _cipher(theirs, decrypts=True)

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        if encrypt and self._encryptor is None:
            raise KerberosError("the login did not agree on encryption")
        number = self._sent.to_bytes(4, "big")
        self._sent += 1
        mac = _mac(self._signing, number, data)
        if self._encryptor is not None:
            padding = _BLOCK - (len(data) + _MAC_BYTES) % _BLOCK
            return self._encryptor.update(data + bytes((padding,)) * padding + mac) + _TYPE + number
        return data + mac + _TYPE + number

    def unwrap(self, token: bytes) -> Unwrapped:
        number = self._received.to_bytes(4, "big")
        content, tail = token[:-_TAIL_BYTES], token[-_TAIL_BYTES:]
        if tail != _TYPE + number:
            raise KerberosError("a message is truncated, repeated, or out of order")
        encrypted = self._decryptor is not None
        if self._decryptor is not None:
            if len(content) % _BLOCK:
                raise KerberosError("an encrypted message has an incomplete block")
            content = self._decryptor.update(content)
        data, mac = content[:-_MAC_BYTES], content[-_MAC_BYTES:]
        if encrypted:
            data = data[: -data[-1]] if data else data
        if not hmac.compare_digest(mac, _mac(self._checking, number, data)):
            raise KerberosError("a message was modified")
        self._received += 1
        return Unwrapped(data, encrypted)


def _key(session: bytes, constant: bytes) -> bytes:
    return md5(session + constant, usedforsecurity=False).digest()


def _mac(key: bytes, number: bytes, data: bytes) -> bytes:
    return hmac.digest(key, number + data, "md5")[:_MAC_BYTES]


def _cipher(key: bytes, *, decrypts: bool) -> CipherContext:
    """Return one direction of a cipher whose chaining continues from message to message."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    first, second = _des_key(key[:7]), _des_key(key[7:14])
    cipher = Cipher(TripleDES(first + second + first), CBC(key[8:]))
    return cipher.decryptor() if decrypts else cipher.encryptor()


def _des_key(key: bytes) -> bytes:
    """Spread 56 bits over 8 bytes, whose last bits are unused parity bits."""
    bits = int.from_bytes(key, "big")
    return bytes((bits >> shift & 0x7F) << 1 for shift in range(49, -1, -7))
