"""The SASL negotiation of Hadoop RPC (SaslRpcClient, RpcSaslProto; GSSAPI of RFC 4752, DIGEST-MD5 of RFC 2831); no I/O.

The client's stages:

    OFFERS → DONE                     the server has no security, or SIMPLE is chosen
    OFFERS → TOKENS → LAYER → DONE    Kerberos: tokens until both sides are authenticated, then the protection layer

The client responds to each step of the server, except to SUCCESS. Without security, SUCCESS is valid only in OFFERS,
and with security only in LAYER, so that a server cannot skip a stage.

The server's stages are the same, each with a step of the client:

    OFFERS → DONE                     no security: NEGOTIATE is answered with SUCCESS, INITIATE of SIMPLE is not
    OFFERS → TOKENS → LAYER → DONE    Kerberos: tokens until the client is authenticated, an empty RESPONSE, its layer
    OFFERS → DONE                     a delegation token: INITIATE contains the response to the challenge in the offer
    OFFERS → TOKENS → DONE            a delegation token without a challenge so far: RESPONSE contains the response

A client that knows the offers may begin with INITIATE. The server refuses a step out of order and ends the connection.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final

from hadoop_rpc import digest_md5
from hadoop_rpc.digest_md5 import DigestServer
from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    KerberosError,
    RpcProtocolError,
    SaslError,
    StandbyError,
)
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import (
    ClientSecurity,
    KnownTokens,
    MessageLayer,
    Protection,
    RpcServerSecurity,
    SecurityContext,
)

_SIMPLE = "SIMPLE"
_KERBEROS = ("KERBEROS", "GSSAPI")
_TOKEN = pb.RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
_LAYERS = struct.Struct(">I")
# announced by Java; Hadoop's servers ignore it
_MAX_TOKEN = 1 << 16
# frame bytes per token; a token then stays below the 64 KiB of Java's clients with any encryption type
_TOKEN_PIECE = 60 << 10
MAX_HANDSHAKE_FRAME: Final = 1 << 18
"""Maximum frame size during negotiation: tokens with the groups of a large directory reach 64 KiB."""
MAX_TOKEN_FRAME: Final = 1 << 20
"""Maximum size of a token frame at a server: a token is decrypted as a whole, and clients expect a limit of 64 KiB."""


class _SaslStage(Enum):
    OFFERS = "offers"
    TOKENS = "tokens"
    LAYER = "layer"
    DONE = "done"


class SaslClient:
    """One negotiation of a client.

    Args:
        security: None accepts only SIMPLE.

    Attributes:
        context: context of the Kerberos login, None if there is no login.
        protection: protection of the frames after the negotiation.
    """

    def __init__(self, security: ClientSecurity | None) -> None:
        self._security = security
        self._stage = _SaslStage.OFFERS
        self.context: SecurityContext | None = None
        self.protection = Protection.AUTHENTICATION

    @property
    def done(self) -> bool:
        return self._stage is _SaslStage.DONE

    def begin(self) -> pb.RpcSaslProto:
        """Return the client's first step."""
        return _step(pb.RpcSaslProto.NEGOTIATE, None)

    def answer(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        """Return the response to a step of the server; None if there is no response.

        Raises:
            AuthenticationRequiredError: the two sides share no authentication method or protection.
            KerberosError: the server's tokens do not prove its identity, or there is no ticket for it.
            RpcProtocolError: the step is invalid at this stage.
        """
        context = self.context
        if step.state == pb.RpcSaslProto.NEGOTIATE and self._stage is _SaslStage.OFFERS:
            return self._choose(step)
        if step.state == pb.RpcSaslProto.CHALLENGE and self._stage is _SaslStage.TOKENS and context is not None:
            return self._layer(context, step) if context.complete else self._token(context, step)
        if (
            step.state == pb.RpcSaslProto.SUCCESS
            and self._stage in (_SaslStage.OFFERS, _SaslStage.LAYER)
            and not step.token
        ):
            if self._stage is _SaslStage.OFFERS and not self._goes_without:
                raise AuthenticationRequiredError(
                    "the server has no security, but this side is configured for Kerberos",
                    hint="Check the server's hadoop.security.authentication; only "
                    "ipc.client.fallback-to-simple-auth-allowed allows a server without security.",
                )
            self._stage = _SaslStage.DONE
            return None
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise RpcProtocolError(f"the server sent {name} to a SASL negotiation at the stage {self._stage.value}")

    def _choose(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto:
        """Choose the first acceptable offer, in the server's order of preference."""
        for offered in step.auths:
            if (offered.method, offered.mechanism) == _KERBEROS and self._security is not None:
                self.context = self._security.context(offered.protocol, offered.serverId)
                self._stage = _SaslStage.TOKENS
                chosen = pb.RpcSaslProto.SaslAuth()
                chosen.CopyFrom(offered)
                chosen.ClearField("challenge")
                return _step(pb.RpcSaslProto.INITIATE, self.context.step(None), chosen)
            if offered.method == _SIMPLE and self._goes_without:
                self._stage = _SaslStage.DONE
                return _step(pb.RpcSaslProto.INITIATE, None, offered)
        wanted = ", ".join(_described(offered) for offered in step.auths) or "nothing"
        ours = "KERBEROS" if self._security is not None else _SIMPLE
        raise AuthenticationRequiredError(f"the server offers {wanted}, but not {ours} authentication")

    @property
    def _goes_without(self) -> bool:
        return self._security is None or self._security.fallback

    def _token(self, context: SecurityContext, step: pb.RpcSaslProto) -> pb.RpcSaslProto:
        if not step.token:
            raise RpcProtocolError("the server sent a SASL challenge without a token")
        # the field must be present even if empty
        return _step(pb.RpcSaslProto.RESPONSE, context.step(step.token))

    def _layer(self, context: SecurityContext, step: pb.RpcSaslProto) -> pb.RpcSaslProto:
        offer = context.unwrap(step.token).data
        if len(offer) != _LAYERS.size:
            raise RpcProtocolError(f"the server's offer of protections has {len(offer)} bytes, expected 4")
        assert self._security is not None
        wanted = self._security.protections
        chosen = next((each for each in wanted if each.value & offer[0]), None)
        if chosen is None:
            theirs = [each for each in Protection if each.value & offer[0]]
            raise AuthenticationRequiredError(
                f"the server's connections offer {_words(theirs)}, but this side requires {_words(wanted)}",
                hint="Set hadoop.rpc.protection in core-site.xml as in the cluster.",
            )
        self.protection = chosen
        self._stage = _SaslStage.LAYER
        size = 0 if chosen is Protection.AUTHENTICATION else _MAX_TOKEN
        return _step(pb.RpcSaslProto.RESPONSE, context.wrap(_LAYERS.pack(chosen.value << 24 | size), encrypt=False))


class SaslServer:
    """One negotiation of a server with a client.

    Args:
        security: None accepts only SIMPLE.
        tokens: accepts delegation tokens, if their mechanism supports all offered protections.
        as_standby: whether a server that does not accept delegation tokens offers tokens and then refuses them, as a
            standby NameNode does. A client that has only a token then asks the active NameNode.

    Attributes:
        layer: protects the frames after the negotiation; None if the client did not log in.
        protection: protection of the frames after the negotiation.
        by_token: whether the client logged in with a delegation token.
        principal, user: the authenticated client and its short name; "" if the server does not use Kerberos. With a
            delegation token, they identify the token's owner.
    """

    def __init__(
        self, security: RpcServerSecurity | None, *, tokens: KnownTokens | None = None, as_standby: bool = False
    ) -> None:
        self._security = security
        self._tokens = tokens if security is not None and digest_md5.supports(security.protections) else None
        self._as_standby = as_standby
        self._stage = _SaslStage.OFFERS
        self._offered = False
        self._context: SecurityContext | None = None
        self._digest: DigestServer | None = None
        self.layer: MessageLayer | None = None
        self.protection = Protection.AUTHENTICATION
        self.by_token = False
        self.principal = ""
        self.user = ""

    @property
    def done(self) -> bool:
        return self._stage is _SaslStage.DONE

    def answer(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        """Return the response to a step of the client; None if there is no response.

        Raises:
            AccessControlError: the client requires a different authentication method, or has no short name.
            StandbyError: the client uses a delegation token, which this server does not accept.
            SaslError: the client's tokens do not prove its identity, or the step is invalid at this stage.
            RemoteError: see `KnownTokens`.
        """
        if self._stage is _SaslStage.OFFERS and step.state == pb.RpcSaslProto.NEGOTIATE and not self._offered:
            self._offered = True
            return self._offers()
        if self._stage is _SaslStage.OFFERS and step.state == pb.RpcSaslProto.INITIATE:
            return self._initiate(step)
        try:
            if step.state == pb.RpcSaslProto.RESPONSE and step.HasField("token"):
                if self._stage is _SaslStage.TOKENS and self._context is not None:
                    return self._token(self._context, step.token)
                if self._stage is _SaslStage.TOKENS and self._digest is not None:
                    return self._delegation_token(self._digest, step.token)
                if self._stage is _SaslStage.LAYER and self._context is not None:
                    return self._layer(self._context, step.token)
        except KerberosError as fault:
            raise SaslError(f"GSS initiate failed: {fault.message}") from fault
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise SaslError(f"Client sent unsupported state {name} to a negotiation at the stage {self._stage.value}")

    def _offers(self) -> pb.RpcSaslProto:
        if self._security is None:
            # Hadoop's clients interpret SUCCESS at this point as "continue without authentication"
            self._stage = _SaslStage.DONE
            return pb.RpcSaslProto(version=0, state=pb.RpcSaslProto.SUCCESS)
        # a client that has both a ticket and a token uses the first offer
        auths = [self._own_offer(self._security)]
        if self._tokens is not None or self._as_standby:
            auths.append(pb.RpcSaslProto.SaslAuth())
            auths[-1].CopyFrom(_TOKEN)
        if self._tokens is not None:
            self._digest = _digest_of(self._security)
            auths[-1].challenge = self._digest.challenge
        return _step(pb.RpcSaslProto.NEGOTIATE, None, *auths)

    def _own_offer(self, security: RpcServerSecurity) -> pb.RpcSaslProto.SaslAuth:
        method, mechanism = _KERBEROS
        return pb.RpcSaslProto.SaslAuth(
            method=method, mechanism=mechanism, protocol=security.service, serverId=security.host
        )

    def _initiate(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        methods = [each.method for each in step.auths]
        if self._security is None:
            if methods != [_SIMPLE]:
                raise AccessControlError(not_enabled(", ".join(methods) or "INITIATE", _SIMPLE))
            self._stage = _SaslStage.DONE
            return None
        if len(step.auths) != 1:
            raise SaslError("Client mechanism is malformed")
        if self._tokens is not None and step.auths[0] == _TOKEN:
            return self._initiate_token(self._security, step.token)
        if self._as_standby and methods == [_TOKEN.method]:
            raise StandbyError("this node does not accept delegation tokens: ask the active NameNode")
        if step.auths[0] != self._own_offer(self._security):
            if self._offered or methods == [_SIMPLE]:
                raise AccessControlError(not_enabled(methods[0], _KERBEROS[0]))
            self._offered = True
            return self._offers()
        try:
            self._context = self._security.context()
            return self._token(self._context, step.token)
        except KerberosError as fault:
            raise SaslError(f"GSS initiate failed: {fault.message}") from fault

    def _initiate_token(self, security: RpcServerSecurity, response: bytes) -> pb.RpcSaslProto:
        self._digest = self._digest or _digest_of(security)
        if response:
            return self._delegation_token(self._digest, response)
        self._stage = _SaslStage.TOKENS
        return _step(pb.RpcSaslProto.CHALLENGE, self._digest.challenge)

    def _delegation_token(self, digest: DigestServer, data: bytes) -> pb.RpcSaslProto:
        assert self._tokens is not None
        response = digest.read(data)
        try:
            identifier = base64.b64decode(response.user, validate=True)
        except binascii.Error as fault:
            raise SaslError("the user name is not the identifier of a delegation token") from fault
        token = self._tokens.known_token(identifier)
        proof, self.layer = digest.verify(response, base64.b64encode(token.password))
        self.principal, self.user, self.by_token = token.owner, token.user, True
        self.protection = response.protection
        self._stage = _SaslStage.DONE
        return _step(pb.RpcSaslProto.SUCCESS, proof)

    def _token(self, context: SecurityContext, token: bytes) -> pb.RpcSaslProto:
        self._stage = _SaslStage.TOKENS
        if not context.complete:
            answer = context.step(token)
            if answer or not context.complete:
                return _step(pb.RpcSaslProto.CHALLENGE, answer)
        elif token:
            raise SaslError("a token arrived after the negotiation was complete")
        assert self._security is not None
        mask = sum(each.value for each in set(self._security.protections))
        self._stage = _SaslStage.LAYER
        return _step(pb.RpcSaslProto.CHALLENGE, context.wrap(_LAYERS.pack(mask << 24 | _MAX_TOKEN), encrypt=False))

    def _layer(self, context: SecurityContext, token: bytes) -> pb.RpcSaslProto:
        assert self._security is not None
        chosen = context.unwrap(token).data
        wanted = next((each for each in self._security.protections if chosen[:1] == bytes((each.value,))), None)
        principal = context.initiator
        if len(chosen) < _LAYERS.size or wanted is None or chosen[_LAYERS.size :] not in (b"", principal.encode()):
            # Hadoop's message for a layer that was not offered, and for a login as another user
            raise SaslError("Problem with callback handler")
        try:
            self.user = self._security.user_of(principal)
        except ValueError as fault:
            raise AccessControlError(f"Illegal principal name {principal}: {fault}") from fault
        self.principal = principal
        self.layer, self.protection = context, wanted
        self._stage = _SaslStage.DONE
        return _step(pb.RpcSaslProto.SUCCESS, None)


def _digest_of(security: RpcServerSecurity) -> DigestServer:
    return DigestServer(_TOKEN.serverId, f"{_TOKEN.protocol}/{_TOKEN.serverId}", security.protections)


def not_enabled(asked: str, available: str) -> str:
    """Return Hadoop's message for an authentication method that a server does not support."""
    return f"{asked} authentication is not enabled.  Available:[{available}]"


def unwrap_frames(layer: MessageLayer, protection: Protection, step: pb.RpcSaslProto) -> bytes:
    """Return the part of the frame stream in a WRAP token.

    Raises:
        RpcProtocolError: the step is not WRAP.
        KerberosError: a token was modified, repeated or lost, or is not encrypted as agreed.
    """
    if step.state != pb.RpcSaslProto.WRAP:
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise RpcProtocolError(f"the SASL step {name} arrived where frames must be wrapped")
    data, encrypted = layer.unwrap(step.token)
    if protection is Protection.PRIVACY and not encrypted:
        raise KerberosError("a token is not encrypted although privacy was agreed")
    return data


def wrap_steps(layer: MessageLayer, protection: Protection, data: bytes) -> Iterator[pb.RpcSaslProto]:
    """Yield `data`, a part of the frame stream, as WRAP steps."""
    for start in range(0, len(data), _TOKEN_PIECE):
        piece = data[start : start + _TOKEN_PIECE]
        yield _step(pb.RpcSaslProto.WRAP, layer.wrap(piece, encrypt=protection is Protection.PRIVACY))


def _step(state: pb.RpcSaslProto.SaslState, token: bytes | None, *auths: pb.RpcSaslProto.SaslAuth) -> pb.RpcSaslProto:
    return pb.RpcSaslProto(state=state, token=token, auths=auths)


def _described(offered: pb.RpcSaslProto.SaslAuth) -> str:
    principal = f" as {offered.protocol}/{offered.serverId}" if offered.protocol else ""
    return f"{offered.method}{principal}"


def _words(protections: list[Protection] | tuple[Protection, ...]) -> str:
    return " or ".join(each.name.lower() for each in protections) or "no known protection"
