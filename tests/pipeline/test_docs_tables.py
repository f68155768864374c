"""docs/pipeline-tables.md matches the declarations of the tables, and docs/pipeline.md matches the sections of
reports.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.reports.model import SECTIONS
from pipeline.schema import Table
from pipeline.tables.catalogue import EDITS_TABLES, IMAGE_TABLES
from pipeline.tables.manual import main, page

PAGE = Path(__file__).parent.parent.parent / "docs" / "pipeline-tables.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m pipeline.tables.manual --write docs/pipeline-tables.md"
    )


def test_every_section_of_a_report_is_described() -> None:
    text = PAGE.with_name("pipeline.md").read_text(encoding="utf-8")
    table = text.partition("\n| Section | Contents |\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(SECTIONS)


def test_the_page_is_written_to_the_given_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--write", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
    main([])
    assert capsys.readouterr().out == page()


@pytest.mark.parametrize("table", [*IMAGE_TABLES.values(), *EDITS_TABLES.values()], ids=lambda table: table.name)
def test_every_column_has_a_description(table: Table) -> None:
    assert len(set(table.names)) == len(table.names)
    assert table.spark_schema().names == list(table.names)
    for column in table.columns:
        assert column.text.endswith((".", ";")), column.name
        assert "\n" not in column.text
