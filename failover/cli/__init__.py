"""`checkpointer zkfc`: a failover controller beside a NameNode."""

from __future__ import annotations

import os

import click

from hadoop_common.cli.lazy_group import LazyGroup

_HADOOP = {"-formatZK": "format", "-force": "--force", "-nonInteractive": "--non-interactive"}
_CONF = "--conf"


class _Spellings(LazyGroup):
    """Takes what scripts say to Hadoop's controller, which finds its configuration by the environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["-formatZK"]:
            args = [_HADOOP.get(word, word) for word in args]
            folder = os.environ.get("HADOOP_CONF_DIR", "")
            if folder and not any(word.split("=")[0] == _CONF for word in args):
                args += [_CONF, folder]
        return super().parse_args(ctx, args)


@click.group(
    "zkfc",
    cls=_Spellings,
    modules="failover.cli.{}_command",
    summaries={
        "run": "Run as a daemon beside a NameNode, in one election with Hadoop's own.",
        "format": "Make the znodes of the nameservice.",
        "check": "Would each way to fence work now? Nothing is fenced.",
        "status": "Who is active, who has the lock, whom the breadcrumb names.",
        "failover": "Make another NameNode active, the one that is gives way.",
        "clear-breadcrumb": "Remove the name of a NameNode that is gone for good.",
    },
)
def command() -> None:
    """Decide by ZooKeeper which NameNode is active, beside or in place of Hadoop's controllers (hdfs zkfc).

    `checkpointer zkfc -formatZK [-force] [-nonInteractive]` is taken as `hdfs zkfc` takes it.
    """
