"""`checkpointer acknowledge`: acknowledge the alarms of a kind of the running daemon."""

from __future__ import annotations

import click

from checkpointer.cli.silence_command import MarkedKind, mark_alarms, marking_options
from hadoop_common.cli.output import FiniteRange


@click.command("acknowledge")
@marking_options
@click.option(
    "--minutes",
    type=FiniteRange(0, 30 * 24 * 60),
    help="Maximum duration (default: until the alarms end); 0 ends the acknowledgement.",
)
@click.option("--reason", default="", help="The reason; required except to end the acknowledgement.")
def command(marked: MarkedKind, minutes: float | None, reason: str) -> None:
    """Acknowledge the present alarms of one KIND, so that every operator can see who is working on them.

    An acknowledgement does not affect alert rules, readiness or the result of `check`. An acknowledgement survives
    restarts and ends when its alarms have ended. /status contains the kind of each alarm (alarmKinds).

    \b
    Example: checkpointer acknowledge directory --conf /etc/hadoop/conf --reason "a disk is on its way"
    """
    mark_alarms("acknowledge", marked, minutes, reason)
