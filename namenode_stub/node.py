"""The active NameNode in one process: storage, namespace, edit log, HTTP, and what an uploaded checkpoint sets off."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, jsonify

from checkpointer.merge import LoadedImage, load_image
from checkpointer.replay import replay
from checkpointer.storage.directories import latest_image, read_storage_info
from checkpointer.storage.inspector import list_images
from checkpointer.storage.lock import StorageLock
from checkpointer.storage.retention import enforce_retention
from hadoop_common.durable import write_atomically
from hadoop_common.names import SEEN_TXID, image_name, segment_name
from hadoop_common.storage_info import StorageInfo
from image_format.reader import ImageFile
from journal.edit_log_writer import EditLogWriter
from journal.segment_file import list_segments, read_transactions, select_segments
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.edits_recovery import recover_edits
from namenode_stub.http_api import namespace_blueprint
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_transfer import TransferOptions, image_transfer_blueprint
from servlets.parameters import ImageKind

__all__ = ["NameNodeStub", "StubConfig"]

_LOG = logging.getLogger(__name__)
_TOO_RECENT_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class StubConfig:
    """What the stub needs; times in seconds.

    Attributes:
        image_directories, edits_directories: storage directories; their `current` folders hold the files.
        roll_transactions, roll_period: when it rolls its edit log by itself.
        checkpoint_transactions, checkpoint_period: how young an image it refuses.
    """

    image_directories: tuple[Path, ...]
    edits_directories: tuple[Path, ...]
    http_address: tuple[str, int]
    checkpoint_period: float
    checkpoint_transactions: int
    roll_transactions: int
    roll_period: float
    images_retained: int
    extra_edits_retained: int
    max_extra_segments: int


class NameNodeStub:
    """An active NameNode over formatted storage.

    Use as a context manager: entering loads image and edits, recovers a segment a crash left open, starts a new
    one and serves HTTP; leaving finalizes the segment.
    """

    def __init__(self, config: StubConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._locks: list[StorageLock] = []
        self._image: ImageFile | None = None
        self._stopping = threading.Event()
        self._roller: threading.Thread | None = None
        self._purge_lock = threading.Lock()
        self._checkpoint_txid = 0
        self._checkpoint_at = clock()
        self.namespace: ActiveNamespace
        self.server: HttpServer
        self._storage_info: StorageInfo

    # ---- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> NameNodeStub:
        try:
            self._start()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        config = self._config
        for directory in dict.fromkeys([*config.image_directories, *config.edits_directories]):
            lock = StorageLock(directory)
            lock.acquire()
            self._locks.append(lock)
        self._storage_info = read_storage_info(config.image_directories[0])
        loaded = self._load()
        log = EditLogWriter(
            self._edits_folders(),
            self._storage_info.layout_version,
            loaded.namespace.last_txid + 1,
            on_directory_failure=lambda folder, error: _LOG.error("edits directory %s dropped: %s", folder, error),
        )
        loaded.namespace.last_txid = log.last_txid
        self.namespace = ActiveNamespace(loaded.namespace, log)
        self._write_seen_txid(log.segment_first_txid)
        self.server = HttpServer(self._application(), *config.http_address)
        self.server.start()
        self._roller = threading.Thread(target=self._roll_when_due, name="edit-log-roller", daemon=True)
        self._roller.start()
        _LOG.info("active at txid %d, listening on %s", log.last_txid, self.server.url)

    def stop(self) -> None:
        """Serve no more, finalize the segment, release the storage."""
        self._stopping.set()
        if self._roller is not None:
            self._roller.join()
            self.server.stop()
            self.namespace.log.close()
        self._release()

    def _release(self) -> None:
        if self._image is not None:
            self._image.close()
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def _image_folders(self) -> list[Path]:
        return [directory / "current" for directory in self._config.image_directories]

    def _edits_folders(self) -> list[Path]:
        return [directory / "current" for directory in self._config.edits_directories]

    def _load(self) -> LoadedImage:
        """Newest image plus all edits after it."""
        recover_edits(self._edits_folders())
        path, txid = latest_image(self._image_folders())
        self._image = ImageFile.open(path)
        loaded = load_image(self._image)
        segments = [segment for folder in self._edits_folders() for segment in list_segments(folder)]
        replay(loaded.namespace, read_transactions(select_segments(segments, txid + 1), txid + 1))
        self._checkpoint_txid = txid
        _LOG.info("loaded image %d and edits up to %d", txid, loaded.namespace.last_txid)
        return loaded

    # ---- edit log ------------------------------------------------------------------------------------------

    def roll(self) -> int:
        """Start a new segment; returns its first txid."""
        first = self.namespace.roll()
        self._write_seen_txid(first)
        return first

    def _write_seen_txid(self, txid: int) -> None:
        for folder in dict.fromkeys([*self._image_folders(), *self._edits_folders()]):
            write_atomically(folder / SEEN_TXID, f"{txid}\n".encode())

    def _roll_when_due(self) -> None:
        interval = min(1.0, self._config.roll_period / 4)
        rolled_at = self._clock()
        while not self._stopping.wait(interval):
            log = self.namespace.log
            waiting = log.last_txid - log.segment_first_txid
            old_enough = self._clock() - rolled_at >= self._config.roll_period and waiting > 0
            if waiting >= self._config.roll_transactions or old_enough:
                self.roll()
                rolled_at = self._clock()

    # ---- HTTP ----------------------------------------------------------------------------------------------

    def _application(self) -> Any:
        transfer = image_transfer_blueprint(self, options=TransferOptions())
        return create_application(transfer, namespace_blueprint(self.namespace, self.roll), self._status())

    def _status(self) -> Blueprint:
        blueprint = Blueprint("stub_status", __name__)

        @blueprint.get("/status")
        def status() -> Any:
            log = self.namespace.log
            return jsonify(
                role="active",
                lastTxid=log.last_txid,
                durableTxid=log.durable_txid,
                segmentFirstTxid=log.segment_first_txid,
                checkpointTxid=self._checkpoint_txid,
                segments=[segment.path.name for segment in list_segments(self._edits_folders()[0])],
                images=[image.path.name for image in list_images(self._image_folders()[0])],
            )

        return blueprint

    # ---- ImageStore ----------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        return self._storage_info

    def find_image(self, txid: int) -> Path | None:
        names = (image_name(txid), image_name(txid, rollback=True))
        return self._find(self._image_folders(), *names)

    def latest_image(self) -> Path | None:
        return latest_image(self._image_folders())[0]

    def find_segment(self, first: int, last: int) -> Path | None:
        return self._find(self._edits_folders(), segment_name(first, last))

    def _find(self, folders: list[Path], *names: str) -> Path | None:
        paths = (folder / name for folder in folders for name in names)
        return next((path for path in paths if path.is_file()), None)

    def image_directories(self) -> list[Path]:
        return self._image_folders()

    def is_active(self) -> bool:
        return not self._stopping.is_set()

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """Refuse what is both young and small, as an active NameNode of 3.3 and later does."""
        age = self._clock() - self._checkpoint_at
        delta = txid - self._checkpoint_txid
        young = age < _TOO_RECENT_SHARE * self._config.checkpoint_period
        if kind is ImageKind.IMAGE and young and delta < self._config.checkpoint_transactions:
            return (
                f"the last checkpoint is {age:.0f} s old and {delta} transactions back, expected "
                f"{_TOO_RECENT_SHARE * self._config.checkpoint_period:.0f} s or "
                f"{self._config.checkpoint_transactions} transactions"
            )
        return None

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        with self._purge_lock:
            self._checkpoint_txid = max(self._checkpoint_txid, txid)
            self._checkpoint_at = self._clock()
            _LOG.info("checkpoint at txid %d received: %d bytes, md5 %s", txid, size, md5)
            for warning in self._purge():
                _LOG.warning("%s", warning)

    def _purge(self) -> list[str]:
        config = self._config
        return enforce_retention(
            self._image_folders(),
            self._edits_folders(),
            keep=config.images_retained,
            extra_edits=config.extra_edits_retained,
            max_segments=config.max_extra_segments,
        )
