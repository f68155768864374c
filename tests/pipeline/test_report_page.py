"""The report as a page of HTML: its text, escaping, policy and headline."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from pipeline.reports.headline import Headline, headline
from pipeline.reports.html import render
from pipeline.reports.html.page import chart_table
from pipeline.reports.html.values import bytes_text, cell_text, count_text, sort_value
from pipeline.reports.model import (
    Bar,
    Bars,
    Bin,
    Histogram,
    NamespaceReport,
    Point,
    ReportColumn,
    ReportSection,
    ReportTable,
    Series,
    TimeLine,
    Treemap,
    TreemapNode,
)
from tests.pipeline.sample_report import hostile_report, sample_report

VOID = {"meta", "link", "input", "br", "wbr", "img", "hr"}
NOON = datetime(2026, 3, 18, 12, tzinfo=UTC)
EMPTY = NamespaceReport("Report", "fsimage_7", 7, None, NOON)


class Page(HTMLParser):
    """Elements with their attributes, contents of scripts and styles, and nesting errors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{name}> is left open" for name in self._open]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if len(dict(attributes)) != len(attributes):
            self.faults.append(f"<{tag}> has an attribute twice")
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes nothing")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]].append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


@pytest.mark.parametrize("report", [sample_report(), hostile_report(), EMPTY], ids=["sample", "hostile", "empty"])
def test_the_page_is_well_formed_and_every_id_is_unique(report: NamespaceReport) -> None:
    page = Page(render(report))
    assert page.faults == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"] for attributes in page.all("a")}
    assert links <= {f"#{name}" for name in ids}


def test_the_same_report_gives_the_same_page() -> None:
    assert render(sample_report()) == render(sample_report())


def test_the_content_security_policy_allows_only_its_own_style_and_script() -> None:
    page = Page(render(sample_report()))
    (policy,) = (meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    code = [text for text in page.raw["script"] if not text.startswith("{")]
    for kind, texts in (("script-src", code), ("style-src", page.raw["style"])):
        (text,) = texts
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_has_no_external_references() -> None:
    page = Page(render(sample_report()))
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert name not in {"src", "srcset", "action", "style"}, (tag, name)
            assert not name.startswith("on"), (tag, name)
            assert name != "href" or (value or "").startswith(("#", "data:,")), (tag, value)
    assert not re.search(r"@import|url\(", "".join(page.raw["style"]))
    assert re.findall(r"https?://[^\"]*", "".join(page.raw["script"])) == ["http://www.w3.org/2000/svg"]


def test_names_cannot_become_markup() -> None:
    clean, hostile = Page(render(_without_names(hostile_report()))), Page(render(hostile_report()))
    assert [tag for tag, _ in hostile.elements if tag != "wbr"] == [tag for tag, _ in clean.elements if tag != "wbr"]
    assert not any("onerror" in attributes for _, attributes in hostile.elements)
    assert "<script>alert" not in render(hostile_report())
    assert html.escape("</script><script>alert(1)</script>") in render(hostile_report()).replace("<wbr>", "")


def _without_names(report: NamespaceReport) -> NamespaceReport:
    """Return the report with all strings replaced by harmless strings."""

    def calm(cell: object) -> object:
        return "x" if isinstance(cell, str) else cell

    sections = []
    for section in report.sections:
        tables = tuple(
            replace(
                table,
                title="x",
                text="x",
                columns=tuple(replace(column, title="x") for column in table.columns),
                rows=tuple(tuple(calm(cell) for cell in row) for row in table.rows),  # type: ignore[misc]
            )
            for table in section.tables
        )
        sections.append(replace(section, title="x", text="x", notes=("x",) * len(section.notes), tables=tables))
    return replace(report, title="x", image="x", before="x", edits="x", sections=tuple(sections))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1664, "1.63 KiB"),
        (-(10 << 20), "\N{MINUS SIGN}10 MiB"),
        ((1 << 30) - 1, "1 GiB"),
        (1234 << 30, "1.21 TiB"),
        (1 << 70, "1024 EiB"),
    ],
)
def test_byte_counts_have_three_digits_and_a_unit(value: int, text: str) -> None:
    assert bytes_text(value) == text.replace(" ", "\N{NO-BREAK SPACE}")


def test_cells_are_formatted_and_sorted_by_value() -> None:
    assert count_text(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    assert cell_text(None, "bytes") == "\N{EN DASH}"
    assert cell_text(NOON, "time") == "2026-03-18 12:00"
    assert cell_text(99.96, "percent") == "100.0\N{NO-BREAK SPACE}%"
    assert sort_value(NOON) == "1773835200000"
    assert sort_value(None) is None


def test_charts_are_also_shown_as_tables() -> None:
    tree = Treemap("Space", TreemapNode("/", 9, (TreemapNode("a", 5, (TreemapNode("b", 2),)),)))
    assert chart_table(tree).rows == (("/", 9), ("/a", 5), ("/a/b", 2))
    assert chart_table(Histogram("Sizes", (Bin("empty", 0), Bin("rest", 4)))).rows == (("empty", 0), ("rest", 4))
    assert chart_table(Bars("Growth", (Bar("/a", -3),), "bytes")).columns[1] == ReportColumn("value", "bytes", "Space")
    later = NOON.replace(hour=13)
    series = (Series("adds", (Point(NOON, 1), Point(later, 2))), Series("deletes", (Point(later, 3),)))
    assert chart_table(TimeLine("Hours", series, step=3600)).rows == ((NOON, 1, 0), (later, 2, 3))
    assert chart_table(TimeLine("Levels", series)).rows == ((NOON, 1, None), (later, 2, 3))


def test_the_headline_lists_findings_with_errors_first() -> None:
    found = headline(sample_report(), cell_text)
    assert [fact.title for fact in found.facts[:3]] == ["Space with replicas", "Size of files", "Files"]
    assert [finding.level for finding in found.findings] == ["fault", "warning", "warning"]
    texts = [finding.text.replace("\N{NO-BREAK SPACE}", " ") for finding in found.findings]
    assert re.fullmatch(r"\d quotas are used up; /\S+ has used 10\d\.\d % of its space quota\.", texts[0])
    assert re.fullmatch(r"\d quotas are nearly used up; /\S+ has used 9\d\.\d % of its space quota\.", texts[1])
    assert "71.3 % of all" in texts[2]


def test_the_headline_of_an_empty_report_is_empty() -> None:
    assert headline(EMPTY) == Headline((), ())
    assert "This report found no problems." in render(EMPTY)


def test_the_headline_names_cold_snapshot_grown_and_damaged_data() -> None:
    whole = ReportTable("totals", "Totals", (ReportColumn("raw", "bytes", "Space"),), ((1000,),))
    space = ReportColumn("raw", "bytes", "All")
    cold = ReportTable("cold", "Cold", (ReportColumn("cold_raw", "bytes", "Cold"), space), ((300, 1000),))
    held = ReportTable("snapshots", "Held", (space, ReportColumn("current_raw", "bytes", "Current")), ((100, 1000),))
    growth = (ReportColumn("raw", "bytes", "Change"), ReportColumn("raw_before", "bytes", "Before"))
    grown = ReportTable("growth", "Grown", growth, ((60, 940),))
    heads = (
        ReportColumn("severity", "text", "Severity"),
        ReportColumn("code", "text", "Code"),
        ReportColumn("count", "count", "Count"),
        ReportColumn("meaning", "text", "Meaning"),
    )
    kinds = (("error", "NO_PARENT", 2, "An inode is in no directory."), ("warning", "ODD", 1, "It is odd."))
    wrong = ReportTable("findings", "Findings", heads, kinds)
    names = {"space": whole, "cold": cold, "snapshots": held, "growth": grown, "findings": wrong}
    report = replace(EMPTY, sections=tuple(ReportSection(name, name, "", (table,)) for name, table in names.items()))
    assert [(fact.title, fact.value) for fact in headline(report).changes] == [("Change", 60), ("Before", 940)]
    assert "Changes since the older image" in render(report)
    findings = headline(report).findings
    assert [finding.section for finding in findings] == ["findings", "findings", "cold", "snapshots", "growth"]
    assert findings[0].text == "The image has 2 errors, most often NO_PARENT: An inode is in no directory."
