"""Man pages and shell completions of `checkpointer` from its commands: `python -m install.man_pages FOLDER`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from checkpointer.cli import cli
from hadoop_common.product import product_version

_PROGRAM = "checkpointer"
_VERBATIM = "\b"
_COMPLETIONS: dict[str, type[ShellComplete]] = {
    f"bash-completion/completions/{_PROGRAM}": BashComplete,
    f"zsh/vendor-completions/_{_PROGRAM}": ZshComplete,
    f"fish/vendor_completions.d/{_PROGRAM}.fish": FishComplete,
}


def write_share(folder: Path) -> None:
    """Write all files with their paths below a `share` directory.

    Raises:
        OSError: a file cannot be written.
    """
    for name, text in {**{f"man/man1/{page}": text for page, text in man_pages().items()}, **completions()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def completions() -> dict[str, str]:
    """Return the completion scripts by path below `share`; each script queries the program for completions."""
    variable = f"_{_PROGRAM}_COMPLETE".upper()
    # `source()` would check this host's bash, which may differ from the target's bash
    return {
        path: shell.source_template % shell(cli, {}, _PROGRAM, variable).source_vars()
        for path, shell in _COMPLETIONS.items()
    }


def man_pages() -> dict[str, str]:
    """Return the pages by file name: one for the program, and one for each command."""
    return dict(_pages(cli, click.Context(cli, info_name=_PROGRAM)))


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    name = context.command_path.replace(" ", "-")
    yield f"{name}.1", _page(command, context, name)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _pages(found, click.Context(found, info_name=each, parent=context))


def _page(command: click.Command, context: click.Context, name: str) -> str:
    summary, *paragraphs = _paragraphs(command.help or "")
    lines = [
        f'.TH "{name.upper()}" "1" "" "hdfs-checkpointer {product_version()}" "HDFS checkpointer"',
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_plain(context.command_path)}",
        _plain(" ".join(command.collect_usage_pieces(context))),
    ]
    if paragraphs:
        lines += [".SH DESCRIPTION", *_described(paragraphs)]
    options = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    lines += _listed("OPTIONS", options)
    if isinstance(command, click.Group):
        lines += _listed(
            "COMMANDS", [(each, _summary(command, context, each)) for each in command.list_commands(context)]
        )
    if command.epilog:
        lines += [".SH NOTES", *_described(_paragraphs(command.epilog))]
    if context.parent is not None:
        lines += [".SH SEE ALSO", f".BR {_plain(context.parent.command_path.replace(' ', '-'))} (1)"]
    return "\n".join(lines) + "\n"


def _summary(group: click.Group, context: click.Context, name: str) -> str:
    command = group.get_command(context, name)
    return "" if command is None else command.get_short_help_str(limit=200)


def _paragraphs(text: str) -> list[str]:
    """Split a help text into paragraphs, as `--help` does; a paragraph that begins with a backspace keeps its lines."""
    return [part for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if part]


def _described(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        first, _, rest = paragraph.partition("\n")
        if first.strip() == _VERBATIM:
            yield from (".PP", ".nf", _plain(rest), ".fi")
        else:
            yield from (".PP", _plain(" ".join(paragraph.split())))


def _listed(title: str, records: list[tuple[str, Any]]) -> list[str]:
    lines = [f".SH {title}"] if records else []
    for name, text in records:
        lines += [".TP", f".B {_plain(name)}", _plain(text)]
    return lines


def _plain(text: str) -> str:
    """Escape text so that troff prints it unchanged."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    write_share(Path(sys.argv[1]))
