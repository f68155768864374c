"""Links in the documents that the console shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.runbook import document
from hatch_build import console_documents

ROOT = Path(__file__).parents[2]


def test_documents_link_only_to_each_other() -> None:
    found = document("operations.md")
    assert found is not None
    links = set(re.findall(r'href="([^"]*)"', found.body))
    assert {"install.md", "SECURITY.md#who-may-do-what", "#run", "runbook.md"} <= links
    assert all(re.match(r"#|[\w-]+\.md", link) for link in links)
    missing = [link for link in links if not link.startswith("#") and document(link.partition("#")[0]) is None]
    assert missing == []
    assert document("../pyproject.toml") is None


def test_packaged_documents_link_only_to_packaged_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source, place in console_documents(ROOT).items():
        (tmp_path / Path(place).name).symlink_to(source)
    monkeypatch.setattr("console.runbook._PACKAGED", tmp_path)
    found = document.__wrapped__("README.md")
    assert found is not None
    assert 'href="operations.md"' in found.body
    assert 'href="CONTRIBUTING.md"' not in found.body
