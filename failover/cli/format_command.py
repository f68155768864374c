"""`checkpointer zkfc format`: creates the znodes of a nameservice."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("format")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Remove existing znodes, including lock and breadcrumb, without a prompt.")
@click.option("--non-interactive", is_flag=True, help="Do not prompt; this is the default without a terminal.")
@json_option
def command(conf_dir: Path, force: bool, non_interactive: bool, as_json: bool) -> None:
    """Create the znodes of the nameservice below ha.zookeeper.parent-znode, with the ACL of ha.zookeeper.acl.

    Run this command once, like `hdfs zkfc -formatZK`. It removes existing znodes only with --force or after a
    confirmation at the terminal. The lock and the breadcrumb are then also removed, so first stop all controllers of
    the nameservice.

    \b
    Example: checkpointer zkfc format --conf /etc/hadoop/conf
    Exit codes: 0 done, 1 the znodes cannot be changed, 2 the znodes exist and are kept, or faulty configuration,
    5 dfs.ha.automatic-failover.enabled is false, 6 ZooKeeper does not answer
    """
    from failover.cli.logged_in import confirmed, load_and_log_in
    from failover.errors import FormatDeniedError, FormatError
    from failover.server import check_enabled
    from failover.watching import watching
    from hadoop_common.zookeeper.errors import ZooKeeperError

    settings = load_and_log_in(conf_dir, operator=True)
    check_enabled(settings)
    with watching(settings) as election:
        existed = election.parent_exists()
        question = f"{settings.parent} exists in ZooKeeper. Are all controllers stopped? Remove it?"
        if existed and not force and (non_interactive or not confirmed(question)):
            raise FormatDeniedError(settings.parent)
        try:
            election.format()
        except ZooKeeperError as fault:
            raise FormatError(fault) from fault
    if as_json:
        echo_json({"znode": settings.parent, "existed": existed})
        return
    echo(f"{settings.parent} is ready in ZooKeeper{'; its old content was removed' if existed else ''}")
