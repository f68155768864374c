"""Pages of docs/ that are made from data say what the data says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tools.doc_tables import DOCS, TABLES


@pytest.mark.parametrize(("table", "page"), TABLES.items())
def test_tables_are_those_of_the_declarations(table: Callable[[], str], page: str) -> None:
    assert table() in (DOCS / page).read_text()
