"""Verdicts of a server on requests of each principal, for Hadoop's servers and ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import Message

from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.errors import AccessControlError, AuthenticationRequiredError, NotAuthorizedError, RemoteError
from hadoop_rpc.kerberos import log_in, security_for
from hadoop_rpc.rpc_protocol import RpcProtocol, ServerKind
from tests.kerberos.callers import SERVERS, USERS, get, login
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import HOST

EVERYBODY = ("", *SERVERS, *USERS)
Asked = tuple[str, str, str]
_BODIES = {"PUT": b"x", "POST": b"x"}


def login_on_all_pages(kdc: Kdc, root: Path) -> dict[str, str]:
    """Return settings with which Hadoop requires Kerberos on all its pages, as our servers always do."""
    secret = root / "secret"
    secret.write_text("of no worth")
    return {
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/{HOST}@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": str(kdc.root / "nn.keytab"),
        "hadoop.http.authentication.signature.secret.file": str(secret),
        "hadoop.http.authentication.kerberos.endpoint.whitelist": "",
    }


def of_pages(kdc: Kdc, url: str, requests: Iterable[tuple[str, str]]) -> dict[Asked, int]:
    """Return the status for each principal and for an anonymous client, by principal, method and path."""
    return {
        (who, method, path): get(kdc, who, url, path, method, _BODIES.get(method))[0]
        for who in EVERYBODY
        for method, path in requests
    }


def of_calls(
    kdc: Kdc, kind: ServerKind, address: tuple[str, int], calls: Iterable[tuple[RpcProtocol, str, Message | None]]
) -> dict[Asked, str]:
    """Return the error for each principal and an anonymous client, or `let in`, by principal, protocol and method."""
    found = {}
    for who in EVERYBODY:
        log_in(None if not who else login(kdc, who))
        for protocol, method, request in calls:
            asked = protocol.request(method)() if request is None else request
            found[who, protocol.name, method] = _called(kind, address, protocol, method, asked)
    return found


def _called(kind: ServerKind, address: tuple[str, int], protocol: RpcProtocol, method: str, request: Message) -> str:
    security = security_for(kind, address[0])
    with RpcClient(*address, protocol.name, user="hdfs", security=security, retry=NO_RETRY) as client:
        try:
            client.call(method, request, protocol.response(method))
        except (AccessControlError, NotAuthorizedError, AuthenticationRequiredError) as error:
            return type(error).__name__
        except RemoteError:
            # Hadoop responds to permitted callers that HA is off
            return "let in"
    return "let in"
