"""The command group `checkpointer archive`."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup

_COMMANDS = {
    "add": "Archive the edits of a storage directory, and an image if one is needed.",
    "list": "List base images, edits, branches and the moments that can be restored.",
    "show": "Show what is needed to restore a moment.",
    "check": "Verify every object; --deep also replays the edits between images.",
    "prune": "Remove objects that retention rules do not keep.",
    "split": "Move the objects of one of several clusters to a new archive.",
    "restore": "Restore a moment to a storage directory from which a NameNode starts.",
    "drill": "Restore a random moment to a scratch directory and load it.",
    "log": "List every transaction on a path, through its renames; audit logs add the user.",
    "diff": "Show what changed between two moments.",
}


@click.group(
    "archive",
    cls=LazyGroup,
    modules="archive.cli.{}_command",
    summaries=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Base images and every edit after them, from which any transaction can be restored.

    An archive is a directory or, with the `archive` extra, any URL that fsspec supports (s3://bucket/hdfs).

    \b
    Example:
      checkpointer archive add /data/nn --archive /backup/hdfs
      checkpointer archive restore --archive /backup/hdfs --before-delete /data/warehouse --out /restored
    """
