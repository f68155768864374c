"""`checkpointer zkfc format`: the znodes of a nameservice."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("format")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Remove what is there, lock and breadcrumb too, without a question.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; without a terminal nothing is asked anyway.")
@json_option
def command(conf_dir: Path, force: bool, non_interactive: bool, as_json: bool) -> None:
    """Make the znodes of the nameservice below ha.zookeeper.parent-znode, with the ACL of ha.zookeeper.acl.

    It is done once, as by `hdfs zkfc -formatZK`. What is there already goes only by --force or a yes at the terminal:
    the lock and the breadcrumb go with it, so that all controllers of the nameservice have to be stopped before.

    \b
    Example: checkpointer zkfc format --conf /etc/hadoop/conf
    Exit codes: 0 done, 1 the znodes cannot be changed, 2 they are there and stay, or faulty configuration,
    5 dfs.ha.automatic-failover.enabled is false, 6 ZooKeeper does not answer
    """
    from failover.cli.logged_in import confirmed, logged_in_settings
    from failover.errors import FormatDeniedError, FormatError
    from failover.server import check_enabled
    from failover.watching import watching
    from hadoop_common.zookeeper.errors import ZooKeeperError

    settings = logged_in_settings(conf_dir, operator=True)
    check_enabled(settings)
    with watching(settings) as election:
        there = election.parent_exists()
        question = f"{settings.parent} exists in ZooKeeper. Are all controllers stopped, and is it to be removed?"
        if there and not force and (non_interactive or not confirmed(question)):
            raise FormatDeniedError(settings.parent)
        try:
            election.format()
        except ZooKeeperError as fault:
            raise FormatError(fault) from fault
    if as_json:
        echo_json({"znode": settings.parent, "existed": there})
        return
    echo(f"{settings.parent} is ready in ZooKeeper{', what was there is gone' if there else ''}")
