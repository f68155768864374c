"""Invariants for any bytes before a login and for the parts of a login: refusals, typed errors."""

from __future__ import annotations

import functools
from collections.abc import Callable

from flask import Flask

from hadoop_common.access import (
    AccessControl,
    AccessControlList,
    AccessPolicy,
    AccessRules,
    Caller,
    MachineList,
    Resource,
    Right,
)
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.client_state import CallResponse, ClientConnection
from hadoop_rpc.errors import RpcError
from hadoop_rpc.keytab import parse_keytab
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.security import Protection
from hadoop_rpc.server_counts import LoginCounts
from hadoop_rpc.server_state import Call, ConnectionEnd, ServerConnection, ServerState
from servlets.application import create_application
from servlets.auth_cookie import read_cookie, signed_cookie
from servlets.http_authenticator import HttpAuthenticator, HttpLogin, restrict
from servlets.jmx import jmx_blueprint
from tests.fuzz.verdict import check_error
from tests.hadoop_rpc.fake_security import PRINCIPAL, PROTOCOL, FakeAcceptor, FakeDoor, FakeSecurity, FakeTokens

SECRET = b"of no worth"
NOW = 1_700_000_000.0
_MAX_FRAME = 1 << 16
_EMPTY = ha.MonitorHealthResponseProto()
_ANSWERS = (200, 400, 401, 403, 404, 405)


def check_security(data: bytes) -> bool:
    """Pass the bytes after the first byte to the part of a login that the first byte chooses.

    Returns:
        Whether the part accepted the bytes, for example as a login, a cookie or a name.
    """
    if not data:
        return False
    return _PARTS[data[0] % len(_PARTS)](data[1:])


# ---- RPC -----------------------------------------------------------------------------------------------------


def _check_server(body: bytes) -> bool:
    server, slow = (
        ServerConnection(security=FakeDoor(), tokens=FakeTokens(), peer="10.0.0.9", max_frame=_MAX_FRAME)
        for _ in range(2)
    )
    events = server.receive(body)
    pieces = [event for at in range(len(body)) for event in slow.receive(body[at : at + 1])]
    assert [type(event) for event in pieces] == [type(event) for event in events]
    assert not any(isinstance(event, ConnectionEnd) for event in events[:-1])
    proven = server.sasl.principal == PRINCIPAL
    assert proven or server.state not in (ServerState.CONTEXT, ServerState.OPEN)
    for event in events:
        if isinstance(event, Call):
            assert proven
            assert event.protocol == PROTOCOL
            server.seal(server.respond(event, _EMPTY))
    return server.state is ServerState.OPEN


def _check_client(body: bytes) -> bool:
    client = ClientConnection(PROTOCOL, "", bytes(16), security=FakeSecurity(tuple(Protection)), max_frame=_MAX_FRAME)
    client.open()
    try:
        events = client.receive(body)
    except RpcError as error:
        check_error(error)
        return False
    return any(isinstance(event, CallResponse) for event in events)


# ---- HTTP ----------------------------------------------------------------------------------------------------


class _Key:
    def context(self) -> FakeAcceptor:
        return FakeAcceptor()


@functools.cache
def _application() -> Flask:
    login = HttpLogin(_Key(), FakeDoor().user_of, SECRET, 3600.0, frozenset({"/metrics"}))
    access = AccessControl(AccessRules(policies={Resource.STATE: AccessPolicy(own=True)}, own_user="sn"))
    return create_application(
        restrict(jmx_blueprint(list), access, Resource.STATE),
        authenticator=HttpAuthenticator(login, LoginCounts(), lambda: NOW),
    )


def _check_entrance(body: bytes) -> bool:
    """Send a request to the authenticator; the body contains its method and headers, one per line."""
    method, *lines = body.decode("latin-1").split("\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    known = {f"HTTP_{name.upper()}": headers[name] for name in ("cookie", "authorization") if name in headers}
    verb = method if method in ("GET", "PUT", "OPTIONS", "HEAD") else "GET"
    answer = _application().test_client(use_cookies=False).open("/jmx", method=verb, environ_overrides=known)
    assert answer.status_code in _ANSWERS, answer.status
    sent = any("hadoop.auth" in value or value.lower().startswith("negotiate") for value in known.values())
    assert sent or answer.status_code == 401, answer.status
    return answer.status_code == 200


def _check_cookie(body: bytes) -> bool:
    header = body.decode("latin-1")
    login = read_cookie(header, SECRET, NOW)
    if login is None:
        return False
    # only our server can have signed it
    assert signed_cookie(login, SECRET) in header
    assert login.until > NOW * 1000
    return True


# ---- names and files -----------------------------------------------------------------------------------------


def _check_names(body: bytes) -> bool:
    rules, _, name = body.decode("utf-8", "replace").partition("\0")
    # expressions that need exponential time are the operator's responsibility
    if len(rules) > 200 or len(name) > 40:
        return False
    try:
        found = NameRules(rules, "TEST.REALM").short_name(name)
    except (ValueError, RecursionError):
        return False
    assert not set("/@") & set(found) or "@" not in name
    return True


def _check_keytab(body: bytes) -> bool:
    try:
        return bool(parse_keytab(body))
    except ValueError:
        return False


def _check_lists(body: bytes) -> bool:
    users, _, hosts = body.decode("utf-8", "replace").partition("\0")
    admission = AccessPolicy(needed=(AccessControlList.parse("a", users), MachineList.parse("h", hosts)), refusal="no")
    rules = AccessRules(policies={PROTOCOL: admission})
    access = AccessControl(rules, look_up=lambda name: [], groups_of=lambda user: frozenset({"staff"}))
    verdict = access.check(Caller("10.0.0.9", ("sn",), PRINCIPAL), Right.CHANGE, PROTOCOL)
    assert verdict.allowed or PRINCIPAL in verdict.reason
    return verdict.allowed


_PARTS: tuple[Callable[[bytes], bool], ...] = (
    _check_server,
    _check_client,
    _check_entrance,
    _check_cookie,
    _check_names,
    _check_keytab,
    _check_lists,
)
