"""`checkpointer image info`: codec, number of inodes, and unknown layouts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadoop_common.exit_codes import ExitCode
from image_format.layout import NEWEST_LAYOUT
from image_tools.verify.checker import verify_image
from tests.cli_runner import run_cli
from tests.engine.image_builder import HADOOP3, ImageBuilder
from tests.recorded_cases import RECORDED, Case


@pytest.mark.recorded
@pytest.mark.parametrize(("name", "codec"), [("renames", "none"), ("compress-gzip", "GzipCodec")])
def test_image_info_shows_codec_and_inodes(name: str, codec: str) -> None:
    case = Case(RECORDED / "hadoop-2.7.3" / name)
    code, out, err = run_cli("image", "info", case.image("after"))
    assert code == 0, err
    facts = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(" "))
    assert facts["codec"].rpartition(".")[2] == codec
    assert int(facts["inodes"]) == verify_image(case.image("after")).inodes


@pytest.mark.parametrize("header", [b"\x02\x08\xff", b"\x05\x08"])
def test_a_damaged_header_of_the_inodes_is_one_error(header: bytes, tmp_path: Path) -> None:
    builder = ImageBuilder(HADOOP3)
    builder.sections["INODE"] = header
    code, out, err = run_cli("image", "info", builder.save(tmp_path))
    assert (code, out) == (ExitCode.BAD_IMAGE, "")
    assert "INODE" in err


def test_info_of_an_unknown_layout_gives_a_warning(unknown: Path) -> None:
    code, out, err = run_cli("image", "info", unknown, "--json")
    assert code == 0
    assert json.loads(out)["layoutVersion"] == -70
    assert err.count("\n") == 1
    assert f"layout version -70, newer than the newest known version ({NEWEST_LAYOUT})" in err
