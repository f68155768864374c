"""The interface that a release promises to keep, one fact per line: `python -m tests.tools.interface --write`.

`docs/interface.txt` is the record. The module reads the current interface from the declarations: click's commands,
schemas, metrics, keys, error classes, applications, file names, tables. The command above records new lines. A line
that disappeared stays in the record, and the test fails until the deprecation rule of `docs/compatibility.md` allows
its removal. The test also fails if a line was removed from the record by hand although the newest tag's record contains
it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from archive.archive import IDENTITY
from checkpointer.archiving import begun_archives
from checkpointer.checks.registry import CHECKS
from checkpointer.checks.verdict import State
from checkpointer.cli import cli
from checkpointer.daemon import alarm_marks, history_file, shadow
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED, PROVENANCE, START_OVER
from checkpointer.storage.usage_record import RECORD
from failover.errors import ControllerError
from hadoop_common import names
from hadoop_common.config_key import KeyStatus
from hadoop_common.exit_codes import ExitCode
from hadoop_common.storage_lock import LOCK_FILE
from journal.json_segments import MANIFEST
from node_state.alarm_kinds import ALARM_KINDS
from pipeline.reports.model import SECTIONS
from site_config.keys import KEYS
from tests.tools.interface_of_servers import all_of_servers
from tests.tools.tags import newest_tag, text_at

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs" / "interface.txt"
RULE = ROOT / "docs" / "compatibility.md"
COMMAND = "python -m tests.tools.interface --write"
# names that docs/pipeline.md and docs/pipeline-tables.md tell users to import
_PYTHON = (
    "pipeline.register",
    "pipeline.read_image",
    "pipeline.read_edits",
    "pipeline.session.build_session",
    "pipeline.lake.read_lake_images",
    "pipeline.lake.read_lake_edits",
)
_FILES = (
    names.image_name(0),
    names.image_name(0, rollback=True),
    names.md5_name(names.image_name(0)),
    names.segment_name(0, 0),
    names.inprogress_name(0),
    names.VERSION,
    names.SEEN_TXID,
    LOCK_FILE,
    PROVENANCE,
    START_OVER,
    LOST_PAST,
    NOT_COMPARED,
    RECORD,
    history_file.NAME,
    alarm_marks.SILENCES,
    alarm_marks.ACKNOWLEDGEMENTS,
    begun_archives.NAME,
    shadow.FOLDER,
    IDENTITY,
    MANIFEST,
)
# programs that are not for production
_TRIALS = ("bookie",)
_DEPRECATED = re.compile(r"^\| `([^`]+)` \| (\d+)\.(\d+)[\d.]* \| (\d+)\.(\d+)[\d.]* \|", re.MULTILINE)


class Differences(NamedTuple):
    """Sorted differences between the current interface and the record."""

    gone: list[str]
    new: list[str]

    def __str__(self) -> str:
        lines = [f"disappeared: {each}" for each in self.gone]
        if self.gone:
            lines.append(f"next: restore them, or follow the deprecation rule of {RULE.name}")
        lines += [f"not recorded: {each}" for each in self.new]
        return "\n".join([*lines, f"next: {COMMAND}"] if self.new else lines)


def present() -> list[str]:
    """Return all lines of the current interface, sorted."""
    parts = (_commands(cli, "checkpointer"), _exit_codes(), _shapes(), _keys(), _python(), _tables(), all_of_servers())
    named = (
        *(f"file {name}" for name in _FILES),
        *(f"alarm {name}" for name in ALARM_KINDS),
        *(f"check {check.name}" for check in CHECKS),
        *(f"choice checkpointer report --only {section}" for section in SECTIONS),
    )
    return sorted({*named, *(line for part in parts for line in part)})


def compared(recorded: Collection[str], now: Collection[str], may_go: Collection[str]) -> Differences:
    """Compare the current interface with the record; lines of `may_go` may be missing."""
    return Differences(sorted(set(recorded) - set(now) - set(may_go)), sorted(set(now) - set(recorded)))


def released_lines(repository: Path) -> list[str]:
    """Return the record of the newest tag before the current commit; empty if there is no tag."""
    tag = newest_tag(repository)
    return text_at(repository, tag, "docs/interface.txt").splitlines() if tag else []


def removable(page: str, version: str) -> set[str]:
    """Return the lines that may be removed in `version` according to the table of deprecations in `page`.

    Raises:
        ValueError: a row plans the removal before the next major version.
    """
    release = _release(version)
    found = set()
    for line, *numbers in _DEPRECATED.findall(page):
        since, until = tuple(map(int, numbers[:2])), tuple(map(int, numbers[2:]))
        if until <= since or until[0] == since[0] or until[1]:
            raise ValueError(
                f"{line}: deprecated in {since[0]}.{since[1]}, so it may be removed in {since[0] + 1}.0 at the earliest"
            )
        if until <= release:
            found.add(line)
    return found


def present_version() -> str:
    """Return the version that pyproject.toml declares."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def _release(version: str) -> tuple[int, int]:
    major, minor = map(int, version.split(".")[:2])
    return major, minor


def _commands(command: click.Command, path: str) -> Iterator[str]:
    """Yield a command with its arguments, options and choices, then the commands below it."""
    yield f"command {path}"
    context = click.Context(command)
    parameters = command.get_params(context)
    # click keeps the names of the first context
    helps = command.get_help_option(context)
    arguments = (each for each in parameters if isinstance(each, click.Argument))
    for place, argument in enumerate(arguments, 1):
        yield f"argument {path} {place}{'' if argument.nargs == 1 else ' repeated'}"
    for each in parameters:
        if isinstance(each, click.Argument):
            continue
        if not getattr(each, "hidden", False):
            options = (*each.opts, *each.secondary_opts) if each is not helps else ("--help",)
            yield from (f"option {path} {option}" for option in options)
            if isinstance(each.type, click.Choice):
                yield from (f"choice {path} {each.opts[0]} {choice}" for choice in each.type.choices)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and name not in _TRIALS:
                yield from _commands(below, f"{path} {name}")


def _exit_codes() -> Iterator[str]:
    yield from (f"exit-code checkpointer {code.value} {code.name.lower()}" for code in ExitCode if code)
    yield from (f"exit-code check {state.value} {state.name.lower()}" for state in State)
    for kind in ControllerError.__subclasses__():
        yield f"exit-code zkfc {kind.exit_code} {kind.__name__.removesuffix('Error')}"


def _shapes() -> Iterator[str]:
    """Yield `json SCHEMA PATH TYPE`, and `json SCHEMA PATH always` for a key that is never missing."""
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        yield from _shape(schema, f"json {path.stem} ", "", schema.get("definitions", {}))


def _shape(node: Mapping[str, Any], head: str, place: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    for kind in node["type"] if isinstance(node.get("type"), list) else [node.get("type")]:
        if place and kind is not None:
            yield f"{head}{place} {kind}"
    for value in node.get("enum", ()):
        yield f"{head}{place} = {json.dumps(value)}"
    required = node.get("required", ())
    for name, below in node.get("properties", {}).items():
        inner = f"{place}.{name}" if place else name
        if name in required:
            yield f"{head}{inner} always"
        yield from _shape(below, head, inner, definitions)
    rows = [(node.get("items"), f"{place}[]"), (node.get("additionalProperties"), f"{place}.*")]
    rows += [(each, place) for key in ("anyOf", "oneOf", "allOf") for each in node.get(key, ())]
    rows.append((node.get("then"), place))
    for below, inner in rows:
        if isinstance(below, Mapping):
            yield from _shape(below, head, inner, definitions)


def _keys() -> Iterator[str]:
    yield from (f"key {key.name}" for key in KEYS if key.status is KeyStatus.SUPPORTED)


def _python() -> Iterator[str]:
    """Yield `python NAME PARAMETER` of public functions, and the entry points that other packages can fill."""
    for name in _PYTHON:
        module, _, function = name.rpartition(".")
        yield f"python {name}"
        for parameter in inspect.signature(getattr(importlib.import_module(module), function)).parameters.values():
            yield f"python {name} {parameter}".split(":")[0]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    yield from (f"entry-points {group}" for group in groups)


def _tables() -> Iterator[str]:
    """Yield the options of Spark's data sources, and the columns of their tables."""
    from pipeline.sources import edits, fsimage
    from pipeline.tables.catalogue import EDITS_TABLES, IMAGE_TABLES

    for source, options, tables in (
        ("fsimage", fsimage.OPTIONS, IMAGE_TABLES),
        ("hdfs_edits", edits.OPTIONS, EDITS_TABLES),
    ):
        yield from (f"source {source} option {option}" for option in options)
        for table in tables.values():
            yield from (f"column {table.name} {each.name} {each.type}".replace(", ", ",") for each in table.columns)


def main(arguments: list[str]) -> int:
    recorded = RECORDED.read_text("utf-8").splitlines() if RECORDED.exists() else []
    now = present()
    may_go = removable(RULE.read_text("utf-8"), present_version())
    differences = compared(recorded, now, may_go)
    if arguments == ["--write"]:
        kept: Iterable[str] = {*differences.gone, *now}
        RECORDED.write_text("".join(f"{line}\n" for line in sorted(kept)), "utf-8")
        differences = Differences(differences.gone, [])
    if text := str(differences):
        print(text)
    return 1 if differences.gone or differences.new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
