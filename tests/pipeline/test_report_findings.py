"""The section on corruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from image_tools.verify.catalogue import CODES
from pipeline.reports.sections.findings import describe
from pipeline.reports.tasks import VerifyTask
from pipeline.source_files import SourceFile
from tests.recorded_cases import RECORDED

IMAGE = RECORDED / "hadoop-3.4.1" / "snapshots-basic" / "after" / "fsimage_0000000000000000292"


def _verified(image: Path) -> dict[str, Any]:
    return VerifyTask("verify", 0, SourceFile(str(image)), limit=5).run()


@pytest.mark.recorded
def test_a_sound_image_has_no_tables() -> None:
    found = describe(_verified(IMAGE), limit=5)
    assert found.text.startswith("The image is valid")
    assert found.tables == ()


@pytest.mark.recorded
def test_damage_is_listed_with_its_repair(tmp_path: Path) -> None:
    data = bytearray(IMAGE.read_bytes())
    data[-40] ^= 0xFF
    damaged = tmp_path / IMAGE.name
    damaged.write_bytes(data)
    (tmp_path / f"{IMAGE.name}.md5").write_bytes(IMAGE.with_name(f"{IMAGE.name}.md5").read_bytes())
    found = describe(_verified(damaged), limit=5)
    assert found.text.startswith("The image is damaged")
    codes = {row[1] for row in found.tables[0].rows}
    assert codes
    assert codes <= set(CODES)


def test_errors_precede_warnings() -> None:
    warning = next(code for code in CODES.values() if code.severity == "warning")
    error = next(code for code in CODES.values() if code.severity == "error")
    finding = {"section": "INODE", "message": "text"}
    found = describe(
        {
            "valid": False,
            "errors": 1,
            "warnings": 7,
            "infos": 0,
            "counts": {warning.name: 7, error.name: 1},
            "findings": [
                {"code": warning.name, "severity": "warning", "message": "text"},
                {"code": error.name, "severity": "error", "inode": 5, **finding},
            ],
        },
        limit=5,
    )
    assert [row[:3] for row in found.tables[0].rows] == [("error", error.name, 1), ("warning", warning.name, 7)]
    assert found.tables[1].rows == (
        ("error", error.name, "INODE", 5, "text"),
        ("warning", warning.name, None, None, "text"),
    )
