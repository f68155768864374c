"""Callers of a kerberized web server authenticate by a token or by the cookie of an earlier login."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import pytest
from flask import Blueprint, Response, request
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from hadoop_common.access import AccessControl, AccessControlList, AccessPolicy, AccessRules, Resource
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.server_counts import LoginCounts
from servlets.application import create_application
from servlets.auth_cookie import Login, read_cookie, signed_cookie
from servlets.http_authenticator import HttpAuthenticator, HttpLogin, restrict
from tests.hadoop_rpc.fake_security import PRINCIPAL, FakeAcceptor, FakeDoor

SECRET = b"of no worth"
NOW = 1_700_000_000.0
TOKEN = {"Authorization": "Negotiate " + base64.b64encode(b"hello").decode()}
WELCOME = "Negotiate " + base64.b64encode(b"welcome").decode()
UNTIL = int((NOW + 60) * 1000)


@dataclass
class Key:
    """A key that accepts `hello` as a client's token."""

    principal: str = PRINCIPAL

    def context(self) -> FakeAcceptor:
        return FakeAcceptor(initiator=self.principal)


@dataclass
class Site:
    """A server with one page for each resource."""

    admission: AccessPolicy = field(default_factory=AccessPolicy)
    key: Key = field(default_factory=Key)
    now: float = NOW
    logins: LoginCounts = field(default_factory=LoginCounts)
    asked: list[str] = field(default_factory=list)

    def client(self) -> FlaskClient:
        pages = Blueprint("pages", __name__)

        @pages.route("/page", methods=["GET", "PUT"])
        @pages.route("/metrics")
        def page() -> Response:
            self.asked.append(request.method)
            return Response("here")

        rules = AccessRules(policies={Resource.IMAGES: self.admission}, own_user="nn")
        login = HttpLogin(self.key, FakeDoor().user_of, SECRET, 60.0, frozenset({"/metrics"}))
        authenticator = HttpAuthenticator(login, self.logins, lambda: self.now)
        pages = restrict(pages, AccessControl(rules), Resource.IMAGES)
        return create_application(pages, authenticator=authenticator).test_client(use_cookies=False)


def cookie_of(answer: TestResponse) -> str:
    return answer.headers["Set-Cookie"].split(";")[0]


# ---- the exchange ----


def test_a_request_without_a_token_gets_a_challenge() -> None:
    site = Site()
    answer = site.client().get("/page")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Negotiate"
    assert answer.headers["Set-Cookie"].startswith("hadoop.auth=; Path=/; Expires=Thu, 01-Jan-1970")
    assert site.client().get("/none").status_code == 401
    assert site.client().get("/page", headers={"Authorization": "Basic aGVsbG8="}).status_code == 401
    assert site.asked == []


def test_a_login_by_token_gives_a_cookie_for_later_requests() -> None:
    site = Site()
    answer = site.client().get("/page", headers=TOKEN)
    assert (answer.status_code, answer.text) == (200, "here")
    assert answer.headers["WWW-Authenticate"] == WELCOME
    cookie = cookie_of(answer)
    assert cookie.startswith(f'hadoop.auth="u=sn&p={PRINCIPAL}&t=kerberos&e={UNTIL}&s=')
    for sent in (cookie, cookie.replace('"', ""), f"a=b; {cookie}; c=d"):
        again = site.client().get("/page", headers={"Cookie": sent})
        assert again.status_code == 200
        assert "WWW-Authenticate" not in again.headers
    assert site.logins.now().results == {("http", "accepted"): 1}
    site.now += 61
    assert site.client().get("/page", headers={"Cookie": cookie}).status_code == 401


def test_a_cookie_of_https_is_secure() -> None:
    over = Site().client().get("/page", headers=TOKEN, base_url="https://localhost")
    assert over.headers["Set-Cookie"].endswith("; Secure; HttpOnly")
    assert "Secure" not in Site().client().get("/page", headers=TOKEN).headers["Set-Cookie"]


def test_options_requests_log_in_without_calling_a_servlet() -> None:
    site = Site(AccessPolicy(refusal="nobody", lists=(AccessControlList("x"),)))
    client = site.client()
    assert client.options("/page").status_code == 401
    answer = client.options("/page", headers=TOKEN)
    assert (answer.status_code, answer.data, answer.headers["Content-Length"]) == (200, b"", "0")
    assert "PUT" in answer.headers["Allow"]
    assert client.put("/page", headers={"Cookie": cookie_of(answer)}).status_code == 403
    assert site.asked == []


def test_open_pages_need_no_login() -> None:
    site = Site(AccessPolicy(refusal="nobody", lists=(AccessControlList("x"),)))
    assert site.client().get("/metrics").status_code == 200
    assert site.client().get("/health/live").status_code == 404
    assert site.client().get("/metrics/more").status_code == 401


# ---- refusals ----


def test_a_refusal_names_the_permitted_callers() -> None:
    admission = AccessPolicy(
        {"nn/there@R": "a.key"}, lists=(AccessControlList.parse("b.key", "hdfs ops"),), refusal="Only some may"
    )
    answer = Site(admission).client().get("/page", headers=TOKEN)
    assert answer.status_code == 403
    expected = f"Only some may; {PRINCIPAL} (user sn) is not one of: nn/there@R (a.key), b.key (hdfs, group ops)"
    assert answer.text == f"{expected}\n"
    assert answer.status == f"403 {expected}"
    assert answer.headers["WWW-Authenticate"] == WELCOME


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"bye", "does not authenticate the caller: the token is not from a client"),
        (None, "the token is not base64"),
        (b"", "does not authenticate"),
    ],
)
def test_an_invalid_token_is_refused(token: bytes | None, message: str) -> None:
    site = Site()
    text = "%%%" if token is None else base64.b64encode(token).decode()
    answer = site.client().get("/page", headers={"Authorization": f"Negotiate {text}"})
    assert answer.status_code == 403
    assert message in answer.text
    assert site.logins.now().results == {("http", "failed"): 1}


def test_a_principal_without_a_short_name_is_refused() -> None:
    site = Site(key=Key("bob@OTHER"))
    answer = site.client().get("/page", headers=TOKEN)
    assert answer.status_code == 403
    assert "No rules applied to bob@OTHER (hadoop.security.auth_to_local)" in answer.text
    assert site.logins.now().results == {("http", "refused"): 1}
    assert site.asked == []


def test_an_unreadable_keytab_refuses_every_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(key: Key) -> FakeAcceptor:
        raise KerberosError("the keytab is gone")

    monkeypatch.setattr(Key, "context", fail)
    assert Site().client().get("/page", headers=TOKEN).status_code == 403


# ---- the cookie ----


def test_cookies_are_signed_as_in_hadoop_3() -> None:
    """The signature is Base64 of HMAC-SHA256 over the preceding text; openssl computed the expected value."""
    cookie = signed_cookie(Login("u", "u@R", 5), b"secret")
    assert cookie == "u=u&p=u@R&t=kerberos&e=5&s=" + "SYvBUS4GM2gTgATdIYYu5exHf3iLyNzH2YhXc3OJIiE="


@given(st.text("abcABC019./@-_", min_size=1), st.text("abcABC019./@-_", min_size=1), st.binary(min_size=1))
def test_a_signed_cookie_round_trip(user: str, principal: str, secret: bytes) -> None:
    login = Login(user, principal, UNTIL)
    cookie = f'hadoop.auth="{signed_cookie(login, secret)}"'
    assert read_cookie(cookie, secret, NOW) == login
    assert read_cookie(cookie, secret + b"x", NOW) is None
    assert read_cookie(cookie, secret, NOW + 61) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hadoop.auth=",
        "hadoop.auth=x",
        'hadoop.auth="&s="',
        "xhadoop.auth=u=a&p=b&t=kerberos&e=9999999999999&s=x",
        "hadoop.auth=u=a&p=b&t=kerberos&e=9999999999999",
        "hadoop.auth=u=ä&p=b&t=kerberos&e=9999999999999&s=ä",
    ],
)
def test_cookies_without_our_signature_are_ignored(text: str) -> None:
    assert read_cookie(text, SECRET, NOW) is None


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_cookie_with_a_changed_byte_is_ignored(at: int, change: int) -> None:
    cookie = signed_cookie(Login("u", PRINCIPAL, UNTIL), SECRET)
    at %= len(cookie)
    changed = cookie[:at] + chr(ord(cookie[at]) ^ change) + cookie[at + 1 :]
    # the last character of base64 has unused bits, which must still be correct
    assert read_cookie(f"hadoop.auth={changed}", SECRET, NOW) is None


@pytest.mark.parametrize("name", ["a&b", 'a"b', "a b", "a;b"])
def test_names_with_cookie_separators_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be in a cookie"):
        signed_cookie(Login(name, name, 1), SECRET)
