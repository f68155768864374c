"""`checkpointer zkfc failover`: requests a graceful failover, as `hdfs haadmin -failover` does."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option


@click.command("failover")
@click.argument("namenode")
@conf_option(required=True)
@json_option
def command(conf_dir: Path, namenode: str, as_json: bool) -> None:
    """Ask the failover controller of NAMENODE, an id of dfs.ha.namenodes, to make this NameNode active.

    The current active NameNode cedes first: its controller makes it a standby, so fencing is not needed. Both
    controllers may be Hadoop's. If NAMENODE is already active, its state does not change.

    \b
    Example: checkpointer zkfc failover nn2 --conf /etc/hadoop/conf
    Exit codes: 0 it is active, 2 faulty configuration or unknown NameNode, 7 it did not become active, or its
    controller does not answer
    """
    from failover.cli.logged_in import load_and_log_in
    from hadoop_rpc.client import NO_RETRY
    from hadoop_rpc.zkfc_protocol import ZKFCClient

    settings = load_and_log_in(conf_dir, operator=True)
    target = settings.target_of(namenode)
    if target is None:
        known = ", ".join(each.namenode for each in settings.targets)
        raise click.UsageError(f"{namenode} is not a NameNode of {settings.own.nameservice}, which has {known}")
    with ZKFCClient(
        target.host,
        target.zkfc_port,
        user=settings.user,
        # The timeout includes the other NameNode's transition, because our controllers and Hadoop 2.7's wait for this
        # transition.
        timeout=2 * settings.transitions.graceful_timeout + settings.transitions.new_active_timeout,
        connect_timeout=settings.cli_timeout,
        retry=NO_RETRY,
    ) as client:
        client.graceful_failover()
    if as_json:
        echo_json({"nameservice": target.nameservice, "active": namenode})
        return
    echo(f"{target} is active")
