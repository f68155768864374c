"""The SASL negotiation of Hadoop RPC (SaslRpcClient, RpcSaslProto; GSSAPI as RFC 4752 has it); no I/O.

The client's stages:

    OFFERS → DONE                     the server has no security, or SIMPLE is taken
    OFFERS → TOKENS → LAYER → DONE    Kerberos: tokens until both sides are known, then the layer that guards frames

Each step of the server has one answer, or none when it is SUCCESS. Without security SUCCESS may come in OFFERS only,
with it in LAYER only: a server that skips a stage is not believed.
"""

from __future__ import annotations

import struct
from enum import Enum

from hadoop_rpc.errors import AccessControlError, AuthenticationRequiredError, KerberosError, RpcProtocolError
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import ClientSecurity, Protection, SecurityContext

_SIMPLE = "SIMPLE"
_KERBEROS = ("KERBEROS", "GSSAPI")
_LAYERS = struct.Struct(">I")
# what Java's clients announce; no server of Hadoop goes by it
_MAX_TOKEN = 1 << 16


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


def unwrap_frames(context: SecurityContext, protection: Protection, step: pb.RpcSaslProto) -> bytes:
    """What a WRAP token holds: a part of the stream of frames.

    Raises:
        RpcProtocolError: it is no WRAP.
        KerberosError: it was changed, repeated or left out on the way, or is not encrypted as agreed.
    """
    if step.state != pb.RpcSaslProto.WRAP:
        name = pb.RpcSaslProto.SaslState.Name(step.state)
        raise RpcProtocolError(f"the server sent the SASL step {name} where frames are wrapped")
    data, encrypted = context.unwrap(step.token)
    if protection is Protection.PRIVACY and not encrypted:
        raise KerberosError("the server sent a token that is not encrypted, and privacy was agreed")
    return data


def wrap_step(context: SecurityContext, protection: Protection, data: bytes) -> pb.RpcSaslProto:
    """`data`, a part of the stream of frames, as a WRAP step."""
    return _step(pb.RpcSaslProto.WRAP, context.wrap(data, encrypt=protection is Protection.PRIVACY))


def after_client_step(step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
    """What a server with SIMPLE only answers to a client's step; None where the client goes on by itself.

    Raises:
        AccessControlError: the client insists on another authentication.
    """
    if step.state == pb.RpcSaslProto.NEGOTIATE:
        # Hadoop's clients take SUCCESS at this point for "go on without authentication".
        return pb.RpcSaslProto(version=0, state=pb.RpcSaslProto.SUCCESS)
    methods = [offered.method for offered in step.auths]
    if step.state == pb.RpcSaslProto.INITIATE and methods == [_SIMPLE]:
        return None
    asked = ", ".join(methods) or pb.RpcSaslProto.SaslState.Name(step.state)
    raise AccessControlError(f"{asked} authentication is not enabled.  Available:[{_SIMPLE}]")


def _step(state: pb.RpcSaslProto.SaslState, token: bytes | None, *auths: pb.RpcSaslProto.SaslAuth) -> pb.RpcSaslProto:
    return pb.RpcSaslProto(state=state, token=token, auths=auths)


def _described(offered: pb.RpcSaslProto.SaslAuth) -> str:
    principal = f" as {offered.protocol}/{offered.serverId}" if offered.protocol else ""
    return f"{offered.method}{principal}"


def _words(protections: list[Protection] | tuple[Protection, ...]) -> str:
    return " or ".join(each.name.lower() for each in protections) or "no protection that is known"
