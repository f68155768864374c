"""What the stub tells over HTTP of itself: /status, /jmx in Hadoop's shape, /metrics for Prometheus."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify

from checkpointer.storage.inspector import list_images
from hadoop_common.errors import HdfsError
from journal.edit_log_writer import EditLogWriter
from journal.segment_file import list_segments
from namenode_stub.fail_stop import FailStop
from namenode_stub.image_store import StubImages
from servlets.hadoop_beans import NodeFacts, fs_namesystem_bean, namenode_status_bean
from servlets.jmx import Bean, jmx_blueprint
from servlets.metrics import metrics_blueprint
from servlets.metrics_snapshot import MetricsSnapshot, snapshot_of_status
from servlets.transfer_counter import TransferCounter

__all__ = ["StatusPages"]

_LOG = logging.getLogger(__name__)
_ACTIVE = "active"
_PACKAGE = "hdfs-checkpointer"


class StatusPages:
    """The pages; each request looks at the node anew.

    Args:
        edits_folders, image_folders: `current` folders of the storage directories.
        rpc_address: `host:port` of the RPC server, "" without one.
        release: the Hadoop release that the node passes for.
    """

    def __init__(
        self,
        log: EditLogWriter,
        images: StubImages,
        fail_stop: FailStop,
        counter: TransferCounter,
        *,
        edits_folders: list[Path],
        image_folders: list[Path],
        rpc_address: Callable[[], str],
        release: str,
    ) -> None:
        self._log = log
        self._images = images
        self._fail_stop = fail_stop
        self._counter = counter
        self._edits_folders = edits_folders
        self._image_folders = image_folders
        self._rpc_address = rpc_address
        self._release = release
        self._started_at = time.time()

    def blueprints(self) -> list[Blueprint]:
        return [self._status_blueprint(), jmx_blueprint(self._beans), metrics_blueprint(self._metrics)]

    def status(self) -> dict[str, Any]:
        """GET /status.

        `role`; `failure`, "" while it serves; `lastTxid` written, `durableTxid` on disk, `segmentFirstTxid` of the
        open segment, `checkpointTxid` of the newest image; `rpcAddress`, "" without an RPC server;
        `editsDirectories` still written; `segments` and `images`, names of the files in the first directory of each
        kind that can be read.
        """
        return {
            "role": _ACTIVE,
            "failure": self._fail_stop.reason,
            "lastTxid": self._log.last_txid,
            "durableTxid": self._log.durable_txid,
            "segmentFirstTxid": self._log.segment_first_txid,
            "checkpointTxid": self._images.checkpoint_txid,
            "rpcAddress": self._rpc_address(),
            "editsDirectories": [str(folder) for folder in self._log.directories],
            "segments": _first_listing(self._edits_folders, lambda f: [s.path.name for s in list_segments(f)]),
            "images": _first_listing(self._image_folders, lambda f: [i.path.name for i in list_images(f)]),
        }

    def _status_blueprint(self) -> Blueprint:
        blueprint = Blueprint("stub_status", __name__)

        @blueprint.get("/status")
        def status() -> Response:
            return jsonify(self.status())

        return blueprint

    def _measured(self) -> dict[str, Any]:
        """The numbers of a daemon's status page that an active NameNode has too."""
        last, since = self._log.last_txid, self._images.checkpoint_age
        return {
            "role": _ACTIVE,
            "imageTxid": self._images.checkpoint_txid,
            "journalTxid": last,
            "transactionsBehind": last - self._images.checkpoint_txid,
            "transactionsSinceRoll": last - self._log.segment_first_txid + 1,
            "savedAt": time.time() - since,
            "secondsSinceCheckpoint": since,
        }

    def _beans(self) -> list[Bean]:
        facts = NodeFacts(
            software_version=self._release,
            started_at=self._started_at,
            address=self._rpc_address(),
            hostname=socket.gethostname(),
        )
        bean = fs_namesystem_bean(self._measured(), facts, ha_state=_ACTIVE)
        return [bean, namenode_status_bean(facts, ha_state=_ACTIVE)]

    def _metrics(self) -> MetricsSnapshot:
        return snapshot_of_status(
            self._measured(),
            now=time.time(),
            ready=not self._fail_stop.reason,
            version=version(_PACKAGE),
            started_at=self._started_at,
            counter=self._counter,
        )


def _first_listing(folders: list[Path], names: Callable[[Path], list[str]]) -> list[str]:
    for folder in folders:
        try:
            return names(folder)
        except (OSError, HdfsError) as error:
            _LOG.warning("%s cannot be listed: %s", folder, error)
    return []
