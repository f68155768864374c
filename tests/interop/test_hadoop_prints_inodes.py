"""The `inodes` table and the output of `image dump` equal the output of Hadoop's own viewer."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from image_format.proto import fsimage_pb2 as pb
from tests.cli_runner import run_cli
from tests.engine.image_builder import ImageBuilder, delimited
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


ODD_NAMES = (
    *(
        "\t",
        "\n",
        "\r\n",
        "\x01",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufffe",
        "\U000e0001",
        "😀",
        "日本",
        " a ",
        '"',
    ),
    *("'", ",", "|", "\\", "\\0041;", "&<>", "%41", "%x0A", "=1+1"),
)
NOT_UTF_8 = (b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80")


@pytest.mark.skipif(not SERVER.is_3, reason="the rows are compared in the form of 3.x")
def test_odd_names_are_printed_as_by_the_live_viewer(hadoop: Hadoop, tmp_path: Path) -> None:
    builder = ImageBuilder(SERVER.layout)
    for number, name in enumerate([*(each.encode() for each in ODD_NAMES), *NOT_UTF_8]):
        builder.directory(f"/d{number}").name = b"d" + name
        builder.file(f"/d{number}/f", blocks=[(number, 10, 1)])
        builder.file(f"/f{number}").name = b"f" + name
    image = builder.save(tmp_path)
    for form, theirs in (("xml", "XML"), ("delimited", "Delimited"), ("corruption", "DetectCorruption")):
        assert REVISION.sub("", dumped(image, form)) == REVISION.sub("", hadoop.view_image(image, theirs)), form


@pytest.mark.skipif(not SERVER.is_3, reason="the viewer of Hadoop 2.7 cannot print missing inodes")
@pytest.mark.parametrize(
    "missing", [("/a/b/f",), ("/a/b",), ("/a/b", "/a/b/c/g"), ("/a", "/a/b", "/a/b/c"), ("/e", "/a/f,", '/e/"/g')]
)
def test_missing_inodes_are_printed_as_by_the_live_viewer(
    hadoop: Hadoop, missing: tuple[str, ...], tmp_path: Path
) -> None:
    builder = ImageBuilder(SERVER.layout)
    for path in ("/a", "/a/b", "/a/b/c", "/e", '/e/"'):
        builder.directory(path)
    for path in ("/a/b/c/g", "/a/b/f", "/a/f,", '/e/"/g'):
        builder.file(path)
    whole = builder.all_sections()
    for path in missing:
        del builder.inodes[path]
    inodes = builder.inodes.values()
    header = pb.INodeSection(lastInodeId=builder.next_id - 1, numInodes=len(inodes))
    sections = {**whole, "INODE": delimited([header, *inodes])}
    with mock.patch.object(builder, "all_sections", return_value=sections):
        image = builder.save(tmp_path)
    printed = dumped(image, "corruption")
    assert printed == hadoop.view_image(image, "DetectCorruption")
    assert printed.count("\n") > 1


def dumped(image: Path, form: str) -> str:
    code, out, _ = run_cli("image", "dump", image, "--format", form, "--release", RELEASE)
    assert code == 0
    return out
