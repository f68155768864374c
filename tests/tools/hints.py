"""Every hint of the program, read from the sources: where it stands, of which error it is, and its text.

    python -m tests.tools.hints            # all of them, by error
    python -m tests.tools.hints stop       # those with this word

A hint is the text after `next:`. Sources of hints are the argument `hint`, values of names that end in "hint" or are
passed as one, results of functions whose names end in "hint", and the hints of checks.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
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
# classes with positional arguments that are hints, and their positions
_POSITIONAL = {"Check": 2, "FileKind": 1, "NotRegularError": 2, "SparseFileError": 2, "with_next": 1}


class Hint(NamedTuple):
    """A hint as in the sources; expressions are in braces."""

    error: str
    text: str
    place: str


@functools.cache
def all_hints() -> list[Hint]:
    """Return the hints of all packages, by error and text."""
    modules = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    }
    names = {name for tree in modules.values() for name in _names_passed(tree)}
    found: set[Hint] = set()
    for path, tree in modules.items():
        for error, node in _hints_of(tree, names):
            for text in _texts(node):
                found.add(Hint(error, text, str(path.relative_to(ROOT))))
    return sorted(found)


def _names_passed(tree: ast.Module) -> Iterator[str]:
    """Return the names of constants that are passed as hints."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for value in _hint_arguments(node):
                # not inside another text
                if not isinstance(value, ast.JoinedStr):
                    yield from (each.id for each in ast.walk(value) if isinstance(each, ast.Name) and each.id.isupper())


def _hint_arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "hint")
    position = _POSITIONAL.get(_name(call.func))
    if position is not None and len(call.args) > position:
        yield call.args[position]


def _hints_of(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each hint with the class of its error, or with its place if it has no class."""
    classes = {id(inner): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in node.body}
    owners = {
        id(inner): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            owner = owners.get(id(node), name) if name == "__init__" else name
            yield from ((owner, value) for value in _hint_arguments(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in map(_name, targets):
                if target.lower().rstrip("s").endswith("hint") or target in names:
                    yield classes.get(id(node), target), node.value
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("hint"):
            returns = (each.value for each in ast.walk(node) if isinstance(each, ast.Return))
            yield from ((node.name, value) for value in returns if value is not None)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the possible texts of an expression."""
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
