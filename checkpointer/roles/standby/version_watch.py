"""Keeps the VERSION of a standby in step with the active's, which is asked when there is reason to doubt ours."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from checkpointer.roles.standby.version import ActiveVersion, Move, decide_move
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import explained, told
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo

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
    """

    def __init__(
        self,
        nodes: KnowsVersion,
        ours: Callable[[], StorageInfo],
        rolling: Callable[[StorageInfo], bool],
        take_over: TakeOver,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._ours = ours
        self._rolling = rolling
        self._take_over = take_over
        self._doubted = threading.Event()
        self._fault = RecurringFault(_LOG, "the cluster's VERSION and ours agree again", unit="looks", clock=clock)
        self.doubt("the daemon starts")

    @property
    def alarm(self) -> str:
        """Why images of ours cannot be the cluster's, "" where they can."""
        return self._fault.alarm

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
            known = explained(fault)
            text = f"the cluster's VERSION differs from ours and could not be adopted: {told(fault)}"
            self._fault.occurred(text, hint="" if known is None else known.hint)
        except Exception as fault:
            text = f"the cluster's VERSION could not be adopted: {type(fault).__name__}: {fault}"
            self._fault.occurred(text, bug=fault)
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
        if move is Move.WAIT:
            # Asked, but they differ for now.
            self._fault.forget()
            return False
        self._fault.ended()
        return True
