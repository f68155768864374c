"""`checkpointer zkfc clear-breadcrumb`: the way out where a NameNode is gone and cannot be fenced."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("clear-breadcrumb")
@conf_option(required=True)
@click.option("--yes", is_flag=True, help="It is gone or stopped: remove its name without a question.")
@json_option
def command(conf_dir: Path, yes: bool, as_json: bool) -> None:
    """Remove the breadcrumb: the next NameNode becomes active without fencing the one that it names.

    For a NameNode that is gone for good, or has another address now, and so can neither be asked nor fenced. Make
    sure that it does not run. While somebody has the lock, or the NameNode answers that it is active, it is refused.

    \b
    Example: checkpointer zkfc clear-breadcrumb --conf /etc/hadoop/conf --yes
    Exit codes: 0 removed, or there was none; 1 refused, 2 faulty configuration, 3 not formatted,
    6 ZooKeeper does not answer
    """
    from failover.breadcrumb import BreadcrumbError, last_active
    from failover.cli.logged_in import confirmed, logged_in_settings
    from failover.errors import BreadcrumbKeptError, NotFormattedError
    from failover.watching import named, node_state, watching

    settings = logged_in_settings(conf_dir, operator=True)
    with watching(settings) as election:
        if not election.parent_exists():
            raise NotFormattedError(settings.parent)
        found = election.breadcrumb()
        told = named(None if found is None else found[0], settings)
        if found is not None:
            holder = named(election.active_data(), settings)
            if holder is not None:
                raise BreadcrumbKeptError(f"{holder['namenode']} has the lock, and needs no help")
            try:
                state = node_state(settings, last_active(found[0], settings).target).state
            except BreadcrumbError:
                state = ""
            assert told is not None
            name = f"{told['namenode']} ({told['address']})"
            if state == "active":
                raise BreadcrumbKeptError(f"{name} answers that it is active")
            if not yes and not confirmed(f"The breadcrumb names {name}. Are you sure that it does not run?"):
                raise BreadcrumbKeptError(f"nobody said that {name} does not run (--yes)")
            election.clear_breadcrumb(found[1])
    if as_json:
        echo_json({"removed": told})
        return
    echo("there is no breadcrumb" if told is None else f"the breadcrumb, which named {told['namenode']}, is removed")
