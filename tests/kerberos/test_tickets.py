"""Expiring tickets, a stopped KDC and changed keys, with a real KDC: logins recover without an operator."""

from __future__ import annotations

import base64
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS, log_in, security_for
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import SecurityContext
from hadoop_rpc.spnego import Spnego
from tests.interop.hadoop_process import wait_until
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.web_peer import Peer, login

pytestmark = [pytest.mark.interop]


def handshake(peer: Peer) -> tuple[SecurityContext, Any]:
    security = security_for(ServerKind.NAMENODE, "localhost")
    assert security is not None
    context = security.context("nn", "localhost")
    there, answer = peer.accept(context.step(None))
    assert context.step(answer) == b""
    return context, there


@pytest.fixture
def peer(kdc: Kdc) -> Peer:
    return Peer(kdc.root / "nn.keytab")


def test_wrapped_messages_are_verified(kdc: Kdc, peer: Peer) -> None:
    log_in(login(kdc, "sn/localhost", kdc.root / "sn.keytab"))
    context, there = handshake(peer)
    assert context.complete
    assert context.initiator == f"sn/localhost@{REALM}"
    sealed, clear = (context.wrap(b"/a/path", encrypt=encrypt) for encrypt in (True, False))
    assert (b"/a/path" in sealed, b"/a/path" in clear) == (False, True)
    assert there.unwrap(sealed).encrypted
    first, second, third = (there.wrap(text, True).message for text in (b"one", b"two", b"three"))
    assert context.unwrap(first) == (b"one", True)
    with pytest.raises(KerberosError, match="duplicate"):
        context.unwrap(first)
    with pytest.raises(KerberosError, match="token was not received"):
        context.unwrap(third)
    with pytest.raises(KerberosError, match=r"modified|checksum|integrity|signature"):
        context.unwrap(second[:-1] + bytes([second[-1] ^ 1]))
    context, there = handshake(peer)
    assert context.unwrap(there.wrap(b"plain", False).message).encrypted is False


@pytest.mark.deep
def test_tickets_bridge_a_kdc_outage_and_logins_recover(kdc: Kdc, peer: Peer) -> None:
    kdc.add("short", life="6s")
    keytab = kdc.keytab("short.keytab", "short")
    log_in(login(kdc, "short", keytab))
    handshake(peer)
    kdc.stop()
    try:
        handshake(peer)

        reported: list[KerberosError] = []

        def ended() -> bool:
            try:
                handshake(peer)
            except KerberosError as error:
                reported.append(error)
            return bool(reported)

        wait_until(ended, "the end of the ticket")
        assert re.search(r"KDC|expired", reported[0].message), reported
        assert "check the KDC" in reported[0].hint
    finally:
        kdc.start()
    handshake(peer)


def test_a_rotated_keytab_is_used_for_the_next_ticket(kdc: Kdc, peer: Peer) -> None:
    kdc.add("rotated")
    keytab = kdc.keytab("rotated.keytab", "rotated")
    ours = login(kdc, "rotated", keytab)
    log_in(ours)
    handshake(peer)
    kdc.admin("cpw -randkey rotated")
    assert PROCESS.tickets.renew(ours, lambda: time.monotonic() + 1000)
    with pytest.raises(KerberosError) as caught:
        handshake(peer)
    assert "older than the key in the KDC" in caught.value.hint
    keytab.unlink()
    kdc.keytab("rotated.keytab", "rotated")
    assert [entry.version for entry in ours.own_keys()] == [2, 2]
    handshake(peer)


def test_a_changed_server_key_leads_to_a_new_ticket(kdc: Kdc) -> None:
    kdc.add("nn/localhost2")
    ours = login(kdc, "sn/localhost", kdc.root / "sn.keytab")
    log_in(ours)
    security = security_for(ServerKind.NAMENODE, "localhost2")
    assert security is not None
    old = Peer(kdc.keytab("old.keytab", "nn/localhost2"))
    old.accept(security.context("nn", "localhost2").step(None))
    kdc.admin("cpw -randkey nn/localhost2")
    new = Peer(kdc.keytab("new.keytab", "nn/localhost2"))
    import gssapi

    with pytest.raises(gssapi.exceptions.GSSError):
        new.accept(security.context("nn", "localhost2").step(None))
    assert PROCESS.tickets.renew(ours, lambda: time.monotonic() + 5000)
    new.accept(security.context("nn", "localhost2").step(None))


def test_a_renewal_frees_the_tickets_before_the_previous_renewal(kdc: Kdc, peer: Peer) -> None:
    ours = login(kdc, "sn/localhost", kdc.root / "sn.keytab")
    assert ours.keytab is not None
    log_in(ours)
    names = []
    for number in range(4):
        handshake(peer)
        names.append(PROCESS.tickets.cache_name(ours.principal, ours.keytab))
        assert PROCESS.tickets.renew(ours, lambda now=10_000 * (number + 1): time.monotonic() + now)  # type: ignore[misc]
    import gssapi

    def has_tickets(cache: str) -> bool:
        try:
            return bool(gssapi.Credentials(usage="initiate", store={"ccache": cache}).lifetime)
        except gssapi.exceptions.GSSError:
            return False

    assert list(map(has_tickets, names)) == [False, False, False, True]
    handshake(peer)


def test_a_web_server_must_prove_its_identity(kdc: Kdc, peer: Peer) -> None:
    ours = login(kdc, "sn/localhost", kdc.root / "sn.keytab")
    asked = Spnego("LOCALHOST", ours)
    token = base64.b64decode(asked.headers["Authorization"].removeprefix("Negotiate "))
    _, answer = peer.accept(token)
    reply = "Negotiate " + base64.b64encode(answer).decode()
    asked.check(200, [reply])
    assert Spnego("localhost", ours).headers != asked.headers
    with pytest.raises(KerberosError, match="without proving its identity"):
        Spnego("localhost", ours).check(200, [""])
    with pytest.raises(KerberosError):
        Spnego("localhost", ours).check(200, [reply])
    with pytest.raises(KerberosError, match="is not base64"):
        Spnego("localhost", ours).check(200, ["Negotiate !"])
    Spnego("localhost", ours).check(403, [])


@pytest.mark.parametrize(
    ("change", "expected_message"),
    [
        ({"principal": f"nobody@{REALM}"}, "has no key of nobody"),
        ({"keytab": Path("/nowhere/keytab")}, "cannot be read: No such file"),
    ],
)
def test_an_impossible_login_is_refused_at_once(kdc: Kdc, change: dict[str, Any], expected_message: str) -> None:
    with pytest.raises(KerberosError, match=expected_message):
        log_in(replace(login(kdc, "sn/localhost", kdc.root / "sn.keytab"), **change))


def test_an_unknown_principal_is_an_error(kdc: Kdc) -> None:
    kdc.add("gone")
    keytab = kdc.keytab("gone.keytab", "gone")
    kdc.admin("delprinc -force gone")
    with pytest.raises(KerberosError, match="not found in Kerberos database") as caught:
        PROCESS.tickets.credentials(login(kdc, "gone", keytab))
    assert "Add the principal" in caught.value.hint
