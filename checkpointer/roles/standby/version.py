"""Whether our VERSION is still that of the cluster, and what becomes of our images where it is not; no I/O.

Two numbers of VERSION tell apart what may have happened to the cluster: cTime changes with each upgrade and each
rollback, the layout alone with the end of a rolling upgrade. So the same cTime and a newer layout is our history, in
a new layout; any other difference is another history. While a rolling upgrade goes on neither is final, for it may be
rolled back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from image_format.layout import check_supported


class Move(Enum):
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


def decide_move(ours: StorageInfo, theirs: StorageInfo, *, rolling: bool, namenode: str) -> Move:
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
        return Move.NONE
    if rolling:
        return Move.WAIT
    check_supported(theirs.layout_version, f"namespace of {namenode}")
    same_history = ours.c_time == theirs.c_time and theirs.layout_version < ours.layout_version
    return Move.CONVERT if same_history else Move.FETCH


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
