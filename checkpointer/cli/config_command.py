"""`checkpointer config`: what the checkpointer makes of Hadoop's configuration."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkpointer.cli.output import conf_option, echo, echo_json, json_option, load_configuration
from checkpointer.config.checkpoint_config import Role
from checkpointer.config.report import ConfigReport, KeySetting, likely_role, report
from hadoop_common.configuration import ConfigurationError

# in a pipe a key is one line
_PIPE_WIDTH = 400
_STYLES = {"supported": "green", "ignored": "dim", "refused": "bold red", "unknown": "yellow"}
_DEFAULT = "(default)"


@click.command("config")
@conf_option(required=True)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="The role to check for (default: standby with HA or shared edits, else secondary).",
)
@click.option("--set", "only_set", is_flag=True, help="List only the keys that the files set.")
@json_option
def command(conf_dir: Path, role: str | None, only_set: bool, as_json: bool) -> None:
    """List every key of Hadoop's checkpointing: supported, ignored (and why) or refused, its value, and its source.

    Keys of the files that look like one of these but are not are shown as unknown. All faults are listed at once.
    Exit code 0: the role can start with this configuration; 2: it cannot.

    \b
    Example: checkpointer config --conf /etc/hadoop/conf --role secondary
    """
    try:
        configuration = load_configuration(conf_dir)
    except ConfigurationError as error:
        if as_json:
            faults = [{"key": f.key, "value": f.value, "source": f.source, "problem": f.problem} for f in error.faults]
            echo_json({"role": role, "valid": False, "keys": [], "faults": faults, "warnings": []})
        raise
    found = report(configuration, likely_role(configuration) if role is None else Role(role))
    if as_json:
        echo_json(found.as_dict())
    else:
        _show(found, only_set=only_set)
    for warning in found.warnings:
        echo(f"warning: {warning}", err=True)
    if found.faults:
        # the list is shown by the one place that shows errors, so that it looks the same in every command
        raise ConfigurationError(found.faults)


def _show(found: ConfigReport, *, only_set: bool) -> None:
    table = Table(title=f"role {found.role.value}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("Key", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    for column in ("Value", "From", "Note"):
        table.add_column(column, overflow="fold")
    for setting in found.settings:
        if only_set and setting.source == _DEFAULT:
            continue
        table.add_row(
            setting.name,
            Text(setting.status, style=_STYLES[setting.status]),
            Text(setting.value or "unset", style="" if setting.value else "dim"),
            _origin(setting),
            Text(_note(setting)),
        )
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as shown:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in shown.get().splitlines()))
    counts = Counter(setting.status for setting in found.settings)
    echo(", ".join(f"{counts[status]} {status}" for status in _STYLES))


def _origin(setting: KeySetting) -> Text:
    name = setting.source if setting.source == _DEFAULT else Path(setting.source).name
    return Text(f"{name} as {setting.alias}" if setting.alias else name, style="dim" if name == _DEFAULT else "")


def _note(setting: KeySetting) -> str:
    if setting.overridden_by:
        return f"not in force: {setting.overridden_by} is more specific"
    return setting.reason
