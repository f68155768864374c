"""`checkpointer zkfc check`: a dry run of fencing."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.errors import EXIT_FAILURE


@click.command("check")
@conf_option(required=True)
@json_option
def command(conf_dir: Path, as_json: bool) -> None:
    """Try whether each way to fence each other NameNode would work now, and fence nothing.

    A NameNode is asked for its state, which is how it would be told to become a standby. For shell(...) bash reads
    the command and looks for its program; what it does is not tried. For sshfence a session is opened, and fuser
    looked for. A NameNode with no way that works is a failure.

    \b
    Example: checkpointer zkfc check --conf /etc/hadoop/conf
    Exit codes: 0 each could be fenced, 1 one could not, 2 faulty configuration, 4 dfs.ha.fencing.methods is not set,
    5 dfs.ha.automatic-failover.enabled is false
    """
    from failover.cli.logged_in import logged_in_settings
    from failover.errors import FencingNotConfiguredError
    from failover.fencing.fencer import Outcome
    from failover.server import check_enabled
    from failover.watching import node_state

    settings = logged_in_settings(conf_dir, operator=True)
    check_enabled(settings)
    if not settings.fencing_configured:
        raise FencingNotConfiguredError
    found: dict[str, list[Outcome]] = {}
    for target in settings.others:
        state = node_state(settings, target)
        asked = Outcome("rpc", bool(state.state), f"it says that it is {state.state}" if state.state else state.problem)
        found[str(target)] = [asked, *settings.fencer(target).dry_run()]
    # the way by RPC works while it is not needed; a NameNode that hangs has to be fenced by another one
    unsafe = [name for name, outcomes in found.items() if not any(each.worked for each in outcomes[1:])]
    if as_json:
        ways = {
            name: [{"method": e.method, "works": e.worked, "reason": e.reason} for e in outcomes]
            for name, outcomes in found.items()
        }
        echo_json({"namenodes": ways, "ok": not unsafe})
    else:
        for name, outcomes in found.items():
            for each in outcomes:
                echo(f"{name}: {each.method}: {'would work' if each.worked else 'would fail'}: {each.reason}")
        for name in unsafe:
            echo(f"{name} could not be fenced if it did not answer: no other NameNode would become active", err=True)
    sys.exit(EXIT_FAILURE if unsafe else 0)
