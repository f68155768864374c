"""The report page in a headless browser: drawing, interaction, and the absence of network requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from pipeline.reports.html import render
from pipeline.reports.html.values import bytes_text, count_text
from pipeline.reports.model import NamespaceReport, ReportColumn, ReportSection, ReportTable
from tests.browser import PATIENCE, chromium
from tests.depth import scaled
from tests.pipeline.sample_report import GENERATED, hostile_report, sample_report

__all__ = ["chromium"]

DESKTOP = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}
BOXES = "marks => marks.map(mark => mark.getBoundingClientRect()).map(box => [box.width, box.height])"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
SHOWN = "rows => rows.filter((row) => row.getClientRects().length).length"


@dataclass
class Opened:
    """A page with its messages and requests."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    message: list[str] = field(default_factory=list)

    def is_quiet(self) -> bool:
        """Return whether the page made no requests and logged nothing."""
        assert self.message == []
        assert self.requests == [self.url]
        return True


Open = Callable[..., Opened]


@pytest.fixture
def open_report(chromium: Browser, tmp_path: Path) -> Iterator[Open]:
    """A function that opens a report from a file, and keeps every message and request."""
    contexts = []

    def opens(report: NamespaceReport, **options: Any) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(render(report), encoding="utf-8")
        context = chromium.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        opened = Opened(context.new_page(), path.as_uri())
        page = opened.page
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("console", lambda message: opened.message.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: opened.message.append(str(error)))
        page.on("dialog", lambda dialog: opened.message.append(dialog.message))
        page.goto(opened.url)
        return opened

    yield opens
    for context in contexts:
        context.close()


@pytest.fixture
def bare(chromium: Browser) -> Iterator[Page]:
    """An empty page with the functions of the scripts that do not draw."""
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE)
    for name in ("format.js", "squarify.js"):
        page.add_script_tag(content=files("pipeline.reports.html").joinpath(name).read_text())
    yield page
    page.close()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parameters(1)
def test_charts_are_drawn_without_requests_or_console_messages(open_report: Open, viewport: dict[str, int]) -> None:
    report = sample_report()
    opened = open_report(report, viewport=viewport)
    charts = opened.page.locator(".chart")
    assert charts.count() == sum(len(section.charts) for section in report.sections)
    for chart in charts.all():
        boxes = chart.locator("svg .mark").evaluate_all(BOXES)
        assert boxes
        assert all(max(box) > 0 for box in boxes)
        assert any(min(box) > 3 for box in boxes)
        svg = chart.locator(".plot svg[role]")
        assert svg.locator("title").first.text_content()
        assert svg.locator("desc").first.text_content()
    assert opened.is_quiet()


def test_the_treemap_opens_by_click_and_the_breadcrumb_goes_back(open_report: Open) -> None:
    opened = open_report(sample_report())
    treemap = opened.page.locator("#space .chart-treemap")
    here = treemap.locator(".here")
    expect(here).to_have_text("/")
    treemap.get_by_role("button", name="Open data,").click(position={"x": 20, "y": 10})
    expect(here).to_have_text("data")
    treemap.locator(".treemap-list").get_by_role("button", name="warehouse").click()
    expect(here).to_have_text("warehouse")
    assert treemap.locator("svg .tile").count() > 3
    expect(treemap.get_by_role("status")).to_contain_text("7 parts")
    treemap.locator(".crumbs").get_by_role("button", name="data").click()
    expect(here).to_have_text("data")
    treemap.locator(".crumbs").get_by_role("button", name="/", exact=True).click()
    expect(here).to_have_text("/")
    assert opened.is_quiet()


def test_the_treemap_works_with_only_the_keyboard(open_report: Open) -> None:
    page = open_report(sample_report()).page
    treemap = page.locator("#space .chart-treemap")
    treemap.get_by_role("button", name="Open user,").focus()
    page.keyboard.press("Enter")
    expect(treemap.locator(".here")).to_have_text("user")
    expect(treemap.locator(".treemap-list button").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(treemap.locator(".here")).to_have_text("/")


@pytest.mark.deep
def test_the_treemap_opens_by_tap_on_a_phone(open_report: Open) -> None:
    page = open_report(sample_report(), viewport=PHONE, has_touch=True, is_mobile=True).page
    treemap = page.locator("#space .chart-treemap")
    treemap.get_by_role("button", name="Open data,").tap(position={"x": 20, "y": 10})
    expect(treemap.locator(".here")).to_have_text("data")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parameters(1)
def test_texts_have_sufficient_contrast_in_both_themes(open_report: Open, scheme: str) -> None:
    page = open_report(sample_report(), color_scheme=scheme).page
    for numbers in page.locator(".numbers").all():
        numbers.evaluate("element => { element.open = true; }")
    found = page.evaluate(CONTRAST)
    assert found["seen"] > 500
    assert found["poor"] == []


@pytest.mark.deep
def test_the_theme_follows_the_system_until_the_user_chooses(open_report: Open) -> None:
    page = open_report(sample_report(), color_scheme="dark").page
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Use the light theme").click()
    light = page.evaluate(ground)
    assert light != dark
    page.get_by_role("button", name="Use the dark theme").click()
    assert page.evaluate(ground) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == dark


@pytest.mark.deep
def test_phones_need_no_sideways_scrolling_and_get_large_touch_targets(open_report: Open) -> None:
    page = open_report(sample_report(), viewport=PHONE, has_touch=True, is_mobile=True).page
    widths = "() => [document.documentElement.scrollWidth, document.body.scrollWidth, window.innerWidth]"
    assert page.evaluate(widths) == [390, 390, 390]
    targets = page.locator("main button:visible, main input:visible, .findings a, .sections a, summary:visible, .theme")
    sizes = [(target.inner_text()[:30], target.bounding_box()) for target in targets.all()]
    assert len(sizes) > 40
    assert [name for name, box in sizes if box and round(box["height"]) < 40] == []


def test_tables_are_sorted_filtered_and_shortened(open_report: Open) -> None:
    page = open_report(sample_report()).page
    figure = page.locator("#space .table", has=page.get_by_role("heading", name="Largest directories"))
    rows = figure.locator("tbody tr:visible")
    assert rows.count() == 12
    figure.get_by_role("button", name="Show all 27 rows").click()
    assert rows.count() == 27
    head = figure.locator("th", has_text=re.compile("^Files$"))
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert _is_sorted(figure.locator("tbody tr td:nth-child(4)"), falling=True)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert _is_sorted(figure.locator("tbody tr td:nth-child(4)"), falling=False)
    figure.get_by_role("searchbox").fill("/LOGS")
    assert rows.count() == 4


def _is_sorted(cells: Any, *, falling: bool) -> bool:
    values = [int(value) for value in cells.evaluate_all("cells => cells.map((cell) => cell.dataset.value)")]
    return all((a >= b) if falling else (a <= b) for a, b in pairwise(values))


@pytest.mark.deep
def test_cells_without_a_value_sort_last(open_report: Open) -> None:
    page = open_report(sample_report()).page
    figure = page.locator("#cold .table").first
    for _ in range(2):
        figure.get_by_role("button", name="Last read").click()
        assert figure.locator("tbody tr").last.locator("td").last.inner_text() == "\N{EN DASH}"


def test_names_with_markup_are_shown_as_text(open_report: Open) -> None:
    opened = open_report(hostile_report())
    page = opened.page
    assert page.locator(".treemap-list .part-title").first.text_content() == page.locator("h1").text_content()
    page.locator(".treemap-list button").first.click()
    page.locator(".timeline svg").hover()
    expect(page.locator(".tip")).to_contain_text("<script>alert(1)")
    assert page.locator("img").count() == 0
    assert opened.is_quiet()


def test_twelve_of_thousands_of_rows_are_shown(open_report: Open) -> None:
    count = scaled(20_000, quick=2_000)
    columns = (ReportColumn("path", "path", "Path"), ReportColumn("files", "count", "Files"))
    rows = tuple((f"/data/{number:05}", number * 7 % count) for number in range(count))
    section = ReportSection("many", "Many", "Rows.", (ReportTable("many", "Many rows", columns, rows),))
    opened = open_report(NamespaceReport("Report", "fsimage_7", 7, None, GENERATED, (section,)))
    page = opened.page
    assert page.locator("tbody tr").evaluate_all(SHOWN) == 12
    page.get_by_role("button", name="Files").click()
    assert page.locator("tbody tr").first.locator("td").last.get_attribute("data-value") == f"{count - 1}"
    page.get_by_role("searchbox").fill("/data/01234")
    assert page.locator("tbody tr").evaluate_all(SHOWN) == 1
    assert opened.is_quiet()


def test_without_scripts_numbers_are_in_tables(open_report: Open) -> None:
    report = sample_report()
    page = open_report(report, java_script_enabled=False).page
    assert page.get_by_text("Scripts are disabled").is_visible()
    assert page.locator("#space .table").first.locator("tbody tr:visible").count() == 27
    page.locator("#operations summary").first.click()
    assert page.locator("#operations .numbers tbody tr:visible").count() == 48


@pytest.mark.deep
def test_the_printed_report_has_no_controls(open_report: Open) -> None:
    page = open_report(sample_report(), color_scheme="dark").page
    page.emulate_media(media="print")
    for control in (".bar", ".sections", ".more", ".table-tools"):
        assert not page.locator(control).first.is_visible()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#space svg .mark").first.is_visible()


Values = st.lists(st.integers(1, 10**15), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))


def test_squarify_gives_proportional_areas_without_overlap(bare: Page) -> None:
    @given(Values, st.integers(20, 2000), st.integers(20, 2000))
    def check(values: list[int], width: int, height: int) -> None:
        box = {"x": 3, "y": 5, "width": width, "height": height}
        placed = bare.evaluate("([values, box]) => squarify(values, box)", [values, box])
        assert len(placed) == len(values)
        total, room = sum(values), width * height
        for value, part in zip(values, placed, strict=True):
            assert part["width"] * part["height"] == pytest.approx(room * value / total, rel=1e-6, abs=1e-6 * room)
            assert part["x"] >= 3 - 1e-6
            assert part["y"] >= 5 - 1e-6
            assert part["x"] + part["width"] <= 3 + width + 1e-6
            assert part["y"] + part["height"] <= 5 + height + 1e-6
        for one, other in combinations(placed, 2):
            across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
            down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
            assert min(across, down) <= 1e-6 * max(width, height)

    check()


@pytest.mark.deep
def test_squarify_gives_near_squares_for_equal_values(bare: Page) -> None:
    box = {"x": 0, "y": 0, "width": 600, "height": 400}
    for part in bare.evaluate("([values, box]) => squarify(values, box)", [[1] * 24, box]):
        assert 0.5 <= part["width"] / part["height"] <= 2


def test_charts_and_tables_format_numbers_alike(bare: Page) -> None:
    @given(st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1, max_size=100))
    def check(values: list[int]) -> None:
        assert bare.evaluate("values => values.map(formatBytes)", values) == [bytes_text(value) for value in values]
        assert bare.evaluate("values => values.map(formatCount)", values) == [count_text(value) for value in values]

    check()


def test_ticks_are_round_and_cover_the_values(bare: Page) -> None:
    @given(st.integers(-(10**12), 10**15), st.integers(1, 10**15), st.sampled_from(["count", "bytes"]))
    def check(low: int, span: int, unit: str) -> None:
        values = bare.evaluate("([low, high, unit]) => ticks(low, high, unit, 4)", [low, low + span, unit])
        assert values[0] <= low
        assert values[-1] >= low + span
        assert 2 <= len(values) <= 14
        assert values == sorted(set(values))

    check()
