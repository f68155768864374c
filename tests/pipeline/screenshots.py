"""Regenerates the screenshots of the report page in docs/images: `python -m tests.pipeline.screenshots [FOLDER]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from pipeline.reports.html import render
from tests.browser import browser
from tests.pipeline.sample_report import sample_report

_IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
_SHOTS: dict[str, dict[str, Any]] = {
    "report-light": {"viewport": {"width": 1360, "height": 1210}, "color_scheme": "light"},
    "report-dark": {"viewport": {"width": 1360, "height": 1020}, "color_scheme": "dark"},
    "report-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
}
_SECTION = {"report-dark": "operations", "report-phone": "space"}
"""Section of the page that a picture shows; other pictures show the top of the page."""


def main(folder: Path) -> None:
    """Write one PNG of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, browser() as running:
        page = Path(scratch) / "report.html"
        page.write_text(render(sample_report()), encoding="utf-8")
        for name, options in _SHOTS.items():
            _shoot(running, page.as_uri(), folder / f"{name}.png", options, _SECTION.get(name))


def _shoot(running: Browser, url: str, target: Path, options: dict[str, Any], section: str | None) -> None:
    context = running.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(url)
    if section is not None:
        page.goto(f"{url}#{section}")
        page.locator(f'.sections a[aria-current][href="#{section}"]').wait_for()
    page.screenshot(path=target)
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _IMAGES)
