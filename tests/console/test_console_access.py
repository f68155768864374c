"""Access to a daemon's console on a cluster with Kerberos, where access lists decide and the caller's host does not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from flask.testing import FlaskClient

from checkpointer.daemon.blueprints import ConsoleQuestions, daemon_blueprints, transfer_options
from checkpointer.daemon.service import CheckpointService
from hadoop_common.access import AccessControl, AccessRules
from hadoop_rpc.server_counts import LoginCounts
from servlets.application import create_application
from servlets.auth_cookie import Login, signed_cookie
from servlets.change_guard import ChangeGuard
from servlets.http_authenticator import HttpAuthenticator, HttpLogin
from servlets.image_transfer_servlet import ServingLimits
from tests.checkpointer.service_support import FakeRole, standby_config
from tests.console.console_support import FAR
from tests.hadoop_rpc.fake_security import FakeDoor

SECRET = b"of no worth"
CONFIRM = "/console/confirm?action=cancel"
KERBEROS = {
    "hadoop.security.authentication": "kerberos",
    "dfs.namenode.rpc-address": "nn1.example:8020",
    "dfs.namenode.kerberos.principal": "nn/_HOST@R",
    "dfs.namenode.keytab.file": "/keys/nn",
    "dfs.cluster.administrators": "ann ops",
}
ADMINS_ONLY = {"hadoop.security.instrumentation.requires.admin": "true"}


@dataclass
class Daemon:
    """The pages and actions of a daemon whose own short name is `nn`; `carl` is in the group `ops`."""

    client: FlaskClient
    service: CheckpointService

    def ask(self, user: str, path: str, method: str = "GET", **more: Any) -> tuple[int, str]:
        """Return the status and body of a request with the cookie of `user`, or without a cookie if `user` is ""."""
        login = Login(user, f"{user}@R", int((time.time() + 600) * 1000))
        headers = {"Cookie": f"hadoop.auth={signed_cookie(login, SECRET)}"} if user else {}
        answer = self.client.open(path, method=method, headers=headers | more.pop("headers", {}), **more)
        return answer.status_code, answer.text


def daemon_with(settings: dict[str, str], *open_paths: str) -> Daemon:
    config = standby_config(**KERBEROS, **settings)
    assert config.kerberos is not None
    rules = AccessRules(policies=config.kerberos.require_server().policies, own_user="nn")
    access = AccessControl(rules, groups_of=lambda user: frozenset({"ops"} if user == "carl" else ()))
    role = FakeRole()
    role.raised = ["storage directory /data/2 is not used"]
    service = CheckpointService(role, config)
    guard = ChangeGuard()
    blueprints = daemon_blueprints(
        role,
        service,
        config,
        ServingLimits(transfer_options(config), role.counter),
        access,
        guard,
        ConsoleQuestions(checks=list, peers=list, verify=list),
    )
    login = HttpLogin(FakeDoor(), FakeDoor().user_of, SECRET, 600.0, frozenset(open_paths))
    application = create_application(*blueprints, guard=guard, authenticator=HttpAuthenticator(login, LoginCounts()))
    return Daemon(application.test_client(use_cookies=False), service)


@pytest.mark.parametrize("user", ["ann", "carl", "nn"])
@pytest.mark.parameters(3)
def test_administrators_with_kerberos_see_paths_and_may_act(user: str) -> None:
    daemon = daemon_with({})
    for request in ({}, {"environ_overrides": FAR}, {"headers": {"X-Forwarded-For": "192.0.2.7"}}):
        status, page = daemon.ask(user, "/", **request)
        assert status == 200
        assert "storage directory /data/2 is not used" in page
        assert 'id="configuration"' in page
        assert "Cancel checkpoints" in page
    status, form = daemon.ask(user, CONFIRM)
    assert status == 200
    assert "Cancel checkpoints" in form
    assert daemon.ask(user, "/cancel?reason=maintenance&minutes=1", "POST")[0] == 200
    assert daemon.service.state().cancelled is not None
    assert daemon.ask(user, "/console/verify", "POST")[0] == 200


@pytest.mark.parametrize(("user", "status"), [("bob", 403), ("", 401)])
@pytest.mark.parameters(2)
def test_other_users_with_kerberos_see_no_paths_and_cannot_act(user: str, status: int) -> None:
    daemon = daemon_with({})
    found, page = daemon.ask(user, "/")
    assert found == (200 if user else 401)
    assert ("storage directory (path) is not used" in page) is bool(user)
    assert "/data/2" not in page
    assert 'id="configuration"' not in page
    assert "Cancel checkpoints" not in page
    for path in (CONFIRM, "/console/reports/report.html"):
        assert daemon.ask(user, path)[0] == status
    for path in ("/cancel", "/checkpoint?wait=false", "/silence?kind=directory&reason=x", "/console/verify"):
        assert daemon.ask(user, path, "POST")[0] == status
    assert daemon.service.state().cancelled is None


@pytest.mark.parametrize(("user", "status"), [("ann", 200), ("carl", 200), ("nn", 403), ("bob", 403), ("", 401)])
@pytest.mark.parameters(5)
def test_pages_can_be_restricted_to_the_listed_administrators(user: str, status: int) -> None:
    daemon = daemon_with(ADMINS_ONLY)
    for path in ("/", "/console/charts", CONFIRM, "/status", "/history"):
        assert daemon.ask(user, path)[0] == status
    # the operator's commands use the login of the daemon
    assert daemon.ask(user, "/cancel?minutes=1", "POST")[0] == (200 if user == "nn" else status)


def test_a_page_that_needs_no_login_shows_no_paths() -> None:
    daemon = daemon_with(ADMINS_ONLY, "/", CONFIRM.partition("?")[0])
    for user in ("ann", ""):
        status, page = daemon.ask(user, "/")
        assert status == 200
        assert "storage directory (path) is not used" in page
        assert "/data/2" not in page
        assert daemon.ask(user, CONFIRM)[0] == 403


def test_administrators_act_only_from_this_host() -> None:
    daemon = daemon_with({})
    for request in ({"environ_overrides": FAR}, {"headers": {"X-Forwarded-For": "192.0.2.7"}}):
        assert daemon.ask("ann", "/cancel", "POST", **request)[0] == 403
    assert daemon.service.state().cancelled is None
