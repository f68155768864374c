"""Keeps the VERSION of a standby in step with the active's, which is asked when there is reason to doubt ours."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from checkpointer.roles.standby.version import ActiveVersion, Move, decide_move
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import told
from hadoop_common.storage_info import StorageInfo

__all__ = ["KnowsVersion", "TakeOver", "VersionWatch"]

_LOG = logging.getLogger(__name__)

# Makes our storage that of the active: fetches or converts, then writes VERSION.
TakeOver = Callable[[Move, ActiveVersion], None]


class KnowsVersion(Protocol):
    """The NameNodes that can be asked (`NameNodes`)."""

    def active_version(self) -> ActiveVersion | None: ...


class VersionWatch:
    """Asks when `doubt` was raised, until there is an answer that settles it. One thread checks, any may doubt.

    Args:
        ours: VERSION of our storage.
        rolling: whether a rolling upgrade goes on in an active of another VERSION, which is of a release that does
            not tell it.

    Attributes:
        alarm: why images of ours cannot be the cluster's, "" where they can.
    """

    def __init__(
        self,
        nodes: KnowsVersion,
        ours: Callable[[], StorageInfo],
        rolling: Callable[[StorageInfo], bool],
        take_over: TakeOver,
    ) -> None:
        self._nodes = nodes
        self._ours = ours
        self._rolling = rolling
        self._take_over = take_over
        self._doubted = threading.Event()
        self.alarm = ""
        self.doubt("the daemon starts")

    def doubt(self, reason: str) -> None:
        """Have the next check ask."""
        _LOG.debug("the cluster's VERSION is asked for: %s", reason)
        self._doubted.set()

    def check(self) -> None:
        """Ask the active, if there is doubt, and follow it; a fault of that is an alarm until it goes well.

        No active NameNode is no fault: it is asked again at the next check.
        """
        if not self._doubted.is_set():
            return
        # First, so that a doubt that comes meanwhile stays.
        self._doubted.clear()
        settled = False
        try:
            settled = self._settle()
        except CheckpointCancelledError as stopped:
            _LOG.info("the cluster's VERSION was not adopted: %s", stopped)
        except (HdfsError, OSError) as fault:
            self._raise(f"the cluster's VERSION differs from ours and could not be adopted: {told(fault)}")
        except Exception as fault:
            _LOG.exception("a fault of the checkpointer itself")
            self._raise(f"the cluster's VERSION could not be adopted: {type(fault).__name__}: {fault}")
        finally:
            if not settled:
                self._doubted.set()

    def _settle(self) -> bool:
        active = self._nodes.active_version()
        if active is None:
            return False
        ours = self._ours()
        namenode = f"NameNode {active.address}"
        rolling = self._rolling(active.info) if active.rolling is None else active.rolling
        move = decide_move(ours, active.info, rolling=rolling, namenode=namenode)
        if move in (Move.CONVERT, Move.FETCH):
            self._take_over(move, active)
            _LOG.warning(
                "the VERSION of %s was adopted: %s instead of %s",
                namenode,
                active.info.colon_string(),
                ours.colon_string(),
                extra={"target": active.address, "layoutVersion": active.info.layout_version, "move": move.value},
            )
        self.alarm = ""
        return move is not Move.WAIT

    def _raise(self, text: str) -> None:
        if text != self.alarm:
            _LOG.error("%s", text)
        self.alarm = text
