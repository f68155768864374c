"""The console behind Kerberos in a headless Chromium that logs in by SPNEGO with a ticket of a real KDC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from hadoop_common.configuration import Configuration
from hadoop_rpc.kerberos import log_in
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.browser import MissingBrowserError, profile
from tests.console.browser_support import ShownDaemon, open_page, shown_daemon
from tests.kerberos.callers import get, login, tickets
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import HOST, secure_conf
from tests.required import skip

pytestmark = [pytest.mark.interop]


@pytest.fixture
def daemon(realm: Kdc, tmp_path: Path) -> Iterator[ShownDaemon]:
    conf = secure_conf(realm, tmp_path / "conf", {"dfs.cluster.administrators": "hdfs"})
    config = CheckpointConfig.from_configuration(Configuration.load(conf.folder, {}), Role.SECONDARY)
    log_in(login(realm, "sn"))
    with shown_daemon(tmp_path / "storage", config=config) as shown:
        shown.role.gate.set()
        shown.url = shown.url.replace("127.0.0.1", HOST)
        yield shown


@contextmanager
def opened_by(
    realm: Kdc, who: str, url: str, monkeypatch: pytest.MonkeyPatch, *, scripts: bool = True
) -> Iterator[Page]:
    """Open a page in a browser with the tickets of `who`, or without tickets if `who` is ""."""
    cache = tickets(realm, who) if who else realm.root / "none"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    folder = realm.root / f"profile-of-{who}"
    try:
        with profile(folder, f"--auth-server-allowlist={HOST}", java_script_enabled=scripts) as context:
            # Chromium responds only to the second challenge, because it first starts a network process without a
            # sandbox
            context.new_page().goto(url)
            yield open_page(context, url).page
    except MissingBrowserError as error:
        skip("browser", str(error))


def test_an_administrator_can_read_and_act(realm: Kdc, daemon: ShownDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.role.journal = 1
    daemon.role.fail_directory()
    with opened_by(realm, "hdfs", daemon.url, monkeypatch) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        expect(page.locator("#attention")).to_contain_text("storage directory /data/2 is not used")
        expect(page.locator("#configuration")).to_be_attached()
        page.get_by_role("button", name="Checkpoint now").click()
        expect(page.locator("#result")).to_have_text("a checkpoint was started")
        directory = page.locator("#attention li", has_text="A storage directory")
        directory.locator("summary", has_text="Silence").click()
        form = directory.locator("form", has_text="Silence")
        form.get_by_label("Reason").fill("we know")
        form.get_by_role("button", name="Silence").click()
        expect(page.locator("#attention")).to_contain_text("we know")
    assert daemon.service.silences.current()["directory"].by == f"hdfs@{REALM}"
    with opened_by(realm, "hdfs", daemon.url, monkeypatch, scripts=False) as page:
        page.get_by_role("button", name="Cancel checkpoints").click()
        page.get_by_label("Reason").fill("maintenance")
        page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("status")).to_contain_text("maintenance")
    assert daemon.service.state().cancelled is not None


def test_access_lists_decide_with_tickets(realm: Kdc, daemon: ShownDaemon) -> None:
    daemon.role.fail_directory()
    address = daemon.url.rstrip("/")
    # hdfs is listed, and the short name of the daemon is hdfs as well
    for who, shown, acts in (("hdfs", "/data/2", 200), ("sn", "/data/2", 200), ("alice", "(path)", 403)):
        status, page, _ = get(realm, who, address, "/")
        assert status == 200
        assert f"storage directory {shown} is not used" in page
        assert get(realm, who, address, "/console/confirm?action=cancel")[0] == acts
        assert get(realm, who, address, "/cancel?minutes=1", method="POST")[0] == acts
    assert get(realm, "", address, "/")[0] == 401
    # this page is in hadoop.http.authentication.kerberos.endpoint.whitelist
    assert get(realm, "", address, "/status")[0] == 200


@pytest.mark.deep
def test_other_users_can_only_read_and_anonymous_users_nothing(
    realm: Kdc, daemon: ShownDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.role.fail_directory()
    with opened_by(realm, "alice", daemon.url, monkeypatch) as page:
        expect(page.locator("#attention")).to_contain_text("storage directory (path) is not used")
        assert page.locator("#configuration").count() == 0
        assert page.locator("form").count() == 0
        for name in ("History", "Checks", "Runbook"):
            page.get_by_role("link", name=name, exact=True).first.click()
            expect(page.locator("h1")).to_be_visible()
            page.goto(daemon.url)
        answer = page.goto(f"{daemon.url}console/confirm?action=cancel")
        assert answer is not None
        assert answer.status == 403
    with opened_by(realm, "", daemon.url, monkeypatch) as page:
        assert "Authentication required" in page.locator("body").inner_text()
    address = daemon.url.rstrip("/")
    for path in ("/cancel", "/checkpoint?wait=false", "/silence?kind=directory&reason=x", "/console/verify"):
        assert get(realm, "alice", address, path, method="POST")[0] == 403
        assert get(realm, "", address, path, method="POST")[0] == 401
    for path in ("/", "/console/charts", "/console/confirm?action=cancel", "/docs/operations.md", "/history"):
        assert get(realm, "", address, path)[0] == 401
    assert daemon.service.state().cancelled is None
    assert get(realm, "hdfs", address, "/cancel?minutes=1", method="POST")[0] == 200
