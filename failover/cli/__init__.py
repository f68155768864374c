"""`checkpointer zkfc`: a failover controller next to a NameNode, and commands for its operators."""

from __future__ import annotations

import os

import click

from hadoop_common.cli.lazy_group import LazyGroup

_HADOOP = {"-formatZK": "format", "-force": "--force", "-nonInteractive": "--non-interactive"}
_CONF = "--conf"


class _HadoopArguments(LazyGroup):
    """A group that also accepts the arguments of Hadoop's controller, with the configuration in HADOOP_CONF_DIR."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["-formatZK"]:
            args = [_HADOOP.get(word, word) for word in args]
            folder = os.environ.get("HADOOP_CONF_DIR", "")
            if folder and not any(word.split("=")[0] == _CONF for word in args):
                args += [_CONF, folder]
        return super().parse_args(ctx, args)


@click.group(
    "zkfc",
    cls=_HadoopArguments,
    modules="failover.cli.{}_command",
    summaries={
        "run": "Run as a daemon next to a NameNode, in the same election as Hadoop's controllers.",
        "format": "Create the znodes of the nameservice.",
        "check": "Test every fencing method without fencing.",
        "status": "Show the active NameNode, the lock and the breadcrumb.",
        "failover": "Make another NameNode active; the current active NameNode cedes.",
        "clear-breadcrumb": "Remove the breadcrumb of a NameNode that no longer exists.",
    },
)
def command() -> None:
    """Elect the active NameNode with ZooKeeper, together with or instead of Hadoop's controllers (hdfs zkfc).

    `checkpointer zkfc -formatZK [-force] [-nonInteractive]` works as in `hdfs zkfc`.
    """
