"""`checkpointer zkfc clear-breadcrumb`: enables a failover after the loss of a NameNode that cannot be fenced."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("clear-breadcrumb")
@conf_option(required=True)
@click.option(
    "--yes", is_flag=True, help="Confirm that the NameNode is not running, and remove the breadcrumb without a prompt."
)
@json_option
def command(conf_dir: Path, yes: bool, as_json: bool) -> None:
    """Remove the breadcrumb, so that a NameNode can become active without fencing the NameNode in the breadcrumb.

    Use this command only for a NameNode that no longer exists or has a new address, so that it can neither be queried
    nor fenced. Make sure that the NameNode is not running. The command refuses to work while a controller has the lock,
    or while the NameNode reports that it is active.

    \b
    Example: checkpointer zkfc clear-breadcrumb --conf /etc/hadoop/conf --yes
    Exit codes: 0 removed, or there was no breadcrumb; 1 refused, 2 faulty configuration, 3 not formatted,
    6 ZooKeeper does not answer
    """
    from failover.breadcrumb import BreadcrumbError, last_active
    from failover.cli.logged_in import confirmed, load_and_log_in
    from failover.errors import BreadcrumbKeptError, NotFormattedError
    from failover.watching import named, node_state, watching

    settings = load_and_log_in(conf_dir, operator=True)
    with watching(settings) as election:
        if not election.parent_exists():
            raise NotFormattedError(settings.parent)
        found = election.breadcrumb()
        last = named(None if found is None else found[0], settings)
        if found is not None:
            holder = named(election.active_data(), settings)
            if holder is not None:
                raise BreadcrumbKeptError(f"{holder['namenode']} has the lock, so a failover is possible")
            try:
                state = node_state(settings, last_active(found[0], settings).target).state
            except BreadcrumbError:
                state = ""
            assert last is not None
            name = f"{last['namenode']} ({last['address']})"
            if state == "active":
                raise BreadcrumbKeptError(f"{name} reports that it is active")
            if not yes and not confirmed(
                f"The breadcrumb names {name}. Are you sure that this NameNode is not running?"
            ):
                raise BreadcrumbKeptError(f"it was not confirmed that {name} is not running (--yes)")
            election.clear_breadcrumb(found[1])
    if as_json:
        echo_json({"removed": last})
        return
    echo("there is no breadcrumb" if last is None else f"the breadcrumb of {last['namenode']} was removed")
