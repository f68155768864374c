"""The wording checker of `make check`: it rejects phrases that the project's writing rules replace.

It reads docstrings, comments and string constants of Python sources, and the lines of documents in Markdown, of
configurations and of the Makefile. A rule is a regular expression with the words to use instead. `CONTRIBUTING.md`
contains the rules of writing; this file contains the rules that a program can check. `plurals.py` finds plurals after
counts.

Parsing is slow, so a source is parsed only if a rule matches its plain text.

Usage: python -m tests.tools.wording [PATH...]
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tools.plurals import fixed_plurals, is_product, known_nouns


class Rule(NamedTuple):
    """A phrase that is rejected, and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


class Passage(NamedTuple):
    """Text of one docstring, comment, message or line of a document, and the line at which it begins."""

    line: int
    text: str


class Finding(NamedTuple):
    """A rejected phrase with its location."""

    path: Path
    line: int
    phrase: str
    instead: str


def _rule(pattern: str, instead: str) -> Rule:
    return Rule(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead)


RULES = (
    _rule(r"(?:is|are|was|were|been|be|being) told", "reports, learns, receives"),
    _rule(r"lets? go of|letting go of|(?:is|are) let go", "release, discard"),
    _rule(r"(?:is|are|was|were|be) in force", "applies, takes effect"),
    _rule(r"(?:tried|made|read|taken|written|asked|built|opened|started) anew", "retried, rebuilt, re-read"),
    _rule(r"gives? up", "abort, stop"),
    _rule(r"(?:is|are|was|were|be|been) let through", "is accepted"),
    _rule(r"dear|dearer|dearest", "expensive"),
    _rule(r"quicker|quickest", "faster, fastest"),
    _rule(r"many an?", "most, many"),
    _rule(r"(?:what|whatever) is (?:due|owed)", "pending"),
    _rule(r"no kept|no integer", "not maintained, not an integer"),
    _rule(r"whoever", "name the actor"),
    _rule(r"looks? again|looking again", "re-reads, checks again"),
    _rule(r"is taken over|are taken over|counts from", "applies"),
    _rule(r"the one that works|who leads", "the leader"),
    _rule(r"meanwhile", "during, while"),
    _rule(r"beside", "next to, together with"),
    _rule(r"the own", "this node's, its own"),
    _rule(r"another (?:(?!one|more)[\w-]+ ){1,3}than", "a different one, one other than"),
    _rule(r"some (?:thousand|hundred|million|seconds|minutes|milliseconds)", "a few thousand"),
    _rule(r"(?:bytes|transactions|calls|inodes|rows) an? (?:second|day|inode|transaction)", "per second"),
    _rule(r"(?:connection|request) of %s", "from %s"),
    _rule(r"without an effect", "without effect"),
    _rule(r"in turns", "alternately, in turn"),
    _rule(r"processor (?:time|seconds)|leads? nowhere", "CPU time; does not exist"),
    _rule(r"variables? of the environment", "environment variable"),
    _rule(r"is not such an?|quiet machine", "name the noun; idle machine"),
    _rule(
        r"(?:return|yield) (?:first|start|host|user|owner|name|path|type|status|value|key) and",
        "return the first and …",
    ),
    _rule(
        r"less than (?:two|three|four|five|six|seven|eight|nine|ten) (?:bits|nodes|files|blocks|edits)", "fewer than"
    ),
    _rule(r"(?:is|are) of another (?:namespace|layout)", "belongs to another namespace; has another layout"),
    _rule(r"refuse[sd]? (?:[a-z]+ )?at once", "immediately, together, in parallel"),
)

_CLAUSE = r"(?:Who|What|Which|Whose|Where) (?:is|are|has|was|does|do|cannot|finds|gets|comes)\b"
_PROSE_STARTS = re.compile(rf"(?:^|[.;:] ){_CLAUSE}(?![^.;]*\?)")
_CLAUSE_AS_SUBJECT = "name the actor instead of a clause as the subject"
_CODE_SPAN = re.compile(r"`[^`]*`")

# a function's docstring is an imperative; a property's or fixture's names its value; a test's is a statement
_NOUN = re.compile(r"(?:The|An?|Every|Everything|All|Each|Whether|What)\b")
_ANY_NOUN = re.compile(rf'\)[^\n]*:\n +"""{_NOUN.pattern}')
_NO_IMPERATIVE = re.compile(r"property|fixture")
_IMPERATIVE = "begin a function's docstring with a verb: Return, Yield"

# pattern that a source has to match to be parsed; the patterns of the rules are in lower case
_ANY_RULE = re.compile("|".join(rule.pattern.pattern for rule in RULES))
_ANY_CLAUSE = re.compile(rf"\b{_CLAUSE}")
# the files that contain the phrases as examples
_PHRASES = (Path("tests/tools/wording.py"), Path("tests/test_wording.py"))
# between two parts of one string constant
_JOINT = re.compile(r"""["']\s*\n\s*[rbf]*["']""")


def findings(path: Path, text: str) -> Iterator[Finding]:
    """Yield rejected phrases in a file; code spans between back-quotes are skipped."""
    if path.suffix == ".py" and _ANY_NOUN.search(text):
        yield from (Finding(path, line, phrase, _IMPERATIVE) for line, phrase in _noun_docstrings(text))
    if path.suffix == ".py" and not _may_match(_JOINT.sub("", text)):
        return
    passages = _python_passages(text) if path.suffix == ".py" else _document_passages(text)
    for passage in passages:
        prose = _CODE_SPAN.sub(lambda span: " " * len(span.group()), passage.text)
        for match, instead in _matches(prose):
            yield Finding(path, passage.line + prose.count("\n", 0, match.start()), match.group().strip(), instead)


def _may_match(text: str) -> bool:
    return _ANY_RULE.search(text.lower()) is not None or _ANY_CLAUSE.search(text) is not None


def _matches(prose: str) -> Iterator[tuple[re.Match[str], str]]:
    for rule in RULES:
        for match in rule.pattern.finditer(prose):
            yield match, rule.instead
    for match in _PROSE_STARTS.finditer(prose):
        yield match, _CLAUSE_AS_SUBJECT


def _noun_docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
            found = _NOUN.match(ast.get_docstring(node) or "")
            if found and not any(_NO_IMPERATIVE.search(ast.unparse(each)) for each in node.decorator_list):
                yield node.body[0].lineno, found.group()


def _python_passages(text: str) -> Iterator[Passage]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Passage(node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(token.start[0], token.string.lstrip("# "))


def _document_passages(text: str) -> Iterator[Passage]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield Passage(number, line)


def main(arguments: list[str]) -> int:
    """Print each finding as `path:line: phrase: instead`; the exit code is 1 if there is any."""
    patterns = ("*.py", "*.md", "Makefile", "config/*", ".github/*.yml")
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split() if not arguments or name.startswith(tuple(arguments))]
    texts = {path: path.read_text("utf-8") for path in paths if path.exists() and path not in _PHRASES}
    found = [finding for path, text in texts.items() for finding in findings(path, text)]
    messages = {path: text for path, text in texts.items() if path.suffix == ".py" and is_product(path)}
    nouns = known_nouns(messages.values())
    for path, text in messages.items():
        found += [Finding(path, line, phrase, "counted()") for line, phrase in fixed_plurals(text, nouns)]
    for finding in found:
        print(f"{finding.path}:{finding.line}: “{finding.phrase}”: {finding.instead}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
