"""Pages of docs/ that are made from data say what the data says."""

from __future__ import annotations

from pathlib import Path

from checkpointer.config.keys import markdown_table

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_configuration_page_lists_every_key() -> None:
    assert markdown_table() in (DOCS / "configuration.md").read_text()
