"""Formats the journal of a new or wiped JournalNode with the data of its peers (HDFS-16690)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from hadoop_common.exit_codes import ExitCode
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    JournalNotFormattedError,
    NoSuchProtocolError,
    NoSuchRpcMethodError,
    NotAuthorizedError,
    RpcError,
)
from journal.errors import JournalError
from journal_node.disk import JournalDisk
from journal_node.hosted_journal import HostedJournal
from journal_node.peers import PeerNode
from journal_node.rules import Epochs
from journal_node.storage import JournalStorage
from journal_node.upkeep import self_format

_LOG = logging.getLogger(__name__)


# A server that answers with one of these errors is running.
_REFUSALS = (NotAuthorizedError, AccessControlError, AuthenticationRequiredError)
_OLD_HINT = (
    "JournalNodes before Hadoop 3.5 do not report their namespace: use `checkpointer journalnode format "
    "--from-namenode`."
)


class SelfFormatError(JournalError):
    """Failure to format a journal with the data of its peers."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Start the other JournalNodes of the journal, then try again."


def needed_answers(nodes: int) -> int:
    """Return the number of other nodes that must report their promises, for `nodes` nodes in total.

    Every majority that includes this node also includes one of the reporting nodes, so the reports cover all earlier
    promises of this node.
    """
    return nodes - (nodes // 2 + 1) + 1


def format_from_peers(journal: HostedJournal, peers: Sequence[PeerNode], namespace: StorageInfo | None = None) -> None:
    """Format the unformatted `journal` with the namespace and the newest promise of its peers.

    Until a segment begins, the node reports no segments to writers, because it may have had segments before it was
    wiped.

    Args:
        namespace: the namespace, if known; peers before Hadoop 3.5 do not report it.

    Raises:
        SelfFormatError: too few peers answer, no peer is formatted, or the peers contradict each other.
        RemoteError, OSError: the folder cannot be formatted.
    """
    self_format(journal, *_as_peers_have_it(journal.journal_id, peers, namespace))


def replace_from_peers(
    journal_id: str, disk: JournalDisk, peers: Sequence[PeerNode], namespace: StorageInfo | None = None
) -> str | None:
    """Format a damaged journal as `format_from_peers` does; return the new location of its files, or None if it is not
    damaged.

    Nothing is deleted: this node's files are moved to a folder next to the journal. Acknowledged transactions are on a
    majority of the nodes, which includes at least one of the nodes whose answers are required.

    Args:
        disk: the folder of the journal, which is locked during the call.

    Raises:
        SelfFormatError: as for `format_from_peers`; nothing was changed.
        RemoteError, HdfsError, OSError: the folder cannot be used.
    """
    storage = JournalStorage(disk)
    disk.lock()
    try:
        damage = storage.damage()
        if not damage:
            return None
        info, promised = _as_peers_have_it(journal_id, peers, namespace)
        aside, own = storage.set_damaged_aside()
        _LOG.warning("%s: %s: its files were moved to %s", journal_id, damage, aside)
        storage.format(info, force=False, epochs=Epochs(promised=max(promised, own)))
        return aside
    finally:
        storage.close()


def _as_peers_have_it(
    journal_id: str, peers: Sequence[PeerNode], namespace: StorageInfo | None
) -> tuple[StorageInfo, int]:
    """Return the namespace of a journal, and the newest epoch that a peer promised."""
    promises = _promises(journal_id, peers)
    if namespace is None:
        namespace = _namespace(journal_id, [peer for peer in peers if peer.name in promises])
    promised = max(promises.values())
    _LOG.info("%s: formatted as %s, with epoch %d promised", journal_id, ", ".join(promises), promised)
    return namespace, promised


def _promises(journal_id: str, peers: Sequence[PeerNode]) -> dict[str, int]:
    """Return the newest promise of each peer that has the journal.

    A peer without the journal does not count, because it may have lost its promises, or may be this node under another
    address.
    """
    found: dict[str, int] = {}
    unformatted: list[str] = []
    missing: list[str] = []
    hint = ""
    for peer in peers:
        try:
            found[peer.name] = peer.promised_epoch(journal_id)
        except JournalNotFormattedError:
            unformatted.append(peer.name)
        except _REFUSALS as error:
            missing.append(f"{peer.name} refuses ({error})")
            hint = hint or error.hint
        except RpcError as error:
            missing.append(f"{peer.name} ({error})")
    needed = needed_answers(len(peers) + 1)
    if not found and len(unformatted) >= needed:
        problem = f"journal {journal_id} is not formatted on any of {', '.join(unformatted)}"
        raise SelfFormatError(
            problem,
            hint="Check that their disks are mounted. Only if the journal is new, format it from the NameNode "
            "(`hdfs namenode -initializeSharedEdits`).",
        )
    if not peers or len(found) < needed:
        who = "; ".join([*missing, *(f"{name} does not have the journal" for name in unformatted)])
        problem = f"journal {journal_id}: {needed} of the other JournalNodes must answer, but {len(found)} do"
        if unformatted and not missing:
            hint = f"Check that the disks of {', '.join(unformatted)} are mounted."
        raise SelfFormatError(f"{problem}: {who or 'none is configured'}", hint=hint)
    return found


def _namespace(journal_id: str, peers: Sequence[PeerNode]) -> StorageInfo:
    reported: dict[str, StorageInfo] = {}
    faults: list[RpcError] = []
    for peer in peers:
        try:
            reported[peer.name] = peer.storage_info(journal_id)
        except (NoSuchRpcMethodError, NoSuchProtocolError):
            continue
        except RpcError as error:
            _LOG.warning("%s: %s does not report its namespace: %s", journal_id, peer.name, error)
            faults.append(error)
    if not reported:
        problem = f"journal {journal_id}: none of {', '.join(peer.name for peer in peers)} reports its namespace"
        hint = next((error.hint for error in faults if isinstance(error, _REFUSALS)), _OLD_HINT)
        raise SelfFormatError(problem, hint=hint)
    if len({(info.namespace_id, info.cluster_id) for info in reported.values()}) > 1:
        listed = "; ".join(f"{name}: {info.colon_string()}" for name, info in reported.items())
        problem = f"journal {journal_id}: its JournalNodes belong to several namespaces: {listed}"
        raise SelfFormatError(
            problem,
            hint="Check dfs.namenode.shared.edits.dir on each of them; move away the journals of other clusters.",
        )
    return max(reported.values(), key=lambda info: info.c_time)
