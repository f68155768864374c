"""The SASL negotiation of Hadoop RPC, as far as SIMPLE goes (SaslRpcClient, RpcSaslProto).

A mechanism with tokens (GSSAPI for KERBEROS, DIGEST-MD5 for TOKEN) adds its exchange between INITIATE and SUCCESS.
"""

from __future__ import annotations

from hadoop_rpc.errors import AccessControlError, AuthenticationRequiredError, RpcProtocolError
from hadoop_rpc.proto import rpc_pb2 as pb

_SIMPLE = "SIMPLE"


def negotiate() -> pb.RpcSaslProto:
    """The client's first step."""
    return pb.RpcSaslProto(version=0, state=pb.RpcSaslProto.NEGOTIATE)


def after_server_step(step: pb.RpcSaslProto) -> pb.RpcSaslProto | None:
    """What a client answers to the server's offer; None where the server is content without an answer.

    Raises:
        AuthenticationRequiredError: SIMPLE is not offered; names what is.
        RpcProtocolError: this is no offer.
    """
    if step.state == pb.RpcSaslProto.SUCCESS:
        return None
    if step.state != pb.RpcSaslProto.NEGOTIATE:
        raise RpcProtocolError(f"the server began the SASL negotiation with state {step.state}, expected NEGOTIATE")
    for offered in step.auths:
        if offered.method == _SIMPLE:
            return pb.RpcSaslProto(version=0, state=pb.RpcSaslProto.INITIATE, auths=[offered])
    wanted = ", ".join(_described(offered) for offered in step.auths) or "nothing"
    raise AuthenticationRequiredError(f"the server offers {wanted}, but not SIMPLE authentication")


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


def _described(offered: pb.RpcSaslProto.SaslAuth) -> str:
    principal = f" as {offered.protocol}/{offered.serverId}" if offered.protocol else ""
    return f"{offered.method}{principal}"
