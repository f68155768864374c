"""Report of an active NameNode about its edit log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from journal.journal_set import JournalSet
from journal.segment_file import list_segments
from namenode_stub.edit_journals import journal_name
from namenode_stub.image_store import StubImages
from namenode_stub.names.transactions import Transactions
from namenode_stub.node_parts import NodeParts
from namenode_stub.status_pages import first_listing
from node_state.state import NodeState, RoleDetails


class ActiveReport:
    """The active state as reported by `StatusPages`."""

    role = "active"

    def __init__(self, parts: NodeParts, transactions: Transactions, journals: JournalSet, images: StubImages) -> None:
        self._parts = parts
        self._transactions = transactions
        self._log = transactions.log
        self._journals = journals
        self._images = images

    def report(self) -> dict[str, Any]:
        """Return the fields for GET /status.

        - `shuttingDown`: whether the NameNode refuses changes;
        - `lastTxid`, `durableTxid`: last written transaction, and last transaction that is durable in the journals;
        - `segmentFirstTxid`: first transaction of the open segment;
        - `editsDirectories`: journals in use; `failedEdits`: other journals with the reason;
        - `editLog`: the counts of `CommitMetrics`;
        - `segments`: files in the first readable directory.
        """
        return {
            "shuttingDown": self._transactions.ending,
            "lastTxid": self._log.last_txid,
            "durableTxid": self._log.durable_txid,
            "segmentFirstTxid": self._log.segment_first_txid,
            "editsDirectories": [journal_name(member.journal) for member in self._journals.active],
            "failedEdits": {location: error.message for location, error in self._journals.faults.items()},
            "editLog": asdict(self._log.metrics()),
            "segments": first_listing(self._parts.edits_folders, _segment_names),
        }

    def measured(self) -> NodeState:
        last, image = self._log.last_txid, self._images.checkpoint_txid
        return NodeState(
            role=self.role,
            image_txid=image,
            journal_txid=last,
            transactions_behind=last - image,
            details=RoleDetails(transactions_since_roll=last - self._log.segment_first_txid + 1),
        )


def _segment_names(folder: Path) -> list[str]:
    return [segment.path.name for segment in list_segments(folder)]
