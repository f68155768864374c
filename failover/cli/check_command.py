"""`checkpointer zkfc check`: test the fencing methods in a dry run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.exit_codes import ExitCode


@click.command("check")
@conf_option(required=True)
@json_option
def command(conf_dir: Path, as_json: bool) -> None:
    """Test every fencing method for each other NameNode, without fencing.

    The command asks each NameNode for its state over RPC, which a request to become a standby also uses. For
    shell(...), bash parses the command and searches for its program, but does not run it. For sshfence, the command
    opens a session and searches for fuser. The check fails if a NameNode has no working method.

    \b
    Example: checkpointer zkfc check --conf /etc/hadoop/conf
    Exit codes: 0 all could be fenced, 1 a NameNode could not, 2 faulty configuration, 4 dfs.ha.fencing.methods is not
    set, 5 dfs.ha.automatic-failover.enabled is false
    """
    from failover.cli.logged_in import load_and_log_in
    from failover.errors import FencingNotConfiguredError
    from failover.fencing.fencer import FencingOutcome
    from failover.server import check_enabled
    from failover.watching import node_state

    settings = load_and_log_in(conf_dir, operator=True)
    check_enabled(settings)
    if not settings.fencing_configured:
        raise FencingNotConfiguredError
    found: dict[str, list[FencingOutcome]] = {}
    for target in settings.others:
        state = node_state(settings, target)
        asked = FencingOutcome(
            "rpc", bool(state.state), f"it reports that it is {state.state}" if state.state else state.problem
        )
        found[str(target)] = [asked, *settings.fencer(target).dry_run()]
    # A NameNode that hangs does not answer RPC calls, so at least one of the configured methods must work.
    unsafe = [name for name, outcomes in found.items() if not any(each.worked for each in outcomes[1:])]
    if as_json:
        methods = {
            name: [{"method": e.method, "works": e.worked, "reason": e.reason} for e in outcomes]
            for name, outcomes in found.items()
        }
        echo_json({"namenodes": methods, "ok": not unsafe})
    else:
        for name, outcomes in found.items():
            for each in outcomes:
                echo(f"{name}: {each.method}: {'would work' if each.worked else 'would fail'}: {each.reason}")
        for name in unsafe:
            echo(
                f"if {name} did not answer, it could not be fenced, and no other NameNode would become active", err=True
            )
    sys.exit(ExitCode.FAILURE if unsafe else 0)
