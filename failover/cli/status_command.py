"""`checkpointer zkfc status`: the election and the NameNodes as they are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("status")
@conf_option(required=True)
@json_option
def command(conf_dir: Path, as_json: bool) -> None:
    """Show which NameNode is active, which one has the lock in ZooKeeper, and which one the breadcrumb names.

    It asks ZooKeeper and the NameNodes themselves, whatever controllers run beside them; GET /status of a controller
    tells more of that one.

    \b
    Example: checkpointer zkfc status --conf /etc/hadoop/conf --json
    Exit codes: 0 shown, 2 faulty configuration, 3 not formatted, 6 ZooKeeper does not answer
    """
    from failover.cli.logged_in import logged_in_settings
    from failover.errors import NotFormattedError
    from failover.watching import named, node_state, watching

    settings = logged_in_settings(conf_dir, operator=True)
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
        return "of nobody"
    return f"of {named['namenode']} ({named['address']})" if named["namenode"] else "of somebody unknown"
