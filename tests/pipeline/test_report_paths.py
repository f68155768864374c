"""Path sets and tables of databases: their file, and their sums, compared with plain sums."""

from __future__ import annotations

import random
import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from pipeline.errors import PathRulesError
from pipeline.reports.counts.classes import SIZE_BOUNDS
from pipeline.reports.counts.path_groups import owned_subtrees, set_sizes, set_sums, table_sums
from pipeline.reports.path_rules import PathRules
from pipeline.reports.request import ReportOptions
from pipeline.reports.sections import make_section
from pipeline.reports.work import ReportData, image_rules
from tests.pipeline.report_frames import AS_OF, MIB, ROOT, counted, directory, file, keyed

RULES = """
[sets]
all = ["/"]
hot = ["/a", "/b/*/in"]
none = ["/missing"]

[tables]
"/w/{db}.db/{table}" = "{db}.{table}"
"/w/{table}" = "default.{table}"
"/w/x.db/t/part" = "other.part"
"/a" = "web.a.b"
"""
SETS = {"all": ["/"], "hot": ["/a", "/b/*/in"], "none": ["/missing"]}
PATHS = ["/a", "/a/in", "/b", "/b/c", "/b/c/in", "/b/c/in/d", "/w", "/w/x.db", "/w/x.db/t", "/w/x.db/t/part", "/w/y"]
PATHS += ["/w/v.1.db", "/w/v.1.db/t.2"]

Row = dict[str, Any]


def read(folder: Path, text: str) -> PathRules:
    (folder / "paths.toml").write_text(text)
    return PathRules.read(folder / "paths.toml")


def tree(seed: int) -> list[Row]:
    chance = random.Random(seed)
    rows = [directory(ROOT, None, "/", owner="hdfs")]
    ids = {"/": ROOT}
    for number, path in enumerate(PATHS):
        ids[path] = 2 + number
        above = path.rpartition("/")[0] or "/"
        rows.append(directory(ids[path], ids[above], path, owner=chance.choice("xy")))
    for number in range(200):
        above = chance.choice(["/", *PATHS])
        length = chance.choice([0, 7, MIB, 200 * MIB, 1 << 40])
        path = f"{above.rstrip('/')}/f{number}"
        rows.append(file(100 + number, ids[above], path, length, days=chance.choice([0, 900])))
    chance.shuffle(rows)
    return rows


def above(path: str) -> list[str]:
    """Return the directories above a path, the nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) or "/" for count in range(len(parts) - 1, 0, -1)]


def table_of(path: str) -> tuple[str, str] | None:
    for each in above(path):
        if match := re.fullmatch(r"/w/([^/]+)\.db/([^/]+)", each):
            return match[1], match[2]
        if match := re.fullmatch(r"/w/([^/]+)", each):
            return "default", match[1]
        if each in {"/a", "/w/x.db/t/part"}:
            return ("web", "a.b") if each == "/a" else ("other", "part")
    return None


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_path_sets_equal_plain_sums(seed: int, tmp_path: Path) -> None:
    rules, rows = read(tmp_path, RULES), tree(seed)
    options = ReportOptions(AS_OF, paths=rules)
    image = counted(rows, image_rules(options))
    files = [row for row in rows if row["type"] == "FILE"]

    sets = keyed(set_sums(image, rules).to_pylist(), "name")
    sizes = set_sizes(image, rules)
    tables: dict[tuple[str, str], Counter[str]] = {}
    for name, patterns in SETS.items():
        mine = [
            row
            for row in files
            if any(fnmatchcase(each, pattern) for each in above(row["path"]) for pattern in patterns)
        ]
        assert (sets[name]["files"], sets[name]["length"]) == (len(mine), sum(row["length"] for row in mine))
        assert sets[name]["cold_length"] == sum(row["length"] for row in mine if row["mtime"].year < 2024)
        classes = Counter(sum(row["length"] >= bound for bound in SIZE_BOUNDS) for row in mine)
        assert sizes[name] == classes
    for row in files:
        if place := table_of(row["path"]):
            tables.setdefault(place, Counter()).update(files=1, length=row["length"])
    found = {(row["database"], row["table"]): row for row in table_sums(image, rules).to_pylist() if row["files"]}
    assert {key: (row["files"], row["length"]) for key, row in found.items()} == {
        key: (sums["files"], sums["length"]) for key, sums in tables.items()
    }

    owner = {row["path"]: row["owner"] for row in rows if row["type"] == "DIRECTORY"}
    subtrees: Counter[str] = Counter()
    for row in files:
        first, *rest = above(row["path"])
        for each in rest:
            if owner[each] != owner[first]:
                break
            first = each
        subtrees[first] += row["length"]
    owned = keyed(owned_subtrees(image).to_pylist(), "path")
    assert {path: row["length"] for path, row in owned.items() if row["length"]} == +subtrees
    assert all(row["owner"] == owner[path] for path, row in owned.items())


def test_contents_of_the_paths_section(tmp_path: Path) -> None:
    rules = read(tmp_path, RULES)
    options = ReportOptions(AS_OF, paths=rules)
    made = make_section("paths", ReportData(options, counted(tree(1), image_rules(options))))
    names = [table.name for table in made.tables]
    assert names == ["path_sets", "sizes_by_path_set", "databases", "database_tables"]
    assert {row[0] for row in made.tables[0].rows} == set(SETS)
    assert made.tables[1].rows[0][0] == "all"
    assert sum(int(cell or 0) for cell in made.tables[1].rows[0][1:]) == 200
    assert {row[0] for row in made.tables[2].rows} == {"x", "v.1", "default", "other", "web"}
    only_sets = ReportOptions(AS_OF, paths=read(tmp_path, '[sets]\na = ["/a"]\n'))
    assert len(make_section("paths", ReportData(only_sets, counted(tree(1), image_rules(only_sets)))).tables) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[sets]\na = 1\n", "sets.a: needs a list"),
        ('[sets]\na = ["b"]\n', "does not begin with /"),
        ('[sets]\na = ["/{b}"]\n', r"sets.a: use \*"),
        ('[tables]\n"/{b}/{b}" = "x.{b}"\n', "occurs twice"),
        ('[tables]\n"/{B}" = "x.y"\n', "lower case"),
        ('[tables]\n"/{b}" = "x"\n', "needs a name DATABASE.TABLE"),
        ('[tables]\n"/{b}" = "x.{c}"\n', "{c} is not in the path"),
        ('[tables]\n"/{a}" = "a}.{a}"\n', "words in braces"),
        ('[tables]\n"/{b}" = "a{.b"\n', "words in braces"),
        ('[tables]\n"/{b}/{c}" = "{b}}.{c}"\n', "words in braces"),
        ('[tables]\n"/b" = ".b"\n', "needs a name DATABASE.TABLE"),
        ('[tables]\n"/b" = "b."\n', "needs a name DATABASE.TABLE"),
        ('[sets]\na = ["/b//c"]\n', "an empty name"),
        ('[sets]\na = ["/"]\n[tables]\n', "tables: the table is empty"),
        ("[sets]\n", "sets: the table is empty"),
        ("", "neither"),
        ("[other]\na = 1\n", "only the tables"),
        ("[sets\n", "cannot read"),
    ],
)
def test_an_invalid_paths_file_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(PathRulesError, match=problem) as caught:
        read(tmp_path, text)
    assert "paths.toml" in str(caught.value)


def test_a_star_never_matches_an_empty_name_and_the_file_is_utf_8(tmp_path: Path) -> None:
    (tmp_path / "paths.toml").write_bytes('[sets]\n"é" = ["/*", "/b*/é"]\n'.encode())
    with mock.patch.object(Path, "read_text", autospec=True, side_effect=Path.read_text) as read_text:
        rules = PathRules.read(tmp_path / "paths.toml")
    assert read_text.call_args.kwargs == {"encoding": "utf-8"}  # not the locale's encoding
    ((name, pattern),) = rules.sets
    assert name == "é"
    paths = ["/", "/a", "/a/é", "/b/é", "/bc/é"]
    assert [path for path in paths if re.search(pattern, path)] == ["/a", "/b/é", "/bc/é"]


def test_paths_may_exceed_two_gigabytes_in_total(tmp_path: Path) -> None:
    assert counted(tree(1)).tree.rows["path"].type == pa.large_string()
