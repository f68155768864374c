"""The client side of DIGEST-MD5 (RFC 2831), for tests of the server side."""

from __future__ import annotations

import re
from hashlib import md5

import pytest

from hadoop_rpc import digest_md5
from hadoop_rpc.digest_md5 import DigestLayer

CNONCE = "OA6MHXh6VqTrRk"


class DigestClient:
    """A login with the challenge of a server.

    Attributes:
        response: response to send.
        proof: response expected from the server.
    """

    def __init__(self, challenge: bytes, user: str, password: bytes, qop: str, uri: str) -> None:
        values = dict(re.findall(r'(\w+)="([^"]*)"', challenge.decode()))
        realm, nonce = values["realm"], values["nonce"]
        self._qop = qop
        start = md5(f"{user}:{realm}:".encode() + password).digest()
        self._session = md5(start + f":{nonce}:{CNONCE}".encode()).digest()

        def proof(method: str) -> str:
            action = md5(f"{method}:{uri}{'' if qop == 'auth' else ':' + 32 * '0'}".encode()).hexdigest()
            return md5(f"{self._session.hex()}:{nonce}:00000001:{CNONCE}:{qop}:{action}".encode()).hexdigest()

        cipher = ',cipher="3des"' if qop == "auth-conf" else ""
        self.response = (
            f'charset=utf-8,username="{user}",realm="{realm}",nonce="{nonce}",nc=00000001,cnonce="{CNONCE}",'
            f'digest-uri="{uri}",maxbuf=65536,response={proof("AUTHENTICATE")},qop={qop}{cipher}'
        ).encode()
        self.proof = f"rspauth={proof('')}".encode()

    def layer(self) -> DigestLayer:
        """Return the client side of the protection: the server side with the keys swapped."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_SIGNING", "_SEALING"):
                patch.setattr(digest_md5, name, getattr(digest_md5, name)[::-1])
            return DigestLayer(self._session, encrypts=self._qop == "auth-conf")
