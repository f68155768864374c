"""A NameNode in the standby state: it follows the shared edits and refers clients to the active NameNode
(StandbyState).
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.open_edit_source import open_edit_source
from checkpointer.storage.usable_images import latest_image
from engine.loaded_image import LoadedImage
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.namenode_protocol import namenode_queries
from hadoop_rpc.service import Service
from namenode_stub.http_api import refusing_blueprint
from namenode_stub.image_store import StubImages
from namenode_stub.node_parts import NodeParts
from namenode_stub.rpc.checkpoint_calls import NodeQueries
from namenode_stub.standby_namespace import StandbyNamespace
from namenode_stub.status_pages import StatusPages
from node_state.state import NodeState, RoleDetails


class StandbyState:
    """The parts of a standby NameNode.

    Attributes:
        namespace: follows the shared edits after `start`.
    """

    state = HAState.STANDBY
    role = "standby"

    def __init__(self, parts: NodeParts) -> None:
        """Prepare the state without loading anything.

        Raises:
            StorageError: shared edits are not configured or belong to another namespace, or this node has no image.
        """
        self._parts = parts
        settings = parts.config.standby
        self._nodes = NameNodes(
            [http for http, _ in settings.namenodes],
            [rpc for _, rpc in settings.namenodes],
            user=parts.config.rpc_user,
            timeout=settings.rpc_timeout,
            retries=settings.roll_retries,
        )
        self.images = StubImages(
            parts.config,
            parts.info,
            latest_image(parts.image_folders),
            durable_txid=lambda: self.namespace.applied_txid,
            active=lambda: False,
            clock=parts.clock,
        )
        self._source: EditSource = open_edit_source(parts.config)
        try:
            self._source.open(parts.info)
        except BaseException:
            self._source.close()
            self._nodes.close()
            raise
        self.namespace = StandbyNamespace(parts, self._source, self._nodes)

    def start(self) -> None:
        """Load the newest image, and follow the edits in a thread.

        Raises:
            StorageError, ImageFormatError: the image cannot be loaded.
        """
        self.namespace.start()

    def catch_up(self) -> None:
        """Apply all readable edits; raise the same errors as `StandbyNamespace.catch_up`."""
        self.namespace.catch_up()

    def take(self) -> LoadedImage:
        """Stop following and return the namespace; the caller closes its image.

        Raises:
            StorageError, ImageFormatError: a required reload of the namespace failed.
        """
        self._nodes.close()
        self.namespace.stop()
        return self.namespace.take()

    @property
    def following(self) -> bool:
        """Whether the standby still follows the edits."""
        return self.namespace.following

    def close(self) -> None:
        """Stop following and release everything. A second call does nothing."""
        self._nodes.close()
        self.namespace.close()

    # ---- services ------------------------------------------------------------------------------------------

    def services(self) -> list[Service]:
        """Return the RPC services; all other calls refer clients to the active NameNode."""
        questions = NodeQueries(
            self._parts.info,
            self._parts.release,
            self.state,
            self.images,
            self._parts.switch,
            last_txid=lambda: self.namespace.applied_txid,
        )
        return [namenode_queries(questions)]

    def blueprints(self) -> list[Blueprint]:
        return StatusPages(self._parts, self.images, self).blueprints(refusing_blueprint())

    def report(self) -> dict[str, Any]:
        """Return the fields for GET /status.

        - `lastTxid`: last applied transaction;
        - `sourceTxid`: newest transaction seen in the shared edits, -1 before the first check;
        - `activeTxid`: newest transaction of the NameNodes at the last query, -1 before the first query;
        - `journal`: location of the edits;
        - `tailFault`: reason why edits are not applied, "" if they are applied;
        - `rollAlarm`: reason why no new edits arrive although the active NameNode writes edits, "" if they arrive;
        - `lagAlarm`: message with the time for which available edits have not been applied, "" if all are applied.
        """
        return {
            "lastTxid": self.namespace.applied_txid,
            "sourceTxid": self.namespace.source_txid,
            "activeTxid": self.namespace.active_txid,
            "journal": self._source.location,
            "tailFault": self.namespace.fault,
            "rollAlarm": self.namespace.roll_alarm,
            "lagAlarm": self.namespace.lag_alarm,
        }

    def measured(self) -> NodeState:
        applied, source = self.namespace.applied_txid, self.namespace.source_txid
        newest, image = max(applied, source), self.images.checkpoint_txid
        return NodeState(
            role=self.role,
            image_txid=image,
            journal_txid=newest,
            transactions_behind=newest - image,
            details=RoleDetails(applied_txid=applied, source_txid=source, tailing_lag_transactions=newest - applied),
        )
