"""Generated pages of docs/ match their data, and pages name only existing modules, classes and keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpointer.checks.registry import CHECKS
from hadoop_common.exit_codes import ExitCode
from node_state.alarm_kinds import ALARM_KINDS, OTHER, ROLE
from tests.interop.hadoop_home import HADOOP_RELEASES
from tests.tools.doc_tables import DOCS, TABLES
from tests.tools.hints import PACKAGES

ROOT = Path(__file__).parents[2]
SUPPORT = (DOCS / "support.md").read_text()
# a module or its member in a page
_DOTTED = re.compile(r"`((?:[a-z_]+\.)+(?:[a-z_]+|[A-Z]\w+))`")


@pytest.mark.parametrize(("table", "page"), TABLES.items())
def test_generated_tables_match_the_declarations(table: Callable[[], str], page: str) -> None:
    assert table() in (DOCS / page).read_text()


def test_every_test_that_support_md_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SUPPORT)
    missing = [
        (path, function)
        for path, function in named
        if not (ROOT / path).is_file() or (function and f"\ndef {function}(" not in (ROOT / path).read_text())
    ]
    assert named
    assert missing == []


def test_rows_of_support_md_name_their_test() -> None:
    header = f"| {' | '.join(HADOOP_RELEASES)} | Test |"
    rows = [row for part in SUPPORT.split(header)[1:] for row in part.split("\n\n")[0].splitlines()[2:]]
    assert SUPPORT.count(header) == SUPPORT.count("| Test |") > 0
    assert [row for row in rows if "`tests/" not in row] == []


def test_every_module_that_a_page_names_exists() -> None:
    """On the pages about the design, a name may begin with any package. A name may end with a member of the module."""
    paths = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("[!.]*.py")]
    modules = {
        ".".join(parts[start:]): ROOT / path
        for path in paths
        for parts in [[part for part in path.with_suffix("").parts if part != "__init__"]]
        for start in range(len(parts))
    }
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (DOCS / "snapshots.md").read_text(), re.MULTILINE)
    named = {f"engine.namespace.{name}" for row in rows for name in re.findall(r"\w+", row)}
    for page in ("architecture", "journals", "lost-past", "snapshots"):
        named |= set(_DOTTED.findall((DOCS / f"{page}.md").read_text()))
    for path in (*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        named |= {name for name in _DOTTED.findall(path.read_text()) if name.split(".")[0] in PACKAGES}
    inner = {name for name in named if name.split(".")[0] in modules and not name.endswith((".json", ".proto"))}
    missing = []
    for name in inner - modules.keys():
        module, _, member = name.rpartition(".")
        if name.startswith("checkpointer.") and ".".join(name.split(".")[:2]) not in modules:
            continue  # a configuration key
        if module not in modules or not re.search(rf"\b{member}\b", modules[module].read_text()):
            missing.append(name)
    assert inner
    assert missing == []


def test_tables_of_features_name_existing_modules_and_tests() -> None:
    tables = _part("architecture", "Where things are")
    rows = re.findall(r"^\| (?!.* \| (?:module|file) \|$).*", tables, re.MULTILINE)
    tests = re.findall(r"^\| [^|]+ \| `(tests/[\w/]+/test_\w+\.py)` \|$", tables, re.MULTILINE)
    assert tests
    assert len(rows) == len(_features()) + len(tests) > 100
    assert [name for _, name in _features() if not _path(name).is_file()] == []
    assert [name for name in tests if not (ROOT / name).is_file()] == []


def test_tables_of_features_name_the_modules_of_alarms_and_paths() -> None:
    alarms = [(kind, name) for text, name in _features() if " alarm" in text for kind in _words(text)]
    paths = [(path, name) for text, name in _features() for path in re.findall(r"`(/[^`]+)`", text)]
    assert {kind for kind, _ in alarms} == set(ALARM_KINDS) - {ROLE, OTHER}
    assert paths
    assert [(word, name) for word, name in (*alarms, *paths) if f'"{word}"' not in _path(name).read_text()] == []


def test_tables_of_features_name_the_modules_of_checks() -> None:
    named = [(check, name) for text, name in _features() if text.startswith("checks") for check in _words(text)]
    modules = {check.name: check.decide.__module__ for check in CHECKS}
    assert named
    assert [(check, name) for check, name in named if modules[check] != name] == []


def _features() -> list[tuple[str, str]]:
    """Return the features in the tables of architecture.md, with their modules."""
    return re.findall(r"^\| ([^|]+) \| `([a-z_0-9.]+)` \|$", _part("architecture", "Where things are"), re.MULTILINE)


def _words(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def _path(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def _part(page: str, title: str) -> str:
    return (DOCS / f"{page}.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_class_in_the_glossary_is_in_the_module_that_it_names() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    missing = []
    for term, place in rows:
        modules = [ROOT / f"{name.replace('.', '/')}.py" for name in re.findall(r"`([^`]+)`", place)]
        contained = {name for module in modules for name in re.findall(r"^(?:class )?(\w+)", module.read_text(), re.M)}
        named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", term))
        missing += sorted(named - contained)
    assert len(rows) > 300
    assert missing == []


def test_public_class_names_are_unique() -> None:
    assert [name for name, count in Counter(_classes()).items() if count > 1 and not name.startswith("_")] == []


def _classes() -> list[str]:
    sources = [
        path.read_text()
        for package in PACKAGES
        for path in (ROOT / package).rglob("[!.]*.py")
        if "_pb2" not in path.name
    ]
    return [name for source in sources for name in re.findall(r"^ *class (\w+)", source, re.MULTILINE)]


def test_results_in_the_readme_match_performance_md() -> None:
    """The README contains a part of the first table, without the column for the floor."""
    table = (ROOT / "README.md").read_text().partition("|---|---:|---:|\n")[2].partition("\n\n")[0].splitlines()
    measured = {
        row.split("|")[1].strip(): row for row in (DOCS / "performance.md").read_text().splitlines() if "|" in row
    }
    assert len(table) == 3
    for row in table:
        name, *results = (cell.strip() for cell in row.strip("|").split("|"))
        key = "total" if name.endswith("in total") else name
        assert [each.strip() for each in measured[key].strip("|").split("|")][-2:] == results


def test_table_of_exit_codes_is_complete() -> None:
    codes = re.findall(r"^\| (\d+) \|", _part("operations", "Exit codes"), re.MULTILINE)
    assert [int(code) for code in codes] == [*ExitCode, 130]
