"""The `inodes` table and the output of `image dump` equal the output of Hadoop's own viewer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.hadoop_home import SERVER
from tests.pipeline.recorded_inodes import delimited_row, read
from tests.recorded_cases import Case, all_cases, imgcmp

pytestmark = [pytest.mark.interop, pytest.mark.recorded]

RELEASE = "3.x" if SERVER.is_3 else "2.7"
# revision of the Hadoop 3 build that printed the XML; our output names the revision of Hadoop 3.4.1
REVISION = re.compile("<oivRevision>[0-9a-f]+</oivRevision>")
CASES = [case for case in all_cases() if case.path.parent.name == SERVER.recorded]


@pytest.mark.both_generations
@pytest.mark.skipif(SERVER.is_3, reason="the rows are compared in the form of 2.7; the texts below have that of 3.x")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.name)
def test_rows_equal_those_of_the_live_viewer(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    image = case.image("after")
    rows = read(image, tmp_path)
    try:
        printed = hadoop.view_image(image, "Delimited")
    except HadoopRefusedError:
        # The viewer stops at the first symlink and at the first inode that is not a plain child of a directory.
        assert any(row["type"] == "SYMLINK" for row in rows) or imgcmp.Image(str(image)).snaps
        return
    assert "".join(delimited_row(row, None) for row in rows).splitlines() == printed.splitlines()


@pytest.mark.skipif(SERVER.layout == -66, reason="the recorded images are of a newer layout")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.name)
def test_dumps_equal_those_of_the_live_viewer(hadoop: Hadoop, case: Case) -> None:
    image = case.image("after")
    assert dumped(image, "distribution") == hadoop.view_image(image, "FileDistribution")
    assert REVISION.sub("", dumped(image, "xml")) == REVISION.sub("", hadoop.view_image(image, "XML"))
    try:
        printed = hadoop.view_image(image, "Delimited")
    except HadoopRefusedError:
        return
    # our dump is in the time zone of this process, as the JVM's output is
    assert dumped(image, "delimited") == printed


def dumped(image: Path, form: str) -> str:
    code, out, _ = run_cli("image", "dump", image, "--format", form, "--release", RELEASE)
    assert code == 0
    return out
