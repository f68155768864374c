"""The stub's status over HTTP: /status, /jmx and /conf in Hadoop's form, and /metrics for Prometheus."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from flask import Blueprint, Response, jsonify

from checkpointer.storage.inspector import list_images
from console.blueprint import console_blueprint
from console.sources import ConsoleSources
from hadoop_common.access import Resource
from hadoop_common.errors import HdfsError
from hadoop_common.product import product_version
from namenode_stub.image_store import StubImages
from namenode_stub.node_parts import NodeParts
from node_state.beans import NodeFacts, fs_namesystem_bean, namenode_info_bean, namenode_status_bean
from node_state.metrics import MetricsSnapshot, metrics_blueprint
from node_state.state import NodeState
from servlets.application import create_application
from servlets.change_guard import ChangeGuard
from servlets.conf import conf_blueprint
from servlets.http_authenticator import restrict
from servlets.image_transfer_servlet import image_transfer_blueprint
from servlets.jmx import Bean, jmx_blueprint
from site_config.keys import CHECKPOINT_PERIOD, CHECKPOINT_TXNS
from site_config.merge_keys import (
    SNAPSHOT_CAPTURE_OPENFILES,
    SNAPSHOT_DELETION_ORDERED,
    SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class SwitchableApplication:
    """Application that forwards each request to the current `application`; the initial application has no routes."""

    def __init__(self) -> None:
        self.application: WSGIApplication = create_application()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self.application(environ, start_response)


REPLAY_SETTINGS: Final = {
    SNAPSHOT_CAPTURE_OPENFILES.name: "false",
    SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.name: "false",
    SNAPSHOT_DELETION_ORDERED.name: "false",
}
"""The stub's fixed settings of replay."""
_LOG = logging.getLogger(__name__)
_FAILED = "initializing"  # a state of Hadoop that is neither active nor standby


class ReportedState(Protocol):
    """The reported HA state of a NameNode."""

    @property
    def role(self) -> str:
        """`active` or `standby`."""

    def report(self) -> dict[str, Any]:
        """Return the fields of this state in GET /status."""

    def measured(self) -> NodeState:
        """Return the common part of a daemon's state, except the image's age."""


class StatusPages:
    """Blueprints of the pages; each request reads the node's current state."""

    def __init__(self, parts: NodeParts, images: StubImages, state: ReportedState) -> None:
        self._parts = parts
        self._images = images
        self._state = state
        self._release = parts.release.version

    def blueprints(self, control: Blueprint) -> list[Blueprint]:
        """Return the pages, the transfer of images, the console, and `control`, which changes the namespace."""
        parts, access = self._parts, self._parts.access
        transfer = image_transfer_blueprint(self._images, reservations=parts.reservations, counter=parts.counter)
        pages = (
            self._status_blueprint(),
            jmx_blueprint(self._beans),
            conf_blueprint(self._settings()),
            metrics_blueprint(self._metrics),
        )
        return [
            restrict(transfer, access, Resource.IMAGES),
            restrict(control, access, Resource.CONTROL),
            *(restrict(each, access, Resource.STATE) for each in pages),
            console_blueprint(ConsoleSources(self.status), access, ChangeGuard(parts.config.control_hosts)),
        ]

    def _settings(self) -> dict[str, str]:
        """Return the settings on which checkpointers depend: of replay, and of the refusal of recent images."""
        config = self._parts.config
        recent = {
            CHECKPOINT_PERIOD.name: f"{config.checkpoint_period * 1000:.0f}ms",
            CHECKPOINT_TXNS.name: str(config.checkpoint_transactions),
        }
        return REPLAY_SETTINGS | recent

    def status(self) -> dict[str, Any]:
        """Return the response to GET /status.

        - `role`: active or standby;
        - `failure`: reason why the NameNode does not serve requests, "" while it serves them;
        - `checkpointTxid`: transaction id of the newest image;
        - `rpcAddress`: address of the RPC server, "" if there is none;
        - `images`: files in the first readable directory;
        - the fields of the state.
        """
        return {
            "role": self._state.role,
            "failure": self._parts.fail_stop.reason,
            "checkpointTxid": self._images.checkpoint_txid,
            "rpcAddress": self._parts.addresses().rpc,
            "images": first_listing(self._parts.image_folders, _image_names),
            **self._state.report(),
        }

    def _status_blueprint(self) -> Blueprint:
        blueprint = Blueprint("stub_status", __name__)

        @blueprint.get("/status")
        def status() -> Response:
            return jsonify(self.status())

        return blueprint

    def _measured(self) -> NodeState:
        since = self._images.checkpoint_age
        return replace(
            self._state.measured(),
            ready=not self._parts.fail_stop.reason,
            checkpoint_at=time.time() - since,
            seconds_since_checkpoint=since,
        )

    def _beans(self) -> list[Bean]:
        facts = NodeFacts(
            software_version=self._release,
            started_at=self._parts.started_at,
            address=self._parts.addresses().rpc,
            hostname=socket.gethostname(),
            security_enabled=self._parts.config.kerberos is not None,
        )
        ha_state = _FAILED if self._parts.fail_stop.reason else self._state.role
        bean = fs_namesystem_bean(self._measured(), facts, ha_state=ha_state)
        return [bean, namenode_status_bean(facts, ha_state=ha_state), namenode_info_bean(facts)]

    def _metrics(self) -> MetricsSnapshot:
        return MetricsSnapshot(
            state=self._measured(),
            now=time.time(),
            version=product_version(),
            started_at=self._parts.started_at,
            counter=self._parts.counter,
            refused=self._parts.refusals.counts(),
        )


def _image_names(folder: Path) -> list[str]:
    return [image.path.name for image in list_images(folder)]


def first_listing(folders: list[Path], names: Callable[[Path], list[str]]) -> list[str]:
    """Return the result of `names` for the first readable folder."""
    for folder in folders:
        try:
            return names(folder)
        except (OSError, HdfsError) as error:
            _LOG.warning("%s cannot be listed: %s", folder, error)
    return []
