"""A NameNode in the active state: the live namespace over an open edit log, and the parts that use it (ActiveState)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from threading import Lock

from flask import Blueprint

from checkpointer.storage.usable_images import latest_image
from engine.loaded_image import LoadedImage
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.journal_protocol import JournalInfo
from hadoop_rpc.namenode_protocol import namenode_service
from hadoop_rpc.service import Service
from journal.edit_log_writer import EditLogWriter
from journal.journal_set import JournalSet
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.active_report import ActiveReport
from namenode_stub.administration import Administration
from namenode_stub.automatic_roller import AutomaticRoller
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.fail_stop import NotServingError, ShuttingDownError
from namenode_stub.http_api import namespace_blueprint
from namenode_stub.image_store import StubImages, local_segments
from namenode_stub.node_parts import NodeParts
from namenode_stub.purger import Purger
from namenode_stub.rebase import Rebaser
from namenode_stub.rpc.checkpoint_calls import CheckpointCalls
from namenode_stub.rpc.services import client_service
from namenode_stub.status_pages import StatusPages
from namenode_stub.storage import write_seen_txid

_LOG = logging.getLogger(__name__)


class ActiveState:
    """The parts of an active NameNode. The state ends in two steps: reads continue until writing has ended.

    Args:
        journals: recovered; closed with this object.
        loaded: the namespace with all edits of the journals; this object closes its image.
    """

    state = HAState.ACTIVE

    def __init__(self, parts: NodeParts, journals: JournalSet, loaded: LoadedImage) -> None:
        """Begin a segment; the parts do not serve requests yet.

        Raises:
            JournalError: the segment could not be begun; the caller still owns journals and image.
        """
        config, info = parts.config, parts.info
        self._parts = parts
        self.journals = journals
        self._roll_lock = Lock()
        self._ended = self._closed = False
        newest = latest_image(parts.image_folders)
        namespace = loaded.namespace
        self._log = log = EditLogWriter(journals, info.layout_version, namespace.last_txid + 1)
        namespace.last_txid = log.last_txid
        self._backups = BackupStreams(JournalInfo.of(info))
        self.namespace = ActiveNamespace(
            loaded,
            log,
            info.layout_version,
            parts.fail_stop,
            self._backups,
            list_limit=config.list_limit,
            min_block_size=config.min_block_size,
        )
        transactions = self.namespace.transactions
        self.rebaser = Rebaser(transactions, parts.image_folders, journals)
        self._purger = Purger(config, parts.image_folders, journals)
        self.images = StubImages(
            config,
            info,
            newest,
            durable_txid=lambda: log.durable_txid,
            active=lambda: not transactions.ending and not parts.fail_stop.reason,
            upgrading=lambda: self.administration.is_rolling_upgrade,
            clock=parts.clock,
            received=self._checkpoint_came,
        )
        self.administration = Administration(
            transactions,
            self.images,
            parts.reservations,
            roll=self.roll,
            folders=parts.image_folders,
            log_folder=parts.config.log_directory,
            is_ha=bool(config.shared_edits),
        )
        self._roller = AutomaticRoller(
            transactions,
            journals,
            self.roll,
            transactions_limit=config.roll_transactions,
            period=config.roll_period,
            clock=parts.clock,
        )
        self._report = ActiveReport(parts, self.namespace.transactions, journals, self.images)

    def start(self) -> None:
        """Start the background work."""
        write_seen_txid(self._parts.config.storage_directories, self._log.segment_first_txid)
        self.rebaser.start()
        self._roller.start()

    def refuse_changes(self, refusal: Callable[[], NotServingError] = ShuttingDownError) -> None:
        """Refuse changes from now on; when this method returns, all running changes have been logged."""
        self.namespace.transactions.end(refusal)

    def end(self, refusal: Callable[[], NotServingError] = ShuttingDownError) -> None:
        """Finalize the segments and write seen_txid; finalized segments then contain all acknowledged operations.

        A second call does nothing.

        Raises:
            JournalError: the edit log failed earlier, so that unacknowledged operations are lost.
        """
        if self._ended:
            return
        self._ended = True
        self.refuse_changes(refusal)
        self._log.close()
        write_seen_txid(self._parts.config.storage_directories, self._log.last_txid)
        checkpoint = self.images.checkpoint_txid
        _LOG.info("the edit log ends at txid %d, the newest image is at %d", self._log.last_txid, checkpoint)

    def close(self) -> None:
        """Release the journals and the namespace after `end`; when this method returns, the namespace has no readers.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self.namespace.transactions.leave()
        with ExitStack() as closing:
            closing.callback(self.journals.close)
            closing.callback(self.rebaser.stop)
            closing.callback(self._backups.close)
            closing.callback(self._roller.stop)

    # ---- work ----------------------------------------------------------------------------------------------

    def roll(self) -> int:
        """Start a new segment; return its first transaction id.

        Raises:
            NotServingError: the edit log has failed.
        """
        # lock order: a thread that saves an image already holds the namespace's lock
        with self.namespace.transactions.lock, self._roll_lock:
            first = self.namespace.transactions.roll()
            self._roller.rolled()
            write_seen_txid(self._parts.config.storage_directories, first)
            return first

    def _checkpoint_came(self) -> None:
        self._purger.purge()
        self.rebaser.image_arrived()

    # ---- services ------------------------------------------------------------------------------------------

    def services(self) -> list[Service]:
        """Return the services of ClientProtocol and NamenodeProtocol."""
        parts = self._parts
        checkpoints = CheckpointCalls(
            parts.info,
            parts.release,
            self.namespace.transactions,
            self.administration,
            self.images,
            self._backups,
            parts.switch,
            segments=lambda: local_segments(parts.edits_folders),
            addresses=parts.addresses,
        )
        client = client_service(
            self.namespace,
            self.administration,
            parts.retry_cache,
            parts.switch,
            parts.config.server_defaults,
            parts.info.blockpool_id,
        )
        return [client, namenode_service(checkpoints)]

    def blueprints(self) -> list[Blueprint]:
        return StatusPages(self._parts, self.images, self._report).blueprints(
            namespace_blueprint(self.namespace, self.roll)
        )
