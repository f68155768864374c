"""Every command that a document shows exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from checkpointer.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# after other words, such as `sudo -u hdfs`, the program has options or arguments, unlike the word "checkpointer"
_WORDS = r"(?:sudo |runuser |ExecStart=)?(?:(?:-[\w-]+|hdfs|env|\w+=\S+) +)*(?:/\S+/)?"
_IN_TEXT = re.compile(rf"`{_WORDS}(checkpointer [a-z][^`]*)`")
_IN_BLOCK = re.compile(rf"^ *(?:[^#\n]* && )?{_WORDS}(checkpointer [a-z][^#\n]*)", re.MULTILINE)


def shown_commands(text: str) -> Iterator[list[str]]:
    for number, part in enumerate(text.replace("\\\n", "").split("```")):
        for shown in (_IN_BLOCK if number % 2 else _IN_TEXT).findall(part):
            # brackets mark optional words
            yield shlex.split(re.sub(r"[\[\]…]", " ", shown))[1:]


def missing_words(words: list[str]) -> list[str]:
    """Return the words of a command that are neither commands nor options."""
    commands: list[click.Command] = [cli]
    while words and isinstance(commands[0], click.Group):
        context = click.Context(commands[0])
        names = words[0].split("|")
        found = [commands[0].get_command(context, name) for name in names]
        if None in found:
            # a group without a command may be followed by options
            return [] if words[0].startswith("-") else words[:1]
        commands, words = [each for each in found if each is not None], words[1:]
    options = set(chain.from_iterable(each.opts + each.secondary_opts for one in commands for each in one.params))
    used = (word.partition("=")[0] for word in words if word.startswith("--") and word != "--")
    return [word for word in used if word not in options | {"--help", "--version"}]


def test_shown_commands_exist() -> None:
    shown = [(page.name, words) for page in PAGES for words in shown_commands(page.read_text())]
    assert len(shown) > 200
    assert [(page, words, missing) for page, words in shown if (missing := missing_words(words))] == []


def test_a_command_is_found_after_other_words() -> None:
    before = (
        "",
        "  /opt/x/bin/",
        "sudo -u hdfs ",
        "sudo ",
        "cd / && runuser -u hdfs -- env A=b /opt/bin/",
        "ExecStart=/opt/",
    )
    shown = "".join(f"{words}checkpointer status --conf a  # text\n" for words in before)
    assert list(shown_commands(f"`sudo checkpointer a`\n```\n{shown}The checkpointer reads\n```\n")) == [
        ["a"],
        *[["status", "--conf", "a"]] * len(before),
    ]


def test_a_missing_command_or_option_is_found() -> None:
    assert missing_words(["image", "verify|dump", "F", "--repair", "--repare=x"]) == ["--repare"]
    assert missing_words(["zkfc", "stat"]) == ["stat"]
