"""Principals with `_HOST`, patterns of server principals, and the entries of keytabs."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.exit_codes import ExitCode
from hadoop_rpc.errors import KerberosSetupError
from hadoop_rpc.kerberos import PROCESS, log_in
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.keytab import KeytabEntry, parse_keytab
from hadoop_rpc.principals import ServerPrincipal, with_host
from hadoop_rpc.tickets import TicketCaches
from tests.hadoop_rpc.keytabs import keytab_of

NAMENODE = ServerPrincipal("dfs.namenode.kerberos.principal", "nn/_HOST@R")
LOGIN = KerberosLogin("sn/h@R", Path("/nowhere"), NAMENODE, NAMENODE)


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("nn/_HOST@R", "nn/host.example@R"),
        ("nn/_HOST", "nn/_HOST"),
        ("nn/x_HOST@R", "nn/x_HOST@R"),
        ("nn@R", "nn@R"),
        ("", ""),
    ],
)
def test_host_placeholder_is_replaced_only_as_a_whole_component(principal: str, expected: str) -> None:
    assert with_host(principal, "Host.Example.") == expected


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*", ["nn/h@R"], []),
        ("", [], ["nn/h@R"]),
        ("nn/*@R", ["nn/h1.a@R"], ["nn/h1.a@Q", "xnn/h@R"]),
        ("nn/h?@R", ["nn/h1@R"], ["nn/h12@R"]),
        ("nn/{h1,h2*}@R", ["nn/h1@R", "nn/h2x@R"], ["nn/h3@R"]),
        ("nn/h[1-3]@R", ["nn/h2@R"], ["nn/h4@R"]),
        ("nn/h[^1]@R", ["nn/h2@R"], ["nn/h1@R"]),
        ("nn/h.a\\*@R", ["nn/h.a*@R"], ["nn/hxa*@R", "nn/h.ab@R"]),
    ],
)
def test_principal_patterns_match_as_in_hadoop(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    server = replace(NAMENODE, pattern=pattern)
    assert all(server.fits_pattern(name) for name in fits)
    assert not any(server.fits_pattern(name) for name in fits_not)


@given(st.text("*?[]{}\\,^!-ab@/", max_size=12))
def test_any_text_is_a_valid_pattern(pattern: str) -> None:
    replace(NAMENODE, pattern=pattern).fits_pattern("a/b@ab")


# ---- keytabs ----


_ENTRIES = st.lists(
    st.builds(
        KeytabEntry,
        st.from_regex(r"[a-z]{1,5}(/[a-z.]{1,9})?@[A-Z.]{1,8}", fullmatch=True),
        st.integers(1, 70_000),
        st.integers(1, 30),
    ),
    max_size=4,
)


@given(_ENTRIES)
def test_keytabs_round_trip(entries: list[KeytabEntry]) -> None:
    assert parse_keytab(keytab_of(*entries)) == entries
    narrow = [replace(each, version=each.version & 0xFF) for each in entries]
    assert parse_keytab(keytab_of(*entries, wide=False)) == narrow


@given(_ENTRIES, st.data())
def test_damaged_keytab_is_read_or_reported(entries: list[KeytabEntry], data: st.DataObject) -> None:
    whole = bytearray(keytab_of(*entries))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    message = ""
    try:
        parse_keytab(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except ValueError as fault:
        message = str(fault)
    assert re.match(r"it is truncated at byte \d+|it begins with|$", message)


def test_faults_of_a_keytab_are_reported(tmp_path: Path) -> None:
    keytab = tmp_path / "keytab"
    login = replace(LOGIN, keytab=keytab)
    with pytest.raises(KerberosSetupError, match="cannot be read: No such file"):
        login.own_keys()
    keytab.write_bytes(keytab_of(KeytabEntry("other/h@R", 1, 18), KeytabEntry("sn/g@R", 2, 18)))
    with pytest.raises(KerberosSetupError, match=r"no key of sn/h@R; it contains other/h@R, sn/g@R"):
        login.own_keys()
    keytab.write_bytes(b"secret")
    with pytest.raises(KerberosSetupError, match="begins with 7365, expected 0502"):
        login.own_keys()


def test_missing_gssapi_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KerberosSetupError, match="Python package gssapi is not installed") as caught:
        log_in(LOGIN)
    assert "hdfs-checkpointer[kerberos]" in caught.value.hint
    assert caught.value.exit_code == ExitCode.USAGE
    assert PROCESS.login is None


def test_tickets_are_renewed_at_most_once_a_minute() -> None:
    caches, login, now = TicketCaches(), replace(LOGIN, principal="once/h@R"), [100.0]
    first = caches.cache_name(login.principal, Path("/nowhere"))
    assert caches.cache_name(login.principal, Path("/nowhere")) == first
    assert caches.renew(login, lambda: now[0])
    assert caches.cache_name(login.principal, Path("/nowhere")) != first
    now[0] += 59
    assert not caches.renew(login, lambda: now[0])
    now[0] += 1
    assert caches.renew(login, lambda: now[0])
    assert not caches.renew(replace(login, keytab=None))
