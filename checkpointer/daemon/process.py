"""The daemon process: scheduler, HTTP server and signals around a `CheckpointService`."""

from __future__ import annotations

import logging
import signal
import threading
from datetime import UTC
from pathlib import Path
from types import FrameType

from apscheduler.schedulers.background import BackgroundScheduler

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.standby import StandbyRole
from checkpointer.errors import CheckpointCancelledError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_transfer import TransferOptions, image_transfer_blueprint
from servlets.parameters import ImageKind
from servlets.status import status_blueprint

__all__ = ["run_standby", "serve"]

_LOG = logging.getLogger(__name__)


class StandbyImages:
    """Serves the standby's images and the journal's segments; takes no uploads (`ImageStore`)."""

    def __init__(self, role: StandbyRole) -> None:
        self._role = role

    def storage_info(self) -> StorageInfo:
        return self._role.storage_info()

    def find_image(self, txid: int) -> Path | None:
        names = (image_name(txid), image_name(txid, rollback=True))
        paths = (folder / name for folder in self._role.image_folders() for name in names)
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
        return "this node makes checkpoints and takes none"

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        raise AssertionError("a standby takes no uploads")


def run_standby(config: CheckpointConfig) -> None:
    """Run the standby role until SIGTERM or SIGINT.

    Raises:
        HdfsError: storage, journal or address cannot be used at the start.
    """
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        # Nothing else: a handler may interrupt whoever holds the log's lock.
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    role = StandbyRole(config)
    try:
        role.open(stopping.is_set)
    except CheckpointCancelledError as error:
        _LOG.info("stopped: %s", error)
        return
    try:
        serve(role, config, stopping)
    finally:
        role.close()


def serve(role: StandbyRole, config: CheckpointConfig, stopping: threading.Event) -> None:
    """Poll and serve until `stopping` is set; a running checkpoint is ended at a safe point."""
    service = CheckpointService(role, config)
    application = create_application(
        image_transfer_blueprint(StandbyImages(role), options=TransferOptions(bandwidth=config.transfer_bandwidth)),
        status_blueprint(status=service.status, checkpoint=service.request, live=service.live, ready=service.ready),
    )
    scheduler = BackgroundScheduler(timezone=UTC)
    # One poll at a time: while a checkpoint runs the polls that fall due are merged into one.
    scheduler.add_job(
        service.poll,
        "interval",
        seconds=config.poll_interval,
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    with HttpServer(application, *config.http_bind_address) as server:
        _LOG.info(
            "standby checkpointer on %s: every %g s or %d transactions, polling every %g s",
            server.url,
            config.period,
            config.transactions,
            config.poll_interval,
        )
        if not config.standby_checkpoints:
            _LOG.warning("dfs.ha.standby.checkpoints is false: images and edits are served, but none are made")
        scheduler.start()
        try:
            stopping.wait()
            _LOG.info("stopping")
        finally:
            scheduler.shutdown(wait=False)
            service.stop()
