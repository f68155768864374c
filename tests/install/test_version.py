"""pyproject.toml declares the version; the changelog, the citation and the installation page agree with it."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def releases() -> list[tuple[str, date]]:
    """Return the releases of the changelog, the newest first."""
    head, *found = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert head == "Unreleased"
    return [(name, date.fromisoformat(day)) for name, _, day in (each.partition(" - ") for each in found)]


def test_the_newest_changelog_entry_is_the_declared_version() -> None:
    found = releases()
    assert found[0][0] == VERSION
    assert found == sorted(found, key=lambda each: each[1], reverse=True)


def test_the_changelog_has_the_usual_headings() -> None:
    assert sorted(set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) - set(HEADINGS)) == []


def test_the_citation_names_the_newest_release() -> None:
    facts = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert (facts["version"], date.fromisoformat(facts["date-released"])) == releases()[0]


def test_the_installation_page_names_no_version() -> None:
    assert re.findall(r"hdfs[_-]checkpointer(?:==|[_-])\d[\w.]*", (ROOT / "docs" / "install.md").read_text()) == []
