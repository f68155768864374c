"""`checkpointer check`: named checks with the exit codes and output of a Nagios plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from checkpointer.checks.registry import CHECKS, CheckOutcome, FactGroup, perform, state_of
from checkpointer.checks.thresholds import MEASURED, Thresholds, parse_thresholds
from checkpointer.checks.verdict import State
from checkpointer.cli.daemon_client import role_option
from hadoop_common.cli.output import (
    FiniteRange,
    as_failure,
    conf_option,
    echo,
    echo_json,
    json_option,
    load_configuration,
    next_line,
)
from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.quantities import counted
from site_config.checkpoint_config import Role
from site_config.report import likely_role

if TYPE_CHECKING:
    from hadoop_rpc.kerberos_login import KerberosLogin

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = [check.name for check in CHECKS]
_FAULTY_HINT = "Correct the named settings. A running daemon is not affected; `checkpointer status` shows its state."


class _PluginUsageError(click.UsageError):
    """Usage error with the exit code for UNKNOWN, because monitoring systems interpret click's own code as CRITICAL."""

    exit_code = int(State.UNKNOWN)


class _PluginCommand(click.Command):
    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **extra)
        except click.UsageError as error:
            raise _PluginUsageError(error.format_message(), error.ctx) from error
        except HdfsError as error:
            raise _PluginUsageError(f"{error.message}; {error.hint}") from error


def _thresholds(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    try:
        return parse_thresholds(values)
    except ValueError as fault:
        raise click.BadParameter(str(fault), context, parameter) from fault


def _threshold_option(name: str) -> Callable[[F], F]:
    return click.option(
        f"--{name}",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_thresholds,
        help=f"{name.capitalize()} threshold of {', '.join(MEASURED)}: age=3h, space=100g; repeatable.",
    )


@click.command("check", cls=_PluginCommand)
@conf_option(required=True)
@role_option("Role of the daemon (default: standby in HA or with shared edits, else secondary).")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(_NAMES),
    metavar="NAME",
    help=f"Run only this check; repeatable. One of {', '.join(_NAMES)}.",
)
@_threshold_option("warning")
@_threshold_option("critical")
@click.option("--deep", is_flag=True, help="In the `storage` check, also check every record of the newest image.")
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds for each query; a server or disk that does not respond in time is reported as UNKNOWN or "
    "unreachable.",
)
@json_option
def command(
    conf_dir: Path,
    role: Role | None,
    only: tuple[str, ...],
    warning: dict[str, float],
    critical: dict[str, float],
    deep: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Check NameNodes, storage and daemon, with the output and exit codes of a Nagios plugin.

    The first line is a summary with the measured values. Each further line is the result of one check, followed by
    details and the next step if the check is not OK.

    Exit code 0: OK. 1: WARNING. 2: CRITICAL. 3: UNKNOWN, a usage error or a faulty configuration.

    \b
    Example: checkpointer check --conf /etc/hadoop/conf --critical age=3h
             checkpointer check --conf /etc/hadoop/conf --only space --only storage --deep
    """
    from checkpointer.checks.gather import Cluster, gather

    chosen = [check for check in CHECKS if not only or check.name in only]
    thresholds = Thresholds(warning, critical)
    if disorder := thresholds.disorder():
        raise _PluginUsageError(disorder)
    try:
        configuration = load_configuration(conf_dir)
        parts = frozenset[Any]().union(*(check.needs for check in chosen))
        cluster = Cluster.of(configuration, role or likely_role(configuration), parts)
        if cluster.config.kerberos is not None:
            _log_in(cluster.config.kerberos.login, tried=FactGroup.LOGIN in parts)
        facts = gather(cluster, parts, limit=timeout, deep=deep)
        outcomes = perform(chosen, facts, thresholds)
    except (HdfsError, OSError) as fault:
        if (error := as_hdfs_error(fault)) is None:
            raise
        _unknown(error, as_json=as_json)
        sys.exit(State.UNKNOWN)
    if as_json:
        echo_json(_as_dict(outcomes, cluster.config.role))
    else:
        _show(outcomes)
    sys.exit(state_of(outcomes))


def _log_in(login: KerberosLogin, *, tried: bool) -> None:
    """Log in. With `tried`, ignore a faulty setup, because the kerberos check reports it."""
    from hadoop_rpc.errors import KerberosSetupError
    from hadoop_rpc.kerberos import log_in
    from site_config.kerberos import for_operator

    try:
        log_in(for_operator(login))
    except KerberosSetupError:
        if not tried:
            raise


def _unknown(error: HdfsError, *, as_json: bool) -> None:
    hint = _FAULTY_HINT if isinstance(error, ConfigurationError) else error.hint
    if as_json:
        found = {"state": State.UNKNOWN.name, "exitCode": int(State.UNKNOWN), "checks": []}
        code = {"code": int(State.UNKNOWN)}
        echo_json({**found, "message": error.message, **as_failure(error), "hint": hint, "next": hint, **code})
        return
    first, *others = error.message.splitlines()
    for line in (f"CHECKPOINTER UNKNOWN - {first.replace('|', '/')}", *others, next_line(hint)):
        echo(line)


def _as_dict(outcomes: list[CheckOutcome], role: Role) -> dict[str, Any]:
    state = state_of(outcomes)
    return {
        "state": state.name,
        "exitCode": int(state),
        "role": role.value,
        "checks": [
            {
                "name": each.name,
                "state": each.verdict.state.name,
                "summary": each.verdict.summary,
                "details": each.verdict.details,
                "hint": each.hint,
                "metrics": [
                    {"name": m.name, "value": m.value, "unit": m.unit, "warning": m.warning, "critical": m.critical}
                    for m in each.verdict.metrics
                ],
            }
            for each in outcomes
        ],
    }


def _show(outcomes: list[CheckOutcome]) -> None:
    """Print the plugin's output. Its only vertical bar separates the text of the first line from the measured
    values.
    """
    state = state_of(outcomes)
    bad = [f"{each.name}: {each.verdict.summary}" for each in outcomes if each.verdict.state is not State.OK]
    summary = "; ".join(bad) or f"{counted(len(outcomes), 'check')}: {', '.join(each.name for each in outcomes)}"
    metrics = " ".join(str(metric) for each in outcomes for metric in each.verdict.metrics)
    line = f"CHECKPOINTER {state.name} - {_plain(summary)}"
    echo(f"{line} | {metrics}" if metrics else line)
    for each in outcomes:
        echo(_plain(f"[{each.verdict.state.name}] {each.name}: {each.verdict.summary}"))
        if each.verdict.state is not State.OK:
            for detail in each.verdict.details:
                echo(_plain(f"    {detail}"))
            echo(_plain(next_line(each.hint)))


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
