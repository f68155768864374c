"""Foreign web pages and network hosts cannot make changes."""

from __future__ import annotations

import socket

import pytest
from flask import Blueprint

from hadoop_common.port_limits import Refusals
from hadoop_common.quantities import parse_networks
from servlets.application import create_application
from servlets.change_guard import CSRF_HEADER, FORM_TOKEN, LOOPBACK, ChangeGuard

BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
OWN_PAGE = {**BROWSER, "Host": "127.0.0.1:9868", "Origin": "http://127.0.0.1:9868", CSRF_HEADER: ""}


@pytest.fixture
def refusals():
    return Refusals()


@pytest.fixture
def changes():
    return []


@pytest.fixture
def ask(refusals, changes):
    def ask(method="POST", networks=LOOPBACK, peer="127.0.0.1", here="127.0.0.1", **headers):
        blueprint = Blueprint("test", __name__)

        @blueprint.route("/cancel", methods=["GET", "POST", "PUT"])
        def cancel():
            changes.append(method)
            return "cancelled"

        client = create_application(blueprint, guard=ChangeGuard(networks, refusals)).test_client()
        environment = {"REMOTE_ADDR": peer, "SERVER_NAME": here}
        return client.open("/cancel", method=method, headers=headers, environ_overrides=environment)

    return ask


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"User-Agent": "curl/8.1"},
        {"Host": "a-name-that-only-the-operator-knows:9868"},
        OWN_PAGE,
        {**OWN_PAGE, "Host": "localhost:9868", "Origin": "http://localhost:9868"},
        {**OWN_PAGE, "Host": "[::1]:9868", "Origin": "http://[::1]:9868"},
        {**OWN_PAGE, "Host": socket.gethostname(), "Origin": f"http://{socket.gethostname()}"},
    ],
)
def test_scripts_and_own_pages_may_make_changes(ask, changes, headers):
    assert ask(**headers).status_code == 200
    assert changes == ["POST"]


@pytest.mark.parametrize(
    "headers",
    [
        BROWSER,
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Referer": "http://evil.example/page"},
        {"Sec-Fetch-Site": "cross-site"},
        {**OWN_PAGE, "Origin": "http://evil.example"},
        {**OWN_PAGE, "Origin": "null"},
        # a DNS name that was rebound to this host
        {**OWN_PAGE, "Host": "evil.example:9868", "Origin": "http://evil.example:9868"},
        {**OWN_PAGE, "Origin": "http://127.0.0.1:80"},
    ],
)
def test_foreign_pages_cannot_make_changes(ask, changes, refusals, headers):
    answer = ask(**headers)
    assert (answer.status_code, changes) == (403, [])
    assert "not accepted from web pages" in answer.text
    assert refusals.counts() == {"foreign page": 1}


FORM = {**BROWSER, "Host": "127.0.0.1:9868", "Origin": "http://127.0.0.1:9868"}


@pytest.mark.parametrize(
    ("headers", "token", "kind", "allowed"),
    [
        (FORM, "right", "application/x-www-form-urlencoded", True),
        (FORM, "wrong", "application/x-www-form-urlencoded", False),
        (FORM, "ü", "application/x-www-form-urlencoded", False),
        (FORM, "", "application/x-www-form-urlencoded", False),
        # a browser also sends this content type without a preflight request
        (FORM, "right", "text/plain", False),
        ({**FORM, "Origin": "http://evil.example"}, "right", "application/x-www-form-urlencoded", False),
        ({**FORM, "Host": "evil:1", "Origin": "http://evil:1"}, "right", "application/x-www-form-urlencoded", False),
        ({**BROWSER, "Host": "127.0.0.1:9868"}, "right", "application/x-www-form-urlencoded", False),
        ({**FORM, "X-Forwarded-For": "192.0.2.7"}, "right", "application/x-www-form-urlencoded", False),
    ],
)
def test_a_form_needs_the_token_of_its_guard(refusals, headers, token, kind, allowed):
    guard = ChangeGuard(refusals=refusals)
    application = create_application(guard=guard)
    application.add_url_rule("/cancel", "cancel", lambda: "cancelled", methods=["POST"])
    body = f"{FORM_TOKEN}={guard.form_token if token == 'right' else token}&reason=x"
    answer = application.test_client().post("/cancel", headers=headers, data=body, content_type=kind)
    assert answer.status_code == (200 if allowed else 403)
    is_old = headers is FORM and token in ("wrong", "ü") and "form" in kind
    assert ("open the page again" in answer.text) is is_old


def test_a_form_that_is_too_large_is_not_read(refusals):
    guard = ChangeGuard(refusals=refusals)
    application = create_application(guard=guard)
    fields = {FORM_TOKEN: guard.form_token, "reason": "x" * 10_000}
    assert application.test_client().post("/cancel", headers=FORM, data=fields).status_code == 403


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Via"])
def test_requests_through_a_local_proxy_cannot_make_changes(ask, changes, refusals, name):
    answer = ask(**{**OWN_PAGE, name: "192.0.2.7"})
    assert (answer.status_code, changes) == (403, [])
    assert "through a proxy" in answer.text
    assert refusals.counts() == {"forwarded": 1}


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_reads_and_hadoop_servlets_are_allowed_from_everywhere(ask, method):
    assert ask(method, peer="192.0.2.7", Origin="http://evil.example").status_code == 200


@pytest.mark.parametrize(
    ("peer", "here", "networks", "allowed"),
    [
        ("127.0.0.9", "127.0.0.1", LOOPBACK, True),
        ("::1", "::1", LOOPBACK, True),
        ("::ffff:127.0.0.1", "::", LOOPBACK, True),
        ("192.0.2.7", "192.0.2.7", LOOPBACK, True),
        ("192.0.2.7", "192.0.2.8", LOOPBACK, False),
        ("192.0.2.7", "192.0.2.8", parse_networks("192.0.2.0/24, 127.0.0.1"), True),
        ("2001:db8::1", "::1", LOOPBACK, False),
        ("2001:db8::1", "::1", parse_networks("2001:db8::/32"), True),
        ("127.0.0.1", "192.0.2.8", parse_networks("192.0.2.7"), False),
        ("", "", LOOPBACK, False),
    ],
)
def test_changes_are_allowed_from_this_host_and_configured_networks(ask, refusals, peer, here, networks, allowed):
    answer = ask(peer=peer, here=here, networks=networks)
    assert (answer.status_code == 200) is allowed
    assert refusals.counts() == ({} if allowed else {"not local": 1})


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:9871", True),
        ("localhost:9871", True),
        ("Console.example:9871", True),
        ("rebound.example:9871", False),
    ],
)
@pytest.mark.parameters(4)
def test_reads_under_a_foreign_host_name_can_be_refused(refusals, host, allowed):
    application = create_application(guard=ChangeGuard(refusals=refusals, only_as="console.example"))
    assert application.test_client().get("/", headers={"Host": host}).status_code == (404 if allowed else 403)
    assert refusals.counts() == ({} if allowed else {"foreign name": 1})


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "here", "10.0.0.0/8,,"])
def test_invalid_networks_are_refused(text):
    with pytest.raises(ValueError, match="addresses and networks"):
        parse_networks(text)
