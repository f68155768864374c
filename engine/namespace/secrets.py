"""Delegation tokens and master keys: the SECRET_MANAGER section."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import NamespaceError
from hadoop_common.java_numbers import signed64, unsigned32, unsigned64
from image_format.index import ImageIndex
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.token_identity import token_identity
from image_format.varint import encode_delimited
from journal.ops import DelegationKey, DelegationTokenIdent

_SECTION = "SECRET_MANAGER"
_SIGN = 1 << 31


class TokenSecret(NamedTuple):
    """Master key that signed a token, and the token's expiry time (ms since the epoch)."""

    key: bytes
    expiry_date: int


class SecretManager:
    """Tokens and master keys (`fsimage.proto SecretManagerSection`); times in milliseconds since the epoch."""

    def __init__(self, base: ImageIndex) -> None:
        reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
        header = pb.SecretManagerSection() if reader.done else reader.read(pb.SecretManagerSection)
        self._header = header
        self._keys = {key.id: key for key in (reader.read(pb.DelegationKey) for _ in range(header.numKeys))}
        self._tokens: dict[tuple[object, ...], pb.PersistToken] = {}
        for _ in range(header.numTokens):
            token = reader.read(pb.PersistToken)
            self._tokens[token_identity(token)] = token
        reader.finish()
        self.changed = False

    def clear(self) -> None:
        """Remove all tokens and keys, but do not reset their counters."""
        self._keys.clear()
        self._tokens.clear()
        self.changed = True

    def update_master_key(self, key: DelegationKey) -> None:
        """Add or replace a key.

        Raises:
            NamespaceError: the key has no material, so its tokens could not be loaded.
        """
        if not key.key and any(token.masterKeyId == unsigned32(key.key_id) for token in self._tokens.values()):
            raise NamespaceError(f"master key {key.key_id} has no key material, which tokens require")
        message = pb.DelegationKey(id=unsigned32(key.key_id), expiryDate=unsigned64(key.expiry_date))
        if key.key is not None:
            message.key = key.key
        self._keys[message.id] = message
        self._header.currentId = _larger(self._header.currentId, message.id)
        self.changed = True

    def add_token(self, ident: DelegationTokenIdent, renew_date: int) -> bool:
        """Add a token; return False if its master key is unknown, because a NameNode then ignores the token.

        Raises:
            NamespaceError: the token exists, or its key has no material.
        """
        if unsigned32(ident.master_key_id) not in self._keys:
            return False
        if not self._keys[unsigned32(ident.master_key_id)].key:
            raise NamespaceError(f"master key {ident.master_key_id} of token {ident.sequence_number} has no material")
        token = _token(ident, renew_date)
        identity = token_identity(token)
        if identity in self._tokens:
            raise NamespaceError(f"delegation token {ident.sequence_number} of {ident.owner} already exists")
        self._tokens[identity] = token
        self._header.tokenSequenceNumber = _larger(self._header.tokenSequenceNumber, token.sequenceNumber)
        self.changed = True
        return True

    def renew_token(self, ident: DelegationTokenIdent, renew_date: int) -> bool:
        """Set the expiry date of a token; return False if the token does not exist."""
        token = self._tokens.get(token_identity(_token(ident, renew_date)))
        if token is None:
            return False
        token.expiryDate = unsigned64(renew_date)
        self.changed = True
        return True

    def cancel_token(self, ident: DelegationTokenIdent) -> bool:
        """Remove a token; return False if it does not exist."""
        if self._tokens.pop(token_identity(_token(ident, 0)), None) is None:
            return False
        self.changed = True
        return True

    def secret_of(self, ident: DelegationTokenIdent) -> TokenSecret | None:
        """Return the secret of a token; None if the token or the material of its key is unknown."""
        token = self._tokens.get(token_identity(_token(ident, 0)))
        key = self._keys.get(unsigned32(ident.master_key_id))
        if token is None or key is None or not key.key:
            return None
        return TokenSecret(key.key, min(signed64(token.expiryDate), ident.max_date))

    def encode(self) -> bytes:
        self._header.numKeys = len(self._keys)
        self._header.numTokens = len(self._tokens)
        messages = (self._header, *self._keys.values(), *self._tokens.values())
        return b"".join(map(encode_delimited, messages))


def _larger(one: int, other: int) -> int:
    """Return the larger of two numbers, which a NameNode reads as signed although the image stores them as unsigned."""
    return max(one, other, key=lambda number: number - ((number & _SIGN) << 1))


def _token(ident: DelegationTokenIdent, renew_date: int) -> pb.PersistToken:
    return pb.PersistToken(
        owner=ident.owner,
        renewer=ident.renewer,
        realUser=ident.real_user,
        issueDate=unsigned64(ident.issue_date),
        maxDate=unsigned64(ident.max_date),
        sequenceNumber=unsigned32(ident.sequence_number),
        masterKeyId=unsigned32(ident.master_key_id),
        expiryDate=unsigned64(renew_date),
    )
