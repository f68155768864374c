"""`checkpointer zkfc status`: shows the current state of the election and of the NameNodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("status")
@conf_option(required=True)
@json_option
def command(conf_dir: Path, as_json: bool) -> None:
    """Show the active NameNode, the owner of the lock in ZooKeeper, and the NameNode that the breadcrumb names.

    The command queries ZooKeeper and the NameNodes, and works with all kinds of controllers. GET /status of our
    controller shows more about that controller.

    \b
    Example: checkpointer zkfc status --conf /etc/hadoop/conf --json
    Exit codes: 0 shown, 2 faulty configuration, 3 not formatted, 6 ZooKeeper does not answer
    """
    from failover.cli.logged_in import load_and_log_in
    from failover.errors import NotFormattedError
    from failover.watching import named, node_state, watching

    settings = load_and_log_in(conf_dir, operator=True)
    with watching(settings) as election:
        if not election.parent_exists():
            raise NotFormattedError(settings.parent)
        crumb = election.breadcrumb()
        lock = named(election.active_data(), settings)
    nodes = [node_state(settings, target).as_dict() for target in settings.targets]
    breadcrumb = named(None if crumb is None else crumb[0], settings)
    if as_json:
        own = settings.own
        echo_json({"nameservice": own.nameservice, "lock": lock, "breadcrumb": breadcrumb, "namenodes": nodes})
        return
    echo(f"{settings.parent}: lock {_text(lock)}, breadcrumb {_text(breadcrumb)}")
    for node in nodes:
        problem = f": {node['problem']}" if node["problem"] else ""
        echo(f"{node['namenode']} ({node['address']}) {node['state'] or 'does not answer'}{problem}")
    for each in (lock, breadcrumb):
        if each is not None and each["problem"]:
            echo(each["problem"])


def _text(named: dict[str, Any] | None) -> str:
    if named is None:
        return "of no NameNode"
    return f"of {named['namenode']} ({named['address']})" if named["namenode"] else "of an unknown NameNode"
