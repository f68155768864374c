"""HTTP blueprints of a daemon: images and segments, state, beans and metrics."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flask import Blueprint

from checkpointer.daemon.alarm_marks import alarm_marks_blueprint
from checkpointer.daemon.history import history_blueprint
from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.role import CheckpointRole
from checkpointer.serving.live_namespace import LiveNamespace
from console.action_panel import DaemonActions
from console.blueprint import console_blueprint
from console.check_page import CheckPage, CheckRow
from console.cluster_page import ClusterPage, PeerAnswer, ShownCluster
from console.history_panels import HistoryPanels
from console.process_panels import process_panels
from console.report_panel import report_panels
from console.sources import ConsoleSources, PageSource
from hadoop_common.access import AccessControl, Resource
from hadoop_common.addresses import host_port
from hadoop_common.names import ImageKind, image_name
from hadoop_common.product import product_version
from hadoop_common.storage_info import StorageInfo
from node_state.beans import NodeFacts, daemon_beans
from node_state.metrics import MetricsSnapshot, metrics_blueprint
from servlets.change_guard import ChangeGuard
from servlets.http_authenticator import restrict
from servlets.image_admission import TransferOptions
from servlets.image_transfer_servlet import ServingLimits, image_transfer_blueprint
from servlets.jmx import jmx_blueprint
from servlets.status import status_blueprint
from servlets.webhdfs import webhdfs_blueprint
from site_config.checkpoint_config import CheckpointConfig


def transfer_options(config: CheckpointConfig) -> TransferOptions:
    """Return the options for serving images and segments."""
    return TransferOptions(
        bandwidth=config.transfer_bandwidth,
        bootstrap_bandwidth=config.bootstrap_bandwidth,
        chunk_size=config.transfer_chunk_size,
    )


@dataclass(frozen=True, slots=True)
class ConsoleQuestions:
    """Background queries for the console: the checks, the other nodes of the cluster, and the newest image."""

    checks: Callable[[], Sequence[CheckRow]]
    peers: Callable[[], Sequence[PeerAnswer]]
    verify: Callable[[], Sequence[CheckRow]]


def daemon_blueprints(
    role: CheckpointRole,
    service: CheckpointService,
    config: CheckpointConfig,
    limits: ServingLimits,
    access: AccessControl,
    guard: ChangeGuard | None = None,
    questions: ConsoleQuestions | None = None,
    live: LiveNamespace | None = None,
) -> list[Blueprint]:
    """Return all blueprints of a daemon that runs `role`; `limits` applies to its responses, and `access` authorises
    callers.

    Args:
        guard: rules about hosts that may request changes.
        questions: additional sources for the console.
        live: server for reads of the namespace, which also checks permissions; None if reads are disabled.
    """
    facts = _facts(config)
    actions = DaemonActions(None if questions is None else questions.verify)
    state = [
        status_blueprint(
            status=service.status,
            checkpoint=service.request,
            cancel=service.cancel,
            save_aside=service.save_aside,
            live=service.live,
            ready=service.ready,
        ),
        jmx_blueprint(lambda: daemon_beans(service.state(), facts)),
        history_blueprint(service.history),
        alarm_marks_blueprint(service.silences, service.acknowledgements, lambda: service.state().alarm_kinds),
        actions.blueprint(),
        metrics_blueprint(
            lambda: MetricsSnapshot(
                state=service.state(),
                now=service.wall(),
                version=facts.software_version,
                started_at=facts.started_at,
                counter=role.counter,
                refused=role.refusals.counts(),
            )
        ),
    ]
    images = image_transfer_blueprint(RoleImages(role), options=transfer_options(config), limits=limits)
    history = HistoryPanels(service.history.entries)
    pages: dict[str, tuple[str, PageSource]] = {"charts": ("History", history.page)}
    if questions is not None:
        pages["cluster"] = (
            "Cluster",
            ClusterPage([ShownCluster(config.nameservice or "cluster", questions.peers)]).page,
        )
        pages["checks"] = ("Checks", CheckPage(questions.checks).panels)
    sources = ConsoleSources(
        service.status,
        panels=history.overview,
        private_panels=lambda: (*actions.panels(), *report_panels(service.reports), *process_panels()),
        pages=pages,
        actions=actions.all,
        reports=service.reports,
    )
    console = console_blueprint(sources, access, guard)
    state = [restrict(each, access, Resource.STATE) for each in state]
    namespace = [] if live is None else [webhdfs_blueprint(live)]
    return [restrict(images, access, Resource.IMAGES), *state, console, *namespace]


def _facts(config: CheckpointConfig) -> NodeFacts:
    host, port = config.web.first
    return NodeFacts(
        software_version=product_version(),
        started_at=time.time(),
        security_enabled=config.kerberos is not None,
        namenode=host_port(*config.namenode_rpc_addresses[0]) if config.namenode_rpc_addresses else "",
        address=host_port(host, port),
        hostname=socket.gethostname(),
        checkpoint_directories=[directory.as_uri() for directory in config.image_directories],
        edits_directories=[directory.as_uri() for directory in config.edits_directories],
    )


class RoleImages:
    """`ImageStore` of a role's images and segments that does not accept uploads."""

    def __init__(self, role: CheckpointRole) -> None:
        self._role = role

    def storage_info(self) -> StorageInfo:
        return self._role.storage_info()

    def find_image(self, txid: int) -> Path | None:
        names = (image_name(txid), image_name(txid, rollback=True))
        paths = (folder / name for folder in self._role.serving_folders() for name in names)
        return next((path for path in paths if path.is_file()), None)

    def latest_image(self) -> Path | None:
        return self._role.latest_image()

    def find_segment(self, first: int, last: int) -> Path | None:
        segments = (s for s in self._role.segments() if (s.first, s.last) == (first, last))
        return next((segment.path for segment in segments), None)

    def image_directories(self) -> list[Path]:
        return self._role.image_folders()

    def is_active(self) -> bool:
        return False

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        return "this node makes checkpoints and does not accept images"

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        raise AssertionError("a checkpointer accepts no uploads")
