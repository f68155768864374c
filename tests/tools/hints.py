"""Reads every hint of the program from the sources: its location, its error and its text.

    python -m tests.tools.hints            # all hints, by error
    python -m tests.tools.hints stop       # hints with this word

A hint is the text after `next:`. The sources of hints are the argument `hint`, values of names that end in "hint" or
are passed as a hint, and the hints of checks. Results of functions whose names end in "hint" are hints too.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "archive",
    "checkpointer",
    "console",
    "engine",
    "failover",
    "hadoop_common",
    "hadoop_rpc",
    "image_format",
    "image_tools",
    "install",
    "journal",
    "journal_node",
    "namenode_stub",
    "pipeline",
    "servlets",
    "node_state",
    "site_config",
)
# classes that accept a hint as a positional argument, with the argument's position
_POSITIONAL = {"Check": 1, "FileKind": 1, "NotRegularError": 2, "SparseFileError": 2, "with_next": 1}
# parse only modules with hints, or with constants that other modules pass as hints; parsing all modules takes seconds
_SHOWS_HINTS = re.compile("hint|" + "|".join(rf"{name}\(" for name in _POSITIONAL), re.IGNORECASE)
_READ = (ast.Call, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)


class Hint(NamedTuple):
    """A hint as in the sources, with expressions in braces."""

    error: str
    text: str
    place: str


@functools.cache
def all_hints() -> list[Hint]:
    """Return the hints of all packages, by error and text."""
    sources = {
        path: path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    }
    modules = {path: _nodes(text) for path, text in sources.items() if _SHOWS_HINTS.search(text)}
    names = {name for nodes in modules.values() for name in _names_passed(nodes)}
    has_name = re.compile("|".join(sorted(names)))
    modules |= {path: _nodes(text) for path, text in sources.items() if path not in modules and has_name.search(text)}
    found: set[Hint] = set()
    for path, nodes in modules.items():
        for error, node in _hints_of(nodes, names):
            for text in _texts(node):
                found.add(Hint(error, text, str(path.relative_to(ROOT))))
    return sorted(found)


def _nodes(text: str) -> list[ast.AST]:
    """Return the nodes of a module that lead to hints."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, _READ)]


def _names_passed(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of constants that are passed as hints."""
    for node in nodes:
        if isinstance(node, ast.Call):
            for value in _hint_arguments(node):
                # not inside another string
                if not isinstance(value, ast.JoinedStr):
                    yield from (each.id for each in ast.walk(value) if isinstance(each, ast.Name) and each.id.isupper())


def _hint_arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "hint")
    position = _POSITIONAL.get(_name(call.func))
    if position is not None and len(call.args) > position:
        yield call.args[position]


def _hints_of(nodes: Sequence[ast.AST], names: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each hint with the class of its error, or with its location if it has no class."""
    holders = [node for node in nodes if isinstance(node, ast.ClassDef)]
    classes = {id(inner): holder.name for holder in holders for inner in holder.body}
    for node in nodes:
        if isinstance(node, ast.Call):
            for value in _hint_arguments(node):
                name = _name(node.func)
                yield _owner(node, holders) if name == "__init__" else name, value
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in map(_name, targets):
                if target.lower().rstrip("s").endswith("hint") or target in names:
                    yield classes.get(id(node), target), node.value
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("hint"):
            returns = (each.value for each in ast.walk(node) if isinstance(each, ast.Return))
            yield from ((node.name, value) for value in returns if value is not None)


def _owner(call: ast.Call, holders: Sequence[ast.ClassDef]) -> str:
    """Return the name of the innermost class that contains a call."""
    return next((each.name for each in reversed(holders) if any(inner is call for inner in ast.walk(each))), "__init__")


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the possible strings of an expression."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and " " in node.value:
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"  # type: ignore[attr-defined, misc]
            for part in node.values
        )
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr | ast.keyword):
                yield from _texts(child.value if isinstance(child, ast.keyword) else child)


def main() -> None:
    """Print the hints, by error."""
    words = [word.lower() for word in sys.argv[1:]]
    for hint in all_hints():
        if all(word in hint.text.lower() for word in words):
            print(f"{hint.error}: {hint.text}  [{hint.place}]")


if __name__ == "__main__":
    main()
