"""A click group whose commands are modules, imported when they run, so that `--help` and usage errors are quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Command `x` is `command` in the module `MODULES` names with `{}` replaced by `x`, `-` by `_`.

    Args:
        modules: pattern of the module names, such as "checkpointer.cli.{}_command".
        summaries: one line of help for each command, in the order of the list.
    """

    def __init__(self, *args: Any, modules: str, summaries: dict[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = modules
        self._summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        command = importlib.import_module(self._modules.format(cmd_name.replace("-", "_"))).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
