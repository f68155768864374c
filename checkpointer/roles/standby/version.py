"""VERSION of a standby: comparison with the active NameNode's VERSION, and reactions to a difference.

Two numbers in VERSION show changes of the cluster. cTime changes with each upgrade and each rollback; the end of a
rolling upgrade changes only the layout. Therefore, the same cTime with a newer layout means our history in a new
layout; any other difference means another history. During a rolling upgrade, neither number is final, because the
upgrade may be rolled back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo
from image_format.layout import check_supported


class VersionAction(Enum):
    """Action that the VERSION of the active NameNode requires.

    NONE: the VERSION equals ours. WAIT: a rolling upgrade is in progress and may still be rolled back. CONVERT: a
    rolling upgrade was finalized; our images belong to the same history; write new images in the new layout. FETCH: an
    upgrade or a rollback began another history; fetch the active NameNode's image, as `hdfs namenode -bootstrapStandby`
    does.
    """

    NONE = "none"
    WAIT = "wait"
    CONVERT = "convert"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class ActiveVersion:
    """VERSION, rolling upgrade and newest image that the active NameNode reports.

    Attributes:
        address, http_address: RPC address as `host:port`, and HTTP address as `http://host:port`.
        rolling: whether a rolling upgrade is in progress; None if the NameNode does not support the query (Hadoop 2).
        image_txid: txid of the NameNode's newest image.
    """

    address: str
    http_address: str
    info: StorageInfo
    rolling: bool | None
    image_txid: int


def decide_version_action(ours: StorageInfo, theirs: StorageInfo, *, rolling: bool, namenode: str) -> VersionAction:
    """Compare our VERSION with the VERSION that `namenode` reports.

    Only the end of a rolling upgrade changes the layout and keeps cTime; an upgrade and its rollback change cTime
    (FSImage.doUpgrade, NNStorage.writeAll). During a rolling upgrade, some releases report the layout of their
    software.

    Raises:
        StorageError: the NameNode has another namespace.
        UnsupportedLayoutError: edits of the NameNode's layout cannot be replayed.
    """
    if ours.namespace != theirs.namespace:
        raise StorageError(
            f"{namenode} belongs to another namespace: {theirs.namespace_text}, ours is {ours.namespace_text}",
            hint="Check the NameNodes' addresses. To use this NameNode: if the old namespace may still be needed, "
            "first run `checkpointer checkpoint --conf DIR --save-aside`. Then stop the daemon, and move the contents "
            "of this node's dfs.namenode.name.dir away; they may be the last copy of the other namespace. Leave an "
            "empty folder `current` there, and start the daemon.",
        )
    if (ours.layout_version, ours.c_time) == (theirs.layout_version, theirs.c_time):
        return VersionAction.NONE
    if rolling:
        return VersionAction.WAIT
    check_supported(theirs.layout_version, f"namespace of {namenode}")
    same_history = ours.c_time == theirs.c_time and theirs.layout_version < ours.layout_version
    return VersionAction.CONVERT if same_history else VersionAction.FETCH


def newest_version(versions: Collection[StorageInfo]) -> StorageInfo | None:
    """Return the latest of several VERSIONs, or None if their namespaces differ.

    Several VERSIONs exist if the process was killed while it adopted an upgrade.
    """
    if len({each.namespace for each in versions}) != 1:
        return None
    return max(versions, key=lambda each: (each.c_time, -each.layout_version))


_LOG = logging.getLogger(__name__)

# Adopts the active NameNode's storage state: fetches the image if necessary, then writes VERSION.
AdoptVersion = Callable[[VersionAction, ActiveVersion], None]


class VersionSource(Protocol):
    """The NameNodes that can be queried (`NameNodes`)."""

    def active_version(self) -> ActiveVersion | None: ...


class VersionWatch:
    """Watch that queries the active NameNode's VERSION after `doubt`, until a response resolves the doubt. One thread
    calls `check`; any thread may call `doubt`.

    Args:
        ours: returns the VERSION of our storage.
        rolling: returns whether a rolling upgrade is in progress at an active NameNode with the given VERSION; called
            if the active NameNode's release does not report the upgrade.
    """

    def __init__(
        self,
        nodes: VersionSource,
        ours: Callable[[], StorageInfo],
        rolling: Callable[[StorageInfo], bool],
        take_over: AdoptVersion,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._ours = ours
        self._rolling = rolling
        self._take_over = take_over
        self._doubted = threading.Event()
        # whether the running check has found a difference
        self._differs = False
        self._fault = RecurringFault(_LOG, "the cluster's VERSION and ours agree again", unit="checks", clock=clock)
        self.doubt("the daemon starts")

    @property
    def alarm(self) -> str:
        """Reason why our images cannot belong to the cluster, or ""."""
        return self._fault.alarm

    def doubt(self, reason: str) -> None:
        """Require a query of the active NameNode in the next check."""
        _LOG.debug("the next check requests the cluster's VERSION: %s", reason)
        self._doubted.set()

    def check(self) -> None:
        """Query the active NameNode after `doubt`, and adopt its VERSION. A fault raises an alarm until a later check
        succeeds.

        A cluster without an active NameNode is not a fault; the next check queries it again.
        """
        if not self._doubted.is_set():
            return
        # Clear the doubt first, so that a call of `doubt` during the check is not lost.
        self._doubted.clear()
        resolved = self._differs = False
        try:
            resolved = self._resolve()
        except CheckpointCancelledError as stopped:
            _LOG.info("the cluster's VERSION was not adopted: %s", stopped)
        except (HdfsError, OSError) as fault:
            known = as_hdfs_error(fault)
            finding = "differs from ours and could not be adopted" if self._differs else "cannot be compared with ours"
            text = f"the cluster's VERSION {finding}: {error_text(fault)}"
            self._fault.occurred(text, hint="" if known is None else known.hint)
        except Exception as fault:
            text = f"the cluster's VERSION could not be adopted: {type(fault).__name__}: {fault}"
            self._fault.occurred(text, bug=fault)
        finally:
            if not resolved:
                self._doubted.set()

    def _resolve(self) -> bool:
        active = self._nodes.active_version()
        if active is None:
            return False
        ours = self._ours()
        namenode = f"NameNode {active.address}"
        rolling = self._rolling(active.info) if active.rolling is None else active.rolling
        self._differs = ours != active.info
        move = decide_version_action(ours, active.info, rolling=rolling, namenode=namenode)
        if move in (VersionAction.CONVERT, VersionAction.FETCH):
            self._take_over(move, active)
            _LOG.warning(
                "the VERSION of %s was adopted: %s instead of %s",
                namenode,
                active.info.colon_string(),
                ours.colon_string(),
                extra={"target": active.address, "layoutVersion": active.info.layout_version, "move": move.value},
            )
        if move is VersionAction.WAIT:
            # The VERSIONs may differ until the end of the rolling upgrade.
            self._fault.forget()
            return False
        self._fault.ended()
        return True
