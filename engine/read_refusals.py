"""Refusals of reads that only a NameNode can answer."""

from __future__ import annotations

from image_tools.permission_checker import ReadRefusedError

STANDBY = "org.apache.hadoop.ipc.StandbyException"
"""Java exception class of a refusal, which makes a client of an HA pair send the request to the other NameNode."""


def standby_refusal(action: str) -> str:
    """Return the message for an operation that only a NameNode can answer."""
    return (
        f"{action} is not supported in state standby: this node only lists and describes files; it has no block "
        "locations and makes no changes. Ask the active NameNode."
    )


def refused_read(action: str) -> ReadRefusedError:
    """Return the error for an operation that only a NameNode can answer."""
    return ReadRefusedError(STANDBY, standby_refusal(action))
