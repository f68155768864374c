"""The console in a headless browser: its visible contents, its links, and actions that the page never performs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from hadoop_common.errors import StorageError
from site_config.keys import SHADOW
from tests.axe import MissingAxeError, axe
from tests.browser import chromium
from tests.checkpointer.service_support import TRANSACTIONS, standby_config
from tests.console.browser_support import DESKTOP, PHONE, ShownDaemon, context_of, open_page, shown_daemon
from tests.required import skip

__all__ = ["chromium"]

CONTRAST = (Path(__file__).parents[1] / "pipeline" / "contrast.js").read_text()
RUN_AXE = (
    "axe.run().then((found) => found.violations.map((each) => "
    "`${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`))"
)


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShownDaemon]:
    """A daemon whose page is polled often; a parameter can add further settings."""
    monkeypatch.setattr("console.blueprint._POLL_SECONDS", 0.1)
    monkeypatch.setattr("console.blueprint._CACHE_SECONDS", 0.0)
    config = standby_config(**getattr(request, "param", {}))
    with shown_daemon(tmp_path / "storage", config=config) as shown:
        yield shown
        shown.role.gate.set()


def tile(page: Page, title: str) -> Any:
    return page.locator(".head .facts div", has=page.locator("dt", has_text=title)).locator("dd")


def test_page_follows_a_checkpoint_from_start_to_recovery(chromium: Browser, daemon: ShownDaemon) -> None:
    with context_of(chromium) as context:
        opened = open_page(context, daemon.url)
        page, role = opened.page, daemon.role
        expect(tile(page, "Phase")).to_have_text("idle")
        expect(page.locator("#attention")).to_contain_text("Nothing needs an operator's attention")
        role.journal = TRANSACTIONS
        poll = daemon.poll()
        expect(tile(page, "Phase")).to_contain_text("save: 250.0 kB of 1.0 MB")
        expect(tile(page, "Phase").locator("progress")).to_have_attribute("value", "25.0")
        role.fault = StorageError("disk full", hint="Free space on that disk.")
        role.gate.set()
        poll.join()
        daemon.service.request(force=True, wait=True)
        attention = page.locator("#attention")
        expect(attention).to_contain_text("Checkpoints fail")
        expect(attention).to_contain_text("Next: Free space on that disk.")
        expect(tile(page, "State")).to_contain_text("not ready")
        assert page.title().startswith("✖")
        role.fault = None
        daemon.service.request(force=True, wait=True)
        expect(attention).to_contain_text("Nothing needs an operator's attention")
        expect(tile(page, "State")).to_contain_text("ready")
        expect(tile(page, "Newest image")).to_contain_text(str(TRANSACTIONS))
        expect(page.locator("#checkpoints svg")).to_be_visible()
        assert opened.logged == []
        assert {url for url in opened.requests if not url.startswith((daemon.url, "data:"))} == set()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize(
    ("daemon", "fault", "title", "section"),
    [
        ({SHADOW.name: "true"}, "quota", "An image of the NameNode differs", "an-image-differs-in-shadow-mode"),
        ({}, "disk quota", "A storage directory is not used", "disk-full-or-broken"),
        ({}, "directory", "A storage directory is not used", "disk-full-or-broken"),
        ({}, "upload", "A NameNode does not receive the image", "the-namenode-refuses-an-image-403-409-410-417"),
        ({}, "journalnode", "A JournalNode does not answer", "a-journalnode-does-not-answer"),
    ],
    indirect=["daemon"],
    ids=["quota", "disk-quota", "directory", "upload", "journalnode"],
)
@pytest.mark.parameters(1)
def test_new_problem_is_in_the_viewport_and_links_to_the_runbook(
    chromium: Browser,
    daemon: ShownDaemon,
    viewport: dict[str, int],
    fault: str,
    title: str,
    section: str,
    tmp_path: Path,
) -> None:
    with context_of(chromium, viewport=viewport) as context:
        page = open_page(context, daemon.url).page
        expect(page.locator("#attention")).to_contain_text("Nothing needs an operator's attention")
        if fault == "quota":
            daemon.find_wrong_quota(tmp_path)
        elif fault == "disk quota":
            daemon.role.fail_directory("Disk quota exceeded")
        elif fault == "directory":
            daemon.role.fail_directory()
        elif fault == "upload":
            daemon.role.fail_upload()
        else:
            daemon.role.lost.add("jn3:8485")
        # once this call returns, the browser has reported the requests of earlier polls
        page.evaluate("0")
        with page.expect_request(daemon.url) as polled:
            pass
        answer = polled.value.response()
        assert answer is not None
        assert title in answer.text()
        item = page.locator("#attention li", has_text=title)
        expect(item).to_be_visible()
        if "quota" in fault:
            expect(item).to_contain_text("nsQuota: 1000 -> 10" if fault == "quota" else "Disk quota exceeded")
        assert item.evaluate("(each) => each.getBoundingClientRect().bottom <= innerHeight")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        item.get_by_role("link", name="Runbook").click()
        expect(page.locator(f"#{section}")).to_be_in_viewport()
        assert page.url.endswith(f"docs/runbook.md#{section}")
        page.get_by_role("link", name="Console", exact=True).click()
        expect(page.locator("#attention")).to_contain_text(title)


@pytest.mark.deep
def test_console_works_without_scripts(chromium: Browser, daemon: ShownDaemon) -> None:
    daemon.checkpoint()
    with context_of(chromium, java_script_enabled=False) as context:
        page = open_page(context, daemon.url).page
        assert "Nothing needs an operator's attention" in page.locator("#attention").inner_text()
        assert page.locator('meta[http-equiv="refresh"]').count() == 1
        page.get_by_role("link", name="Stop updates").click()
        assert page.locator('meta[http-equiv="refresh"]').count() == 0
        page.get_by_role("link", name="History").click()
        assert page.locator("svg").count() == 3
        page.get_by_role("link", name="Overview").click()
        assert page.url == daemon.url


@pytest.mark.deep
def test_console_works_below_a_proxy_path(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.blueprint._POLL_SECONDS", 0.1)
    monkeypatch.setattr("console.blueprint._CACHE_SECONDS", 0.05)
    with shown_daemon(tmp_path, "/hdfs/console-1") as shown, context_of(chromium) as context:
        opened = open_page(context, shown.url)
        shown.role.lost.add("jn3:8485")
        expect(opened.page.locator("#attention")).to_contain_text("jn3:8485: cannot connect")
        for name, here in (("History", "console/charts"), ("Checks", "console/checks"), ("Overview", "")):
            opened.page.get_by_role("link", name=name, exact=True).click()
            expect(opened.page.locator("h1")).to_be_visible()
            assert opened.page.url == f"{shown.url}{here}"
        assert [url for url in opened.requests if not url.startswith((shown.url, "data:"))] == []
        assert opened.logged == []


@pytest.mark.deep
def test_updates_keep_focus_and_open_details_and_can_be_paused(chromium: Browser, daemon: ShownDaemon) -> None:
    with context_of(chromium) as context:
        # the script aborts a response after ten seconds, which this test may hold for longer on a busy machine
        context.add_init_script("AbortSignal.timeout = () => new AbortController().signal")
        page = open_page(context, daemon.url).page
        page.locator("#all summary").click()
        daemon.role.lost.add("jn1:8485")
        expect(page.locator("#attention")).to_contain_text("jn1:8485")
        assert page.locator("#all-details").evaluate("each => each.open")
        expect(page.locator("#all summary")).to_be_focused()
        held: list[Route] = []

        def hold(route: Route) -> None:
            if held:
                route.continue_()
            held.append(route)

        page.route(daemon.url, hold)
        daemon.role.lost.clear()
        with page.expect_request(daemon.url):
            pass
        page.get_by_role("button", name="Pause updates").click()
        with page.expect_response(daemon.url):
            held[0].continue_()
        # once this response has arrived, the response in transit has arrived too
        page.evaluate("fetch(location.href).then((answer) => answer.text())")
        expect(page.locator("#attention")).to_contain_text("jn1:8485")
        page.get_by_role("button", name="Resume updates").click()
        expect(page.locator("#attention")).to_contain_text("Nothing needs an operator's attention")


@pytest.mark.deep
def test_failed_updates_are_shown(chromium: Browser, daemon: ShownDaemon) -> None:
    with context_of(chromium) as context:
        page = open_page(context, daemon.url).page
        updated = page.locator("#updated")
        page.route(daemon.url, lambda route: route.fulfill(body="<main>Log in</main>", content_type="text/html"))
        expect(updated).to_contain_text("a page other than the console")
        page.unroute(daemon.url)
        expect(updated).to_contain_text("Updated again since")
        page.get_by_label("Reason").first.fill("maintenance")
        expect(updated).to_contain_text("a form is in use")
        page.evaluate("document.activeElement.blur()")
        expect(updated).to_contain_text("Updated again since")
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Checkpoint now").click()
        daemon.role.lost.add("jn1:8485")
        expect(page.locator("#attention")).to_contain_text("jn1:8485")


def test_update_interrupts_neither_clicks_nor_open_forms(chromium: Browser, daemon: ShownDaemon) -> None:
    role = daemon.role
    role.gate.set()
    role.journal, role.fault = TRANSACTIONS, StorageError("disk full")
    daemon.service.request(force=True, wait=True)
    role.fail_directory()
    with context_of(chromium) as context:
        page = open_page(context, daemon.url).page
        attention = page.locator("#attention")
        expect(attention.locator("h3")).to_have_text(
            ["No checkpoint for several periods", "A storage directory is not used"]
        )
        alarm = attention.locator("li", has_text="A storage directory")
        alarm.locator("summary", has_text="Silence").hover()
        page.mouse.down()
        role.lost.add("jn2:8485")
        for _ in range(2):
            # the page requests its content again only after it has processed the previous content
            with page.expect_response(lambda answer: "jn2:8485" in answer.text()):
                pass
        expect(attention).not_to_contain_text("jn2:8485")
        page.mouse.up()
        reason = alarm.locator("form", has_text="Silence").get_by_label("Reason")
        expect(reason).to_be_visible()
        expect(attention).to_contain_text("jn2:8485")
        role.fault = None
        daemon.service.request(force=True, wait=True)
        expect(attention).not_to_contain_text("No checkpoint for several periods")
        expect(reason).to_be_visible()


@pytest.mark.deep
def test_action_asks_for_confirmation_and_shows_its_result(chromium: Browser, daemon: ShownDaemon) -> None:
    daemon.role.gate.set()
    daemon.role.journal = 1
    with context_of(chromium) as context:
        page = open_page(context, daemon.url).page
        asked: list[str] = []

        def answer(dialog: Any) -> None:
            asked.append(dialog.message)
            if len(asked) == 1:
                dialog.dismiss()
            else:
                dialog.accept()

        page.on("dialog", answer)
        button = page.get_by_role("button", name="Checkpoint now")
        button.click()
        assert daemon.role.merges == 0
        button.click()
        expect(page.locator("#result")).to_have_text("a checkpoint was started")
        expect(tile(page, "Newest image")).to_contain_text("1,")
        assert asked == ["Make a checkpoint now and upload it?"] * 2
        daemon.role.fail_directory()
        for name, kept in (("Acknowledge", daemon.service.acknowledgements), ("Silence", daemon.service.silences)):
            page.locator("#attention summary", has_text=name).click()
            form = page.locator(f"#{name.lower()}-directory-1")
            form.get_by_label("Reason").fill(f"we {name}")
            form.get_by_role("button", name=name).click()
            expect(page.locator("#attention")).to_contain_text(f"we {name}")
            expect(page.locator("#attention summary", has_text=name)).to_be_focused()
            assert kept.current()["directory"].reason == f"we {name}"


@pytest.mark.deep
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_control_is_reachable_with_the_tab_key(
    chromium: Browser, daemon: ShownDaemon, viewport: dict[str, int]
) -> None:
    cause_problems(daemon)
    with context_of(chromium, viewport=viewport) as context:
        page = open_page(context, f"{daemon.url}?refresh=off").page
        # after a click from a script, the first Tab key begins at the top
        page.evaluate("document.getElementById('pause').click()")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        wanted = "a[href], button, summary, input:not([type=hidden]), [tabindex='0']"
        count = page.locator(wanted).count()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        reached = 1
        for _ in range(count - 1):
            page.keyboard.press("Tab")
            reached += page.evaluate(
                f"(() => {{ const e = document.activeElement; return e.matches({wanted!r}) && "
                "getComputedStyle(e).outlineStyle !== 'none'; })()"
            )
        assert reached == count
        page.evaluate("document.activeElement.blur()")
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"


@pytest.mark.deep
def test_every_action_works_with_the_keyboard_alone(chromium: Browser, daemon: ShownDaemon) -> None:
    daemon.role.gate.set()
    daemon.role.fail_directory()
    with context_of(chromium) as context:
        page = open_page(context, daemon.url).page
        page.on("dialog", lambda dialog: dialog.accept())
        result = page.locator("#result")

        def reach(selector: str) -> None:
            for _ in range(page.locator("a, button, summary, input, [tabindex]").count()):
                page.keyboard.press("Tab")
                if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                    return
            raise AssertionError(selector)

        for label in ("Resume updates", "Pause updates"):
            if label.startswith("Resume"):
                reach("#pause")
            page.keyboard.press("Space")
            expect(page.locator("#pause")).to_have_text(label)
        for name, done in (("acknowledge", "acknowledged until they end"), ("silence", "silenced for 480 minutes")):
            reach(f"#{name}-directory-1-summary")
            page.keyboard.press("Enter")
            reach(f"#{name}-directory-1 [name=reason]")
            page.keyboard.type("we know")
            reach(f"#{name}-directory-1-send")
            page.keyboard.press("Enter")
            expect(result).to_have_text(f"alarms of the kind directory are {done}")
            expect(page.locator("#attention")).to_contain_text(f"{done.split()[0].capitalize()} by 127.0.0.1")
            expect(page.locator(f"#{name}-directory-1-summary")).to_be_focused()
        daemon.role.journal = 1
        reach("#checkpoint-send")
        page.keyboard.press("Space")
        expect(result).to_have_text("a checkpoint was started")
        expect(tile(page, "Newest image")).to_contain_text("1,")
        reach("#cancel [name=reason]")
        page.keyboard.type("maintenance")
        page.keyboard.press("Enter")
        expect(tile(page, "Checkpoints")).to_contain_text("maintenance")
        expect(page.locator("#cancel-send")).to_be_focused()
        reach("#verify-send")
        page.keyboard.press("Enter")
        expect(page.locator("#verified")).to_be_attached()


NAMED = {"button", "link", "textbox", "spinbutton", "image", "table", "figure", "navigation", "region"}


@pytest.mark.deep
def test_screen_reader_gets_accessible_names_and_alarms(chromium: Browser, daemon: ShownDaemon) -> None:
    daemon.checkpoint()
    with context_of(chromium) as context:
        page = open_page(context, daemon.url).page
        session = context.new_cdp_session(page)

        def tree() -> list[tuple[str, str, dict[str, Any]]]:
            """Return the role, the name and the properties of each node that a screen reader receives."""
            nodes = session.send("Accessibility.getFullAXTree")["nodes"]
            return [
                (
                    node["role"]["value"],
                    node.get("name", {}).get("value", ""),
                    {each["name"]: each["value"].get("value") for each in node.get("properties", ())},
                )
                for node in nodes
                if not node["ignored"]
            ]

        # the live regions exist before their first text
        regions = [(role, properties["live"]) for role, _, properties in tree() if properties.get("live")]
        assert sorted(regions) == [("alert", "assertive"), ("status", "polite"), ("status", "polite")]
        daemon.role.fail_directory()
        news = page.locator("#announced")
        full = "A storage directory is not used: storage directory /data/2 is not used: No space left on device."
        expect(news).to_have_text(f"Needs attention: {full}")
        daemon.role.states = dict.fromkeys(daemon.role.states, "in use")
        expect(news).to_have_text(f"Ended: {full}")
        daemon.role.lost.add("jn3:8485")
        expect(news).to_have_text("Needs attention: A JournalNode does not answer: jn3:8485: cannot connect.")
        assert ("StaticText", news.inner_text()) in [each[:2] for each in tree()]
        cause_problems(daemon)
        roles: set[str] = set()
        for path in ("", "console/charts", "console/checks", "console/cluster", "console/confirm?action=acknowledge"):
            page.goto(f"{daemon.url}{path}")
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            seen = tree()
            assert [each for each in seen if each[0] in NAMED and not each[1]] == [], path
            roles |= {role for role, *_ in seen}
        assert {*NAMED, "banner", "main", "heading", "alert", "status"} <= roles


@pytest.mark.deep
def test_no_animation_with_reduced_motion(chromium: Browser, daemon: ShownDaemon) -> None:
    cause_problems(daemon)
    for wish, scrolling in (("reduce", "auto"), ("no-preference", "smooth")):
        with context_of(chromium, reduced_motion=wish) as context:
            page = open_page(context, daemon.url).page
            assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == scrolling
            assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.deep
def test_actions_work_without_scripts(chromium: Browser, daemon: ShownDaemon) -> None:
    daemon.role.gate.set()
    daemon.role.journal = 1
    daemon.role.fail_directory()
    with context_of(chromium, java_script_enabled=False) as context:
        page = open_page(context, f"{daemon.url}?refresh=off").page
        page.get_by_role("button", name="Checkpoint now").click()
        assert page.locator("main").inner_text().startswith("Checkpoint now")
        page.get_by_role("link", name="No, back to the console").click()
        assert page.url == daemon.url
        assert daemon.role.merges == 0
        page.get_by_role("button", name="Checkpoint now").click()
        page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("status")).to_have_text("Good: a checkpoint was started")
        page.get_by_role("link", name="Back to the console").click()
        assert page.url == daemon.url
        page.locator("#attention summary", has_text="Silence").click()
        page.locator("#silence-directory-1").get_by_role("button", name="Silence").click()
        assert "Kind of alarm: directory" in page.locator("main").inner_text()
        page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("status")).to_have_text("Fault: a reason is required")
        page.go_back()
        page.get_by_label("Reason").fill("we know")
        page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("status")).to_contain_text("alarms of the kind directory are silenced")
        assert daemon.service.silences.current()["directory"].reason == "we know"
        page.goto(daemon.url)
        page.get_by_role("button", name="Verify the newest image").click()
        page.get_by_role("button", name="Yes").click()
        page.get_by_role("link", name="Back to the console").click()
        assert page.url == daemon.url


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_texts_have_sufficient_contrast(
    chromium: Browser, daemon: ShownDaemon, scheme: str, viewport: dict[str, int]
) -> None:
    cause_problems(daemon)
    with context_of(chromium, color_scheme=scheme, viewport=viewport) as context:
        page = open_page(context, f"{daemon.url}?refresh=off").page
        for path in ("", "console/charts", "console/checks", "docs/runbook.md"):
            page.goto(daemon.url + path)
            found = page.evaluate(CONTRAST)
            assert found["seen"] > 5
            assert found["poor"] == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_violations(chromium: Browser, daemon: ShownDaemon, viewport: dict[str, int], scheme: str) -> None:
    try:
        script = axe()
    except MissingAxeError as error:
        skip("axe", str(error))
    cause_problems(daemon)
    # the page's Content-Security-Policy also blocks the accessibility checker
    with context_of(chromium, viewport=viewport, color_scheme=scheme, bypass_csp=True) as context:
        page = open_page(context, daemon.url).page
        for path in (
            "",
            "console/charts",
            "console/checks",
            "console/cluster",
            "console/confirm?action=cancel",
            "docs/operations.md",
            "docs/console.md",
        ):
            page.goto(daemon.url + path)
            page.add_script_tag(content=script)
            assert page.evaluate(RUN_AXE) == [], path


def cause_problems(daemon: ShownDaemon) -> None:
    """Make the page show everything that it can."""
    daemon.checkpoint()
    daemon.role.fail_directory()
    daemon.role.fail_upload()
    daemon.role.lost.add("jn3:8485")
    daemon.service.silences.silence("directory", "ann", 60, "a disk is on its way")
