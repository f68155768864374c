"""`find`, `du`, `ls` and `top`: their sources, their output and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hadoop_common.names import image_name
from image_tools.dump.values import mode_symbols
from tests.archive.storage import segment, storage
from tests.checkpointer.schemas import valid
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder
from tests.engine.op_makers import mkdir
from tests.image_format.image_support import RECORDED
from tests.recorded_cases import image_in
from tests.site_files import write_site

CASE = RECORDED / "hadoop-2.7.3" / "acl-xattr"
IMAGE = ("--image", CASE / "after")


def rows_of(*words: str | Path) -> list[dict[str, object]]:
    answer = run_cli("find", *words, "--format", "json")
    assert answer.code == 0, answer
    return [valid("find.json")(json.loads(line)) for line in answer.out.splitlines()]


def test_find_prints_paths_and_objects() -> None:
    rows = rows_of(*IMAGE, "/")
    assert rows[0]["path"] == "/"
    assert run_cli("find", *IMAGE, "/").out.splitlines() == [row["path"] for row in rows]
    with_acl = run_cli("find", *IMAGE, "/", "--acl").out.splitlines()
    assert 0 < len(with_acl) < len(rows)
    old = run_cli("find", *IMAGE, "/", "--type", "file", "--modified-before", "1d", "--modified-after", "2000-01-01")
    assert old.code == 0


def test_ls_du_and_top_agree_with_find(tmp_path: Path) -> None:
    rows = {str(row["path"]): row for row in rows_of(*IMAGE, "/")}
    listed = [json.loads(line) for line in run_cli("ls", *IMAGE, "/", "--json").out.splitlines()]
    children = sorted(path for path in rows if path.rpartition("/")[0] == "" and path != "/")
    assert [valid("ls.json")(row)["path"] for row in listed] == children
    line = run_cli("ls", *IMAGE, "-d", "/").out
    assert line.startswith(f"d{mode_symbols(int(str(rows['/']['mode']), 8))}")
    sums = valid("du.json")(json.loads(run_cli("du", *IMAGE, "-s", "/", "--json").out))["paths"][0]
    files = [row for row in rows.values() if row["type"] == "file"]
    assert sums["files"] + sums["directories"] == len(rows)
    assert sums["length"] == sum(int(str(row["length"])) for row in files)
    top = valid("top.json")(json.loads(run_cli("top", *IMAGE, "--of", "owners", "--json").out))["rows"]
    assert sum(row["files"] for row in top) == len(files)
    assert run_cli("top", *IMAGE, "--of", "directories", "--by", "files").code == 0
    assert run_cli("du", *IMAGE, "-h", "/").code == 0


def test_json_is_valid_for_every_name(tmp_path: Path) -> None:
    paths = [
        f"/{name}" for name in ("\t", "\n", '"', "\\", "\x7f", "\x85", "\u2028", "\u202e", "\U000e0001", "日本", "😀")
    ]
    builder = ImageBuilder(HADOOP3)
    for path in paths:
        builder.file(path)
    image = builder.save(tmp_path)
    lines = run_cli("ls", "--image", image, "/", "--json").out.split("\n")[:-1]
    assert {valid("ls.json")(json.loads(line))["path"] for line in lines} == set(paths)
    assert all(line.isprintable() for line in lines)
    assert all(name in "".join(lines) for name in ("日本", "😀"))
    rows = [
        json.loads(line) for line in run_cli("find", "--image", image, "/", "--format", "json").out.split("\n")[:-1]
    ]
    assert {row["path"] for row in rows} == {"/", *paths}
    sums = json.loads(run_cli("du", "--image", image, "/", "--json").out)["paths"]
    assert {row["path"] for row in sums} == set(paths)


def test_ls_and_du_accept_reserved_paths() -> None:
    for command in ("ls", "du"):
        plain = run_cli(command, *IMAGE, "/vex0").out
        for prefix in ("/.reserved/raw/vex0", "/.reserved/.inodes/16386"):
            assert run_cli(command, *IMAGE, prefix).out == plain.replace(" /vex0/", f" {prefix}/")
        missing = run_cli(command, *IMAGE, "/.reserved/.inodes/1")
        assert missing.code == 1
        assert "File for given inode path does not exist: /.reserved/.inodes/1" in missing.err


def test_find_and_top_accept_reserved_paths() -> None:
    """Both commands print the paths without the prefix."""
    for command in (("find",), ("top", "--of", "directories"), ("find", "--format", "json")):
        plain = run_cli(command[0], *IMAGE, *command[1:], "/vex0").out
        assert "/vex0" in plain
        for prefix in ("/.reserved/raw/vex0", "/.reserved/.inodes/16386", "/.reserved/.inodes/16385/vex0"):
            assert run_cli(command[0], *IMAGE, *command[1:], prefix).out == plain, prefix
    for missing in ("/.reserved/.inodes/1", "/.reserved/.inodes/x", "/.reserved/.inodes", "/.reserved/raw/none"):
        assert run_cli("find", *IMAGE, missing).code == 1


@pytest.mark.recorded
def test_find_accepts_the_number_of_a_storage_policy() -> None:
    image = image_in(RECORDED / "hadoop-2.7.3" / "quotas-storage-policy" / "after")
    for name, number in (("COLD", "2"), ("hot", "07")):
        named = run_cli("find", "--image", image, "/", "--storage-policy", name)
        assert named.out.startswith("/"), name
        assert run_cli("find", "--image", image, "/", "--storage-policy", number).out == named.out


def test_find_uses_the_newest_image_of_the_configuration(tmp_path: Path) -> None:
    shutil.copytree(CASE / "after", tmp_path / "secondary" / "current")
    conf = write_site(tmp_path / "conf", {"dfs.namenode.checkpoint.dir": f"{tmp_path}/secondary"})
    answer = run_cli("find", "--conf", conf, "/")
    assert answer.out == run_cli("find", *IMAGE, "/").out
    assert image_in(CASE / "after").name in answer.err
    shutil.rmtree(tmp_path / "secondary")
    missing = run_cli("find", "--conf", conf, "/")
    assert (missing.code, f"no image: {tmp_path}/secondary does not exist" in missing.err) == (6, True), missing.err


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("find", "/"), 2, "--conf, --image and --archive"),
        (("find", *IMAGE, "/", "--as-of", "7"), 2, "need --archive"),
        (("find", *IMAGE, "/missing"), 1, f"/missing does not exist in {image_in(CASE / 'after').name}\n"),
        (("ls", *IMAGE, "/missing"), 1, "/missing does not exist"),
        (("find", *IMAGE, "/", ""), 2, "PATH is empty"),
        (("du", *IMAGE, ""), 2, "PATH is empty"),
        (("find", *IMAGE, "/", "--format", "parquet"), 2, "--output"),
        (("find", *IMAGE, "/", "--min-size", "x"), 2, "is not a size"),
        (("find", *IMAGE, "/", "--modified-before", "x"), 2, "is not a time"),
        (("find", *IMAGE, "/", "--owner", ""), 2, "is empty"),
        (("find", *IMAGE, "/", "--storage-policy", "CLOD"), 2, "'CLOD' is not one of PROVIDED, COLD, "),
        (("find", *IMAGE, "/", "--storage-policy", "0"), 2, "LAZY_PERSIST, or a number from 1 to 15"),
        (("find", *IMAGE, "/", "--storage-policy", "16"), 2, "LAZY_PERSIST, or a number from 1 to 15"),
        (("find", *IMAGE, "/", "--output", CASE / "missing" / "rows"), 6, "Check that the directory exists"),
        (("top", *IMAGE, "--by", "files"), 2, "needs --of"),
    ],
)
def test_invalid_request_has_one_error(words: tuple[str | Path, ...], code: int, error: str) -> None:
    answer = run_cli(*words)
    assert (answer.code, answer.out) == (code, "")
    assert error in answer.err


def test_find_at_a_past_moment_of_an_archive(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/later", 16386))
    words = ("--archive", tmp_path / "archive")
    assert run_cli("archive", "add", nn, *words).code == 0
    assert "/later" in run_cli("find", *words, "/").out.splitlines()
    assert "/later" in run_cli("find", *words, "--as-of", str(last), "/").out.splitlines()
    assert "/later" not in run_cli("find", *words, "--as-of", str(BASE_TXID), "/").out.splitlines()
    missing = run_cli("find", *words, "--as-of", str(BASE_TXID), "/later")
    assert (missing.code, f"/later does not exist in {image_name(BASE_TXID)}\n" in missing.err) == (1, True), (
        missing.err
    )
