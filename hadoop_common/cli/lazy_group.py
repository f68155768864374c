"""A click group that imports a command's module only to run it, which keeps `--help` and usage errors fast."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class LazyGroup(click.Group):
    """Group of commands; each command is the `command` object of a separate module.

    Args:
        modules: pattern of the module names, such as "checkpointer.cli.{}_command"; `{}` is replaced by the command,
            with `_` for `-`.
        summaries: one line of help for each command, in the order of the list.
        elsewhere: modules of commands outside the pattern, by command.
        plugins: entry-point group of further commands, "" if there is none. The `PLUGINS_summaries` group provides
            their one-line summaries, so that a list of the commands does not load them.
    """

    def __init__(
        self,
        *args: Any,
        modules: str,
        summaries: dict[str, str],
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        plugins: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._modules = modules
        self._elsewhere = elsewhere
        self._summaries = summaries
        self._plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._summaries, *self._further()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._summaries:
            module = self._elsewhere.get(cmd_name) or self._modules.format(cmd_name.replace("-", "_"))
            command = importlib.import_module(module).command
        elif (further := self._further().get(cmd_name)) is not None:
            command = further.load()
        else:
            return None
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx))
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        further = self._further()
        plugin_summaries: dict[str, str] = {}
        for summaries in _entry_points(f"{self._plugins}_summaries") if further else ():
            plugin_summaries.update(summaries.load())
        lines = {**self._summaries, **{name: plugin_summaries.get(name, "") for name in further}}
        with formatter.section("Commands"):
            formatter.write_dl(list(lines.items()))

    def _further(self) -> dict[str, EntryPoint]:
        """Return the commands of installed packages, by name."""
        found = _entry_points(self._plugins) if self._plugins else ()
        return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def _entry_points(group: str) -> Iterable[EntryPoint]:
    # this import is slow, and most commands are not plugins
    from importlib.metadata import entry_points

    return entry_points(group=group)
