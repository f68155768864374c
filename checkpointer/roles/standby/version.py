"""Whether our VERSION is still that of the cluster, and what becomes of our images where it is not; no I/O.

Two numbers of VERSION tell apart what may have happened to the cluster: cTime changes with each upgrade and each
rollback, the layout alone with the end of a rolling upgrade. So the same cTime and a newer layout is our history, in
a new layout; any other difference is another history. While a rolling upgrade goes on neither is final, for it may be
rolled back.
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
from hadoop_common.file_faults import explained, told
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo
from image_format.layout import check_supported


class VersionAction(Enum):
    """What to do about the VERSION of the active NameNode.

    NONE: it is ours. WAIT: a rolling upgrade is in progress, which may still be rolled back. CONVERT: one was
    finalized, our images are of the same history and are written in the new layout from now on. FETCH: an upgrade or
    a rollback began another history, so take the active's image, as `hdfs namenode -bootstrapStandby` does.
    """

    NONE = "none"
    WAIT = "wait"
    CONVERT = "convert"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class ActiveVersion:
    """What the active NameNode says of itself.

    Attributes:
        address, http_address: `host:port` of its RPC server, `http://host:port`.
        rolling: whether a rolling upgrade is in progress; None where it does not know the question (Hadoop 2).
        image_txid: its newest image.
    """

    address: str
    http_address: str
    info: StorageInfo
    rolling: bool | None
    image_txid: int


def decide_version_action(ours: StorageInfo, theirs: StorageInfo, *, rolling: bool, namenode: str) -> VersionAction:
    """Compare our VERSION with the one that `namenode` says it has.

    Only the end of a rolling upgrade changes the layout and leaves cTime; an upgrade and its rollback change cTime
    (FSImage.doUpgrade, NNStorage.writeAll). While one rolls some releases tell the layout of their software.

    Raises:
        StorageError: it is of another namespace.
        UnsupportedLayoutError: its layout is none that edits can be replayed in.
    """
    if _namespace(ours) != _namespace(theirs):
        raise StorageError(
            f"{namenode} is of another namespace: {_sentence(theirs)}, ours is {_sentence(ours)}",
            hint="Check the NameNodes' addresses. To begin with this NameNode, move the contents of this node's "
            "dfs.namenode.name.dir away first: they may be all that is left of the other namespace. Leave an empty "
            "folder `current` there.",
        )
    if (ours.layout_version, ours.c_time) == (theirs.layout_version, theirs.c_time):
        return VersionAction.NONE
    if rolling:
        return VersionAction.WAIT
    check_supported(theirs.layout_version, f"namespace of {namenode}")
    same_history = ours.c_time == theirs.c_time and theirs.layout_version < ours.layout_version
    return VersionAction.CONVERT if same_history else VersionAction.FETCH


def newest_version(versions: Collection[StorageInfo]) -> StorageInfo | None:
    """The latest of VERSIONs that are all of one namespace, None where they are not.

    Several are what a kill leaves while an upgrade is taken over.
    """
    if len({_namespace(each) for each in versions}) != 1:
        return None
    return max(versions, key=lambda each: (each.c_time, -each.layout_version))


def _namespace(info: StorageInfo) -> tuple[int, str, str]:
    return info.namespace_id, info.cluster_id, info.blockpool_id


def _sentence(info: StorageInfo) -> str:
    return f"namespaceID {info.namespace_id}, clusterID {info.cluster_id}, blockpoolID {info.blockpool_id}"


_LOG = logging.getLogger(__name__)

# Makes our storage that of the active: fetches or converts, then writes VERSION.
TakeOver = Callable[[VersionAction, ActiveVersion], None]


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
            # Asked, but they differ for now.
            self._fault.forget()
            return False
        self._fault.ended()
        return True
