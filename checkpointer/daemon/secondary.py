"""The secondary role: lets the NameNode roll, fetches image and edits, merges them and gives the image back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.role import Job, Progress, Target, Upload
from checkpointer.daemon.uploader import Uploader, UploadPolicy
from checkpointer.engines import MergeTask, choose_engine
from checkpointer.errors import CheckpointCancelledError, StorageError
from checkpointer.history import contradiction
from checkpointer.loaded_image import next_layout
from checkpointer.merge import MergeResult, Observer
from checkpointer.secondary.agreement import Standing, check_signature, needed_logs, standing
from checkpointer.secondary.fetch import Fetcher, FetcherSettings
from checkpointer.secondary.merge_failures import MergeFailures
from checkpointer.secondary.namenode import NamenodeCalls, connect, connect_to_look
from checkpointer.secondary.position import NamenodePosition
from checkpointer.secondary.storage import SecondaryStorage
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.retry import TransferRetry
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import NoSuchRpcMethodError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointSignature, NamenodeClient, RemoteEditLog
from journal.segment_file import EditLogSegment, list_segments
from servlets.transfer_counter import TransferCounter

__all__ = ["SecondaryRole"]

_LOG = logging.getLogger(__name__)


class SecondaryRole:
    """Checkpoints for one NameNode without HA (`CheckpointRole`, SecondaryNameNode).

    Args:
        config: from the cluster's own configuration files.
        retry: when a download is tried again at once.
    """

    name = "secondary"

    def __init__(self, config: CheckpointConfig, *, retry: TransferRetry | None = None) -> None:
        self._config = config
        self._retry = retry or TransferRetry()
        self._storage = SecondaryStorage(
            config.image_directories, config.edits_directories, permission=config.storage_permission
        )
        self._address = config.namenode_http_addresses[0]
        self.counter = TransferCounter()
        settings = FetcherSettings.of(config, self._retry)
        self._fetcher = Fetcher(self._address, self._storage, settings, count=self.counter.add_received)
        self._uploader = Uploader([self._address], UploadPolicy.for_one(config), count=self.counter.add_sent)
        self._calls = NamenodeCalls(lambda: connect(self._config))
        self._looks = NamenodeCalls(lambda: connect_to_look(self._config))
        self._position = NamenodePosition(self._looks, self._namenode)
        # What the NameNode said at the last checkpoint; VERSION may lag behind it in a rolling upgrade.
        self._namespace: StorageInfo | None = None
        self._failures = MergeFailures()
        # The image that this process made of what this NameNode had; others may be of a past that it has lost.
        self._made_txid = -1
        self._stopping: Callable[[], bool] = lambda: False

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Take the checkpoint directories; the NameNode need not be there yet.

        Args:
            cancelled: asked until `close`: looks at a NameNode that does not answer end when it is true.

        Raises:
            StorageError: they are in use or cannot be used.
        """
        self._stopping = cancelled
        self._storage.open()

    def close(self) -> None:
        self._calls.close()
        self._looks.close()
        self._storage.close()

    def jobs(self) -> Sequence[Job]:
        return ()

    def reconfigure(self, config: CheckpointConfig) -> None:
        reconnects = config.rpc_timeout != self._config.rpc_timeout
        self._config = config
        self._fetcher.settings = FetcherSettings.of(config, self._retry)
        self._uploader.policy = UploadPolicy.for_one(config)
        if reconnects:
            # The next call connects with the new limit; one that runs is ended.
            self._calls.close()
            self._looks.close()

    @property
    def _namenode(self) -> str:
        host, port = self._config.namenode_rpc_addresses[0]
        return f"NameNode {host}:{port}"

    # ---- what it holds -------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        return self._storage.storage_info()

    def image_folders(self) -> list[Path]:
        return self._storage.image_folders()

    def latest_image(self) -> Path:
        newest = self._storage.latest_image()
        if newest is None:
            raise StorageError("there is no image yet", hint="Wait for the first checkpoint.")
        return newest.path

    def segments(self) -> list[EditLogSegment]:
        try:
            return [each for folder in self._storage.edits_folders() for each in list_segments(folder)]
        except OSError as fault:
            raise StorageError(
                f"the fetched edits cannot be listed: {fault}", hint="Check dfs.namenode.checkpoint.edits.dir."
            ) from fault

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> tuple[Target, ...]:
        return self._uploader.targets

    def storage(self) -> dict[str, str]:
        return self._storage.states()

    def alarms(self) -> list[str]:
        return self._failures.alarms()

    def details(self) -> dict[str, Any]:
        """`namenode`: RPC address; `mergeErrors` in a row, `maxRetries`: how many of them are borne."""
        return {
            "namenode": self._namenode.removeprefix("NameNode "),
            "mergeErrors": self._failures.count,
            "maxRetries": self._config.max_retries,
        }

    def progress(self) -> Progress:
        """Our newest image, -1 before the first, and how far the NameNode was when it was looked at last.

        Raises:
            HdfsError: it could not be asked then, or a directory cannot be read.
        """
        newest = self._newest_txid()
        return Progress(-1 if newest is None else newest, self._position.txid(newest))

    def _newest_txid(self) -> int | None:
        newest = self._storage.latest_image()
        return None if newest is None else newest.txid

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self._storage.leave_out_broken()
        if self._config.restore_directories and self._storage.has_dropped:
            self._storage.restore()
        self._position.ask(self._newest_txid(), self._stopping)

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Make the image of everything up to a roll that the NameNode is asked for.

        Raises:
            RoleGaveUpError: more merges in a row failed than `dfs.namenode.checkpoint.max-retries` allows.
            HdfsError: any other fault; what was fetched whole is used at the next attempt.
        """
        with _cancellation():
            signature, moved = self._roll(observer)
            info, base_txid = signature.storage_info, signature.most_recent_checkpoint_txid
            ask = partial(NamenodeClient.edit_log_manifest, since=base_txid + 1)
            logs = needed_logs(self._calls.call(ask, observer.cancelled), signature, self._namenode)
            observer.phase("fetch", None)
            # Of another upgrade, of a past that is lost, or of a merge that failed, nothing is taken for granted.
            afresh = moved or self._failures.count > 0 or self._is_of_another_past(logs)
            image, fetched = self._fetcher.image(base_txid, info, afresh=afresh, cancelled=observer.cancelled)
            if fetched:
                self._uploader.holds(self._address, base_txid)
            segments = self._fetcher.segments(logs, info, afresh=afresh, cancelled=observer.cancelled)
            result = self._merge(image, segments, signature, observer)
            self._namespace = info
            self._write_version(info, observer.cancelled)
        self._retain()
        return result

    def _roll(self, observer: Observer) -> tuple[CheckpointSignature, bool]:
        """Let the NameNode begin a segment; whether it was upgraded or rolled back since our last checkpoint."""
        # Asked first, so that nothing is rolled at a NameNode whose checkpoints we cannot make.
        described = self._calls.call(NamenodeClient.version_request, observer.cancelled)
        standing(self._storage.versions(), described.storage_info, self._namenode)
        signature = self._calls.call(NamenodeClient.roll_edit_log, observer.cancelled)
        info = signature.storage_info
        found = standing(self._storage.versions(), info, self._namenode)
        check_signature(signature, self._newest_txid(), self._namenode)
        self._position.rolled(signature.current_segment_txid)
        if found is Standing.FRESH:
            self._storage.format(info)
        moved = found is Standing.MOVED and info != self._namespace
        if moved:
            _LOG.warning("%s was upgraded or rolled back, its image and edits are fetched anew", self._namenode)
        return signature, moved

    def _is_of_another_past(self, logs: Sequence[RemoteEditLog]) -> bool:
        newest = self._newest_txid()
        problem = contradiction(-1 if newest is None else newest, self.segments(), logs)
        if problem:
            _LOG.warning("%s was set back, its image and edits are fetched anew: %s", self._namenode, problem)
        return bool(problem)

    def _merge(
        self, image: Path, segments: Sequence[EditLogSegment], signature: CheckpointSignature, observer: Observer
    ) -> MergeResult:
        base = signature.most_recent_checkpoint_txid
        # Behind an upgrade the NameNode's newest image may still be of the old layout, but edits are of the new one.
        layout = next_layout(image, signature.storage_info.layout_version)
        with self._failures.counted(self._config.max_retries):
            task = MergeTask(
                image=image,
                base_txid=base,
                segments=tuple(segments),
                last_txid=signature.current_segment_txid - 1,
                folders=tuple(self._storage.image_folders()),
                codec=self._config.image_codec,
                layout_version=layout,
                sub_sections=self._config.sub_sections,
                rules=self._config.replay_rules,
                memory=self._config.memory,
            )
            result = choose_engine(self._config.engine, task).merge(task, observer)
        self._made_txid = result.txid
        self._fetcher.trust(result.saved.paths)
        for warning in result.warnings:
            _LOG.error("fsimage_%019d: %s", result.txid, warning)
        for failure in result.saved.failures:
            self._storage.drop(failure.folder, failure.reason)
        return result

    def _write_version(self, info: StorageInfo, cancelled: Callable[[], bool]) -> None:
        """Take over a VERSION that has changed, but not while a rolling upgrade may still be rolled back."""
        if self._storage.versions() == {info}:
            return
        try:
            rolling = self._calls.call(NamenodeClient.is_rolling_upgrade, cancelled)
        except NoSuchRpcMethodError:
            # Hadoop 2 does not ask either.
            rolling = False
        if not rolling:
            self._storage.write_version(info)

    def _retain(self) -> None:
        config = self._config
        for warning in enforce_retention(
            self._storage.image_folders(),
            self._storage.edits_folders(),
            keep=config.images_retained,
            extra_edits=config.extra_edits_retained,
            max_segments=config.max_extra_segments,
        ):
            _LOG.warning("%s", warning)

    def upload(self, cancelled: Callable[[], bool], *, force: bool) -> Iterator[Upload]:
        """Offer our newest image to the NameNode unless it has that one or a newer one.

        Raises:
            StorageError: the image is of a past that the NameNode has lost; it is not offered.
            CheckpointCancelledError: `cancelled()` became true.
        """
        newest = self._storage.latest_image()
        if newest is None:
            return
        if self._uploader.targets[0].txid < newest.txid:
            try:
                lacking = self._calls.lacks_image(newest.txid, self._namenode, cancelled)
            except RpcError as error:
                _LOG.info("whether %s needs the image at txid %d is not known: %s", self._namenode, newest.txid, error)
                # One that lay here before may be of a past that the NameNode has lost.
                if newest.txid != self._made_txid:
                    return
            else:
                if not lacking:
                    self._uploader.holds(self._address, newest.txid)
        info = self._namespace or self._storage.storage_info()
        yield from self._uploader.offer(newest.path, newest.txid, info, cancelled, force=force)


@contextmanager
def _cancellation() -> Iterator[None]:
    """A transfer that was cancelled ends the checkpoint as a merge that was."""
    try:
        yield
    except TransferCancelledError as error:
        raise CheckpointCancelledError(error.message) from error
