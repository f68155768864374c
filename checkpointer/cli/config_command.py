"""`checkpointer config`: the checkpointer's interpretation of Hadoop's configuration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from checkpointer.cli.daemon_client import role_option
from hadoop_common.cli.output import (
    as_failure,
    coloured,
    conf_option,
    echo,
    echo_json,
    json_option,
    load_configuration,
    terminal_width,
)
from hadoop_common.configuration import ConfigurationError
from hadoop_common.configuration_errors import NO_FILE
from hadoop_common.printable import escaped
from hadoop_common.text_layout import wrapped
from site_config.checkpoint_config import Role
from site_config.report import ConfigReport, KeySetting, likely_role, report

_COLOURS = {"supported": "green", "ignored": "white", "refused": "red", "unknown": "yellow"}
_STATUS = 11


@click.command("config")
@conf_option(required=True)
@role_option("The role to check for (default: standby with HA or shared edits, else secondary).")
@click.option("--set", "only_set", is_flag=True, help="List only the keys that the files set.")
@json_option
def command(conf_dir: Path, role: Role | None, only_set: bool, as_json: bool) -> None:
    """List all keys of Hadoop's checkpointing with status, value and source.

    A key is supported, ignored (with the reason) or refused. Unknown keys in the files are listed if they resemble one
    of these keys. All faults are listed together. Exit code 0: the role can start with this configuration; 2: the role
    cannot start.

    \b
    Example: checkpointer config --conf /etc/hadoop/conf --role secondary
    """
    try:
        configuration = load_configuration(conf_dir, warns=False)
    except ConfigurationError as error:
        if as_json:
            faults = [each.as_dict() for each in error.faults]
            echo_json(
                {"role": role and role.value, "valid": False, "keys": [], "faults": faults, "warnings": []}
                | as_failure(error)
            )
        raise
    found = report(configuration, role or likely_role(configuration))
    # raised below, so that the command prints the faults like every other command
    fault = ConfigurationError(found.faults) if found.faults else None
    if as_json:
        echo_json(found.as_dict() | ({} if fault is None else as_failure(fault)))
    else:
        _show(found, only_set=only_set)
    for warning in found.warnings:
        echo(f"warning: {warning}", err=True)
    if fault is not None:
        raise fault


def _show(found: ConfigReport, *, only_set: bool) -> None:
    echo(f"role {found.role.value}")
    width = terminal_width()
    for setting in found.settings:
        if only_set and setting.source == NO_FILE:
            continue
        first, *others = wrapped(f"{setting.status:<{_STATUS}}", _sentence(setting), width)
        click.echo(coloured(first[:_STATUS], _COLOURS[setting.status]) + escaped(first[_STATUS:]))
        for line in others:
            echo(line)
    counts = Counter(setting.status for setting in found.settings)
    echo(", ".join(f"{counts[status]} {status}" for status in _COLOURS))
    echo(_verdict(found))


def _verdict(found: ConfigReport) -> str:
    if not found.faults:
        return f"valid: the {found.role.value} role can start with this configuration"
    count = f"{len(found.faults)} fault{'s' if len(found.faults) > 1 else ''}"
    return f"not valid: the {found.role.value} role cannot start with this configuration, {count}"


def _sentence(setting: KeySetting) -> str:
    value = f"{setting.name} = {setting.value}" if setting.value else f"{setting.name} is unset"
    note = _note(setting)
    return f"{value}  {_origin(setting)}" + (f"  {note}" if note else "")


def _origin(setting: KeySetting) -> str:
    name = setting.source if setting.source == NO_FILE else f"({Path(setting.source).name})"
    return f"{name} as {setting.alias}" if setting.alias else name


def _note(setting: KeySetting) -> str:
    if setting.overridden_by:
        return f"overridden: {setting.overridden_by} is more specific"
    return setting.reason
