"""The --audit option, which selects audit logs of a NameNode by patterns."""

from __future__ import annotations

from glob import glob
from pathlib import Path

import click


def _matching(ctx: click.Context, param: click.Parameter, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files that the patterns match."""
    found = tuple(Path(name) for pattern in patterns for name in sorted(glob(pattern)))  # noqa: PTH207 - of the user
    if patterns and not found:
        raise click.UsageError(f"no file matches {', '.join(patterns)}")
    return found


audit_option = click.option(
    "--audit",
    multiple=True,
    metavar="GLOB",
    callback=_matching,
    help="HDFS audit logs, plain or compressed, which supply the user.",
)
