"""Every operation of the catalogue is replayed and recorded, as docs/opcodes.md states."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.replay.table import REPLAYED, TABLE
from journal.ops import OPERATIONS
from journal.segment_format import SegmentCursor
from tests.recorded_cases import Case, all_cases
from tests.tools.opcode_table import PAGE, RELEASES, page, recorded_cases, uncovered, unhandled


def test_handlers_exist_for_exactly_the_known_operations() -> None:
    assert unhandled() == []
    assert set(REPLAYED) == set(OPERATIONS.values())
    assert [row.opcode for row in TABLE] == sorted(OPERATIONS)


def test_every_operation_is_in_a_recorded_case() -> None:
    assert uncovered(recorded_cases()) == []


def test_recorded_cases_cover_the_operations_of_each_release() -> None:
    cases = recorded_cases()
    missing = {
        (cls.name, release)
        for cls in OPERATIONS.values()
        for release, layout in RELEASES.items()
        if cls.written and cls.present_in(layout) and not cases[cls.name].get(release)
    }
    assert missing == set()


def test_the_page_of_operations_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.tools.opcode_table --write"


@pytest.mark.recorded
@pytest.mark.parametrize("case", [case for case in all_cases() if "medium" not in case.id], ids=lambda case: case.id)
def test_recorded_case_contains_the_operations_that_it_lists(case: Case) -> None:
    segments = (case.path / "before").glob("edits_*")
    seen = {op.name.removeprefix("OP_") for path in segments for op in SegmentCursor(path.read_bytes())}
    assert seen == set(case.info["ops"])


def test_opcode_table_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.opcode_table"],
        check=True,
        capture_output=True,
        encoding="utf-8",
        cwd=PAGE.parent.parent,
    )
    assert done.stdout == page()
