"""The SASL negotiation of Hadoop RPC (SaslRpcClient, RpcSaslProto; GSSAPI as RFC 4752 has it); no I/O.

The client's stages:

    OFFERS → DONE                     the server has no security, or SIMPLE is taken
    OFFERS → TOKENS → LAYER → DONE    Kerberos: tokens until both sides are known, then the layer that guards frames

Each step of the server has one answer, or none when it is SUCCESS. Without security SUCCESS may come in OFFERS only,
with it in LAYER only: a server that skips a stage is not believed.

The server's stages are the same, with a step of the client in each:

    OFFERS → DONE                     no security: NEGOTIATE is answered with SUCCESS, INITIATE of SIMPLE with nothing
    OFFERS → TOKENS → LAYER → DONE    Kerberos: tokens until the client is known, an empty RESPONSE, its layer

A client that knows what is offered may begin with INITIATE. What is out of order is a refusal, and the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final

from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    KerberosError,
    RpcProtocolError,
    SaslError,
)
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import ClientSecurity, Protection, SecurityContext, ServerSecurity

_SIMPLE = "SIMPLE"
_KERBEROS = ("KERBEROS", "GSSAPI")
_LAYERS = struct.Struct(">I")
# what Java announces; no server of Hadoop goes by it
_MAX_TOKEN = 1 << 16
# bytes of frames in one token: with what any encryption type adds, it is below the 64 KiB of Java's clients
_PIECE = 60 << 10
MAX_HANDSHAKE_FRAME: Final = 1 << 18
"""Largest frame before the end of a negotiation: tokens with the groups of a large directory reach 64 KiB."""
MAX_TOKEN_FRAME: Final = 1 << 20
"""Largest frame that a server takes with one token: it is decrypted as a whole, and clients are told 64 KiB."""


class _Stage(Enum):
    OFFERS = "offers"
    TOKENS = "tokens"
    LAYER = "layer"
    DONE = "done"


class SaslClient:
    """One negotiation.

    Args:
        security: None takes SIMPLE only.

    Attributes:
        context: of the login by Kerberos, None where there was none.
        protection: what guards the frames after the negotiation.
    """

    def __init__(self, security: ClientSecurity | None) -> None:
        self._security = security
        self._stage = _Stage.OFFERS
        self.context: SecurityContext | None = None
        self.protection = Protection.AUTHENTICATION

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    def begin(self) -> pb.RpcSaslProto:
        """The client's first step."""
        return _step(pb.RpcSaslProto.NEGOTIATE, None)

    def answer(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        """What to answer to a step of the server; None where it wants no answer.

        Raises:
            AuthenticationRequiredError: there is no authentication, or no protection, that both sides take.
            KerberosError: the tokens do not prove who the server is, or there is no ticket for it.
            RpcProtocolError: the step is none that may come now.
        """
        context = self.context
        if step.state == pb.RpcSaslProto.NEGOTIATE and self._stage is _Stage.OFFERS:
            return self._choose(step)
        if step.state == pb.RpcSaslProto.CHALLENGE and self._stage is _Stage.TOKENS and context is not None:
            return self._layer(context, step) if context.complete else self._token(context, step)
        if step.state == pb.RpcSaslProto.SUCCESS and self._stage in (_Stage.OFFERS, _Stage.LAYER) and not step.token:
            if self._stage is _Stage.OFFERS and not self._goes_without:
                raise AuthenticationRequiredError(
                    "the server has no security, and this side is configured for Kerberos",
                    hint="Check the server's hadoop.security.authentication; only "
                    "ipc.client.fallback-to-simple-auth-allowed allows a server without security.",
                )
            self._stage = _Stage.DONE
            return None
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise RpcProtocolError(f"the server sent {name} to a SASL negotiation that is at its {self._stage.value}")

    def _choose(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto:
        """The first offer that we can take, as its server prefers them."""
        for offered in step.auths:
            if (offered.method, offered.mechanism) == _KERBEROS and self._security is not None:
                self.context = self._security.context(offered.protocol, offered.serverId)
                self._stage = _Stage.TOKENS
                chosen = pb.RpcSaslProto.SaslAuth()
                chosen.CopyFrom(offered)
                chosen.ClearField("challenge")
                return _step(pb.RpcSaslProto.INITIATE, self.context.step(None), chosen)
            if offered.method == _SIMPLE and self._goes_without:
                self._stage = _Stage.DONE
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
        # with nothing to say the field is there all the same, and empty
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
                f"the server's connections have {_words(theirs)}, and this side wants {_words(wanted)}",
                hint="Set hadoop.rpc.protection in core-site.xml as the cluster has it.",
            )
        self.protection = chosen
        self._stage = _Stage.LAYER
        size = 0 if chosen is Protection.AUTHENTICATION else _MAX_TOKEN
        return _step(pb.RpcSaslProto.RESPONSE, context.wrap(_LAYERS.pack(chosen.value << 24 | size), encrypt=False))


class SaslServer:
    """One negotiation of a client.

    Args:
        security: None takes SIMPLE only.

    Attributes:
        context: of the login by Kerberos, None where there was none.
        protection: what guards the frames after the negotiation.
        principal, user: who the client is once it is done, and its short name; "" without Kerberos.
    """

    def __init__(self, security: ServerSecurity | None) -> None:
        self._security = security
        self._stage = _Stage.OFFERS
        self._offered = False
        self.context: SecurityContext | None = None
        self.protection = Protection.AUTHENTICATION
        self.principal = ""
        self.user = ""

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    def answer(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        """What to answer to a step of the client; None where it goes on by itself.

        Raises:
            AccessControlError: the client insists on another authentication, or has no name here.
            SaslError: its tokens prove nothing, or the step is none that may come now.
        """
        if self._stage is _Stage.OFFERS and step.state == pb.RpcSaslProto.NEGOTIATE and not self._offered:
            self._offered = True
            return self._offers()
        if self._stage is _Stage.OFFERS and step.state == pb.RpcSaslProto.INITIATE:
            return self._initiate(step)
        try:
            if step.state == pb.RpcSaslProto.RESPONSE and self.context is not None and step.HasField("token"):
                if self._stage is _Stage.TOKENS:
                    return self._token(self.context, step.token)
                if self._stage is _Stage.LAYER:
                    return self._layer(self.context, step.token)
        except KerberosError as fault:
            raise SaslError(f"GSS initiate failed: {fault.message}") from fault
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise SaslError(f"Client sent unsupported state {name} to a negotiation that is at its {self._stage.value}")

    def _offers(self) -> pb.RpcSaslProto:
        if self._security is None:
            # Hadoop's clients take SUCCESS at this point for "go on without authentication".
            self._stage = _Stage.DONE
            return pb.RpcSaslProto(version=0, state=pb.RpcSaslProto.SUCCESS)
        return _step(pb.RpcSaslProto.NEGOTIATE, None, self._own_offer(self._security))

    def _own_offer(self, security: ServerSecurity) -> pb.RpcSaslProto.SaslAuth:
        method, mechanism = _KERBEROS
        return pb.RpcSaslProto.SaslAuth(
            method=method, mechanism=mechanism, protocol=security.service, serverId=security.host
        )

    def _initiate(self, step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
        methods = [each.method for each in step.auths]
        if self._security is None:
            if methods != [_SIMPLE]:
                raise AccessControlError(not_enabled(", ".join(methods) or "INITIATE", _SIMPLE))
            self._stage = _Stage.DONE
            return None
        if len(step.auths) != 1:
            raise SaslError("Client mechanism is malformed")
        if step.auths[0] != self._own_offer(self._security):
            if self._offered or methods == [_SIMPLE]:
                raise AccessControlError(not_enabled(methods[0], _KERBEROS[0]))
            self._offered = True
            return self._offers()
        try:
            self.context = self._security.context()
            return self._token(self.context, step.token)
        except KerberosError as fault:
            raise SaslError(f"GSS initiate failed: {fault.message}") from fault

    def _token(self, context: SecurityContext, token: bytes) -> pb.RpcSaslProto:
        self._stage = _Stage.TOKENS
        if not context.complete:
            answer = context.step(token)
            if answer or not context.complete:
                return _step(pb.RpcSaslProto.CHALLENGE, answer)
        elif token:
            raise SaslError("a token came after the last one")
        assert self._security is not None
        mask = sum(each.value for each in set(self._security.protections))
        self._stage = _Stage.LAYER
        return _step(pb.RpcSaslProto.CHALLENGE, context.wrap(_LAYERS.pack(mask << 24 | _MAX_TOKEN), encrypt=False))

    def _layer(self, context: SecurityContext, token: bytes) -> pb.RpcSaslProto:
        assert self._security is not None
        chosen = context.unwrap(token).data
        wanted = next((each for each in self._security.protections if chosen[:1] == bytes((each.value,))), None)
        principal = context.initiator
        if len(chosen) < _LAYERS.size or wanted is None or chosen[_LAYERS.size :] not in (b"", principal.encode()):
            # Hadoop's words for a layer that was not offered, and for a login as somebody else
            raise SaslError("Problem with callback handler")
        try:
            self.user = self._security.user_of(principal)
        except ValueError as fault:
            raise AccessControlError(f"Illegal principal name {principal}: {fault}") from fault
        self.principal = principal
        self.protection = wanted
        self._stage = _Stage.DONE
        return _step(pb.RpcSaslProto.SUCCESS, None)


def not_enabled(asked: str, available: str) -> str:
    """Hadoop's words for an authentication that a server does not have."""
    return f"{asked} authentication is not enabled.  Available:[{available}]"


def unwrap_frames(context: SecurityContext, protection: Protection, step: pb.RpcSaslProto) -> bytes:
    """What a WRAP token holds: a part of the stream of frames.

    Raises:
        RpcProtocolError: it is no WRAP.
        KerberosError: it was changed, repeated or left out on the way, or is not encrypted as agreed.
    """
    if step.state != pb.RpcSaslProto.WRAP:
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise RpcProtocolError(f"the SASL step {name} came where frames are wrapped")
    data, encrypted = context.unwrap(step.token)
    if protection is Protection.PRIVACY and not encrypted:
        raise KerberosError("a token came that is not encrypted, and privacy was agreed")
    return data


def wrap_steps(context: SecurityContext, protection: Protection, data: bytes) -> Iterator[pb.RpcSaslProto]:
    """`data`, a part of the stream of frames, as WRAP steps."""
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        yield _step(pb.RpcSaslProto.WRAP, context.wrap(piece, encrypt=protection is Protection.PRIVACY))


def _step(state: pb.RpcSaslProto.SaslState, token: bytes | None, *auths: pb.RpcSaslProto.SaslAuth) -> pb.RpcSaslProto:
    return pb.RpcSaslProto(state=state, token=token, auths=auths)


def _described(offered: pb.RpcSaslProto.SaslAuth) -> str:
    principal = f" as {offered.protocol}/{offered.serverId}" if offered.protocol else ""
    return f"{offered.method}{principal}"


def _words(protections: list[Protection] | tuple[Protection, ...]) -> str:
    return " or ".join(each.name.lower() for each in protections) or "no protection that is known"
