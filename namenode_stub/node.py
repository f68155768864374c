"""The active NameNode in one process: storage, namespace, edit log, RPC and HTTP, brought up and down in order."""

from __future__ import annotations

import getpass
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from flask import Flask

from checkpointer.errors import StorageError
from checkpointer.merge import LoadedImage, load_image
from checkpointer.replay import replay
from checkpointer.storage.inspector import agree_on_version, check_covered, inspect
from checkpointer.storage.leftovers import clean_leftovers
from checkpointer.storage.lock import StorageLock
from checkpointer.storage.lookup import ImageCopy, latest_image
from checkpointer.transfer.legacy_upload import fetch_legacy_image
from hadoop_common.durable import write_atomically
from hadoop_common.names import SEEN_TXID
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.journal_protocol import JournalInfo
from hadoop_rpc.server import RpcServer
from image_format.reader import ImageFile
from journal.edit_log_writer import EditLogWriter
from journal.segment_file import list_segments, read_transactions, select_segments
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.administration import Administration
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.config import StubConfig
from namenode_stub.edits_recovery import recover_edits
from namenode_stub.fail_stop import FailStop, NotServingError
from namenode_stub.http_api import namespace_blueprint
from namenode_stub.image_store import StubImages
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.rebase import Rebaser
from namenode_stub.releases import release_of
from namenode_stub.rpc.checkpoint_calls import Addresses, CheckpointCalls
from namenode_stub.rpc.gate import Gate
from namenode_stub.rpc.services import client_service, stub_services
from namenode_stub.status_pages import StatusPages
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_transfer import image_transfer_blueprint
from servlets.reservations import UploadReservations
from servlets.transfer_counter import TransferCounter

__all__ = ["NameNodeStub"]

_LOG = logging.getLogger(__name__)
_FORMAT_HINT = "Format it with `namenode-stub format --conf DIR`, or name the directory that is."


class NameNodeStub:
    """An active NameNode over formatted storage.

    Use as a context manager: entering loads image and edits, recovers a segment a crash left open, starts a new
    one and serves HTTP; leaving finalizes the segment. When the edit log fails, or the shared edits directory
    alone, it answers 503 with the reason to everything about the namespace, and takes no checkpoint.
    """

    def __init__(self, config: StubConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._resources = ExitStack()
        self._stopping = threading.Event()
        self._roll_lock = threading.Lock()
        self._rolled_at = clock()
        self.fail_stop = FailStop()
        self.namespace: ActiveNamespace
        self.images: StubImages
        self.rebaser: Rebaser
        self.administration: Administration
        self.server: HttpServer
        self.rpc_server: RpcServer | None = None
        self.retry_cache = RetryCache(clock)
        self._reservations = UploadReservations()

    @property
    def rpc_address(self) -> tuple[str, int] | None:
        """Where the RPC server listens, None without one."""
        return None if self.rpc_server is None else self.rpc_server.address

    @property
    def loaded(self) -> LoadedImage:
        """The namespace with the image that it has for a base now."""
        return self.rebaser.loaded

    # ---- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> NameNodeStub:
        """Start.

        Raises:
            StorageError: storage is in use, not formatted, or lacks edits that once existed.
            JournalError, ImageFormatError, ReplayError: what it holds is damaged.
            HttpServerError: the address cannot be used.
        """
        with ExitStack() as started:
            self._start(started)
            self._resources = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Serve no more, finalize the segment, release the storage; a second call does nothing.

        Raises:
            JournalStorageError: operations that nobody was promised are lost, because the edit log had failed.
        """
        self._stopping.set()
        self._resources.close()

    def _start(self, started: ExitStack) -> None:
        for directory in self._config.storage_directories:
            started.enter_context(_locked(directory))
        info = self._check_storage()
        newest, loaded = self._load(started, info)
        namespace = loaded.namespace
        log = started.enter_context(self._open_log(info, namespace.last_txid + 1))
        self.fail_stop.check()
        namespace.last_txid = log.last_txid
        self.namespace = ActiveNamespace(
            namespace, log, info.layout_version, self.fail_stop, list_limit=self._config.list_limit
        )
        self._write_seen_txid(log.segment_first_txid)
        self.rebaser = Rebaser(self.namespace.transactions, loaded, self._image_folders(), self._edits_folders())
        started.callback(self.rebaser.stop)
        self.images = StubImages(
            self._config,
            info,
            newest,
            durable_txid=lambda: log.durable_txid,
            active=lambda: not self._stopping.is_set() and not self.fail_stop.reason,
            clock=self._clock,
            received=self.rebaser.image_arrived,
        )
        self.administration = Administration(
            self.namespace.transactions,
            lambda: self.rebaser.loaded,
            self.images,
            self._reservations,
            roll=self.roll,
            folders=self._image_folders(),
            is_ha=self._config.shared_edits_directory is not None,
        )
        gate = Gate(getpass.getuser(), self._config.supergroup)
        if self._config.rpc_address is not None:
            self.rpc_server = self._start_rpc(started, info, gate, self._config.rpc_address)
        self.server = started.enter_context(HttpServer(self._application(), *self._config.http_address))
        self.rebaser.start()
        roller = threading.Thread(target=self._roll_when_due, name="edit-log-roller", daemon=True)
        started.callback(roller.join)
        started.callback(self._stopping.set)
        roller.start()
        started.callback(gate.close)
        gate.open()
        rpc = _host_port(self.rpc_address) or "no address"
        _LOG.info("active at txid %d, HTTP on %s, RPC on %s", log.last_txid, self.server.url, rpc)

    # ---- storage -------------------------------------------------------------------------------------------

    def _image_folders(self) -> list[Path]:
        return [directory / "current" for directory in self._config.image_directories]

    def _edits_folders(self) -> list[Path]:
        return [directory / "current" for directory in self._config.edits_directories]

    def _check_storage(self) -> StorageInfo:
        found = [inspect(directory) for directory in self._config.storage_directories]
        for each in found:
            if each.version is None:
                raise StorageError(f"{each.root} is not formatted, it has no current/VERSION", hint=_FORMAT_HINT)
        for each in found:
            for path in clean_leftovers(each.current):
                _LOG.info("removed a leftover of an earlier run: %s", path)
        return agree_on_version(found)

    def _load(self, started: ExitStack, info: StorageInfo) -> tuple[ImageCopy, LoadedImage]:
        """Newest image, and the namespace of it and all edits after it; the image stays open below the namespace."""
        recover_edits(self._edits_folders())
        newest = latest_image(self._image_folders())
        image = started.enter_context(ImageFile.open(newest.path))
        if image.layout_version != info.layout_version:
            raise StorageError(
                f"{newest.path} is of layout {image.layout_version}, but VERSION says {info.layout_version}",
                hint="Finish the upgrade with a NameNode of the cluster's release first.",
            )
        loaded = load_image(image)
        segments = [segment for folder in self._edits_folders() for segment in list_segments(folder)]
        after = newest.txid + 1
        edits = self.retry_cache.watch(read_transactions(select_segments(segments, after), after))
        replay(loaded.namespace, edits)
        last = loaded.namespace.last_txid
        for directory in self._config.storage_directories:
            check_covered(inspect(directory), last)
        _LOG.info("loaded image %d and edits up to %d", newest.txid, last)
        return newest, loaded

    def _open_log(self, info: StorageInfo, first_txid: int) -> EditLogWriter:
        folders = self._edits_folders()
        return EditLogWriter(folders, info.layout_version, first_txid, on_directory_failure=self._directory_failed)

    def _directory_failed(self, folder: Path, error: OSError) -> None:
        _LOG.error("edits directory %s is dropped: %s", folder, error)
        if folder.parent == self._config.shared_edits_directory:
            # The standby reads only there: what is not in it would be lost in a failover.
            self.fail_stop.trip(f"the shared edits directory {folder} failed: {error}")

    # ---- edit log ------------------------------------------------------------------------------------------

    def roll(self) -> int:
        """Start a new segment; returns its first txid.

        Raises:
            NotServingError: the edit log has failed.
        """
        # In this order everywhere: whoever saves an image holds the namespace's lock already.
        with self.namespace.transactions.lock, self._roll_lock:
            first = self.namespace.roll()
            self._rolled_at = self._clock()
            self._write_seen_txid(first)
            return first

    def _write_seen_txid(self, txid: int) -> None:
        """Tell that the segment from `txid` was begun; after its first transaction is durable, never before.

        A kill in between leaves a lower number, which promises less than there is.
        """
        for directory in self._config.storage_directories:
            try:
                write_atomically(directory / "current" / SEEN_TXID, f"{txid}\n".encode())
            except OSError as error:
                _LOG.error("seen_txid of %s stays behind: %s", directory, error)

    def _roll_when_due(self) -> None:
        period = self._config.roll_period
        interval = min(1.0, max(0.05, period / 4)) if period > 0 else 1.0
        while not self._stopping.wait(interval):
            if self.namespace.transactions.safe_mode.on:
                continue
            log = self.namespace.log
            waiting = log.last_txid - log.segment_first_txid
            old_enough = 0 < period <= self._clock() - self._rolled_at and waiting > 0
            if waiting < self._config.roll_transactions and not old_enough:
                continue
            try:
                self.roll()
            except NotServingError:
                # It was reported when it happened, and there is nothing to roll any more.
                return

    # ---- servers -------------------------------------------------------------------------------------------

    def _application(self) -> Flask:
        counter = TransferCounter()
        transfer = image_transfer_blueprint(
            self.images, reservations=self._reservations, fetch=fetch_legacy_image, counter=counter
        )
        pages = StatusPages(
            self.namespace.log,
            self.images,
            self.fail_stop,
            counter,
            edits_folders=self._edits_folders(),
            image_folders=self._image_folders(),
            rpc_address=lambda: _host_port(self.rpc_address),
            release=release_of(self.images.storage_info().layout_version).version,
        )
        return create_application(transfer, namespace_blueprint(self.namespace, self.roll), *pages.blueprints())

    def _start_rpc(self, started: ExitStack, info: StorageInfo, gate: Gate, address: tuple[str, int]) -> RpcServer:
        names = self.namespace
        backups = BackupStreams(JournalInfo.of(info))
        started.callback(backups.close)
        names.transactions.stream_to(backups)
        checkpoints = CheckpointCalls(
            info,
            names.transactions,
            self.administration,
            self.images,
            backups,
            gate,
            segments=lambda: [segment for folder in self._edits_folders() for segment in list_segments(folder)],
            addresses=lambda: Addresses(_host_port(self.rpc_address), _host_port(self.server.address)),
        )
        client = client_service(
            names, self.administration, self.retry_cache, gate, self._config.server_defaults, info.blockpool_id
        )
        server = RpcServer(stub_services(client, checkpoints, gate), *address)
        started.callback(server.stop)
        server.start()
        return server


def _host_port(address: tuple[str, int] | None) -> str:
    if address is None:
        return ""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _locked(directory: Path) -> StorageLock:
    if not directory.is_dir():
        raise StorageError(f"{directory} does not exist", hint=_FORMAT_HINT)
    return StorageLock(directory)
