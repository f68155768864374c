"""The secondary role: lets the NameNode roll, fetches image and edits, merges them and gives the image back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.role import Job, Progress, Target, Upload
from checkpointer.daemon.uploader import Uploader, UploadPolicy
from checkpointer.errors import CheckpointCancelledError, StorageError
from checkpointer.merge import MergeResult, Observer, merge
from checkpointer.secondary.agreement import Standing, check_signature, needed_logs, standing
from checkpointer.secondary.fetch import Fetcher, FetcherSettings
from checkpointer.secondary.merge_failures import MergeFailures
from checkpointer.secondary.namenode import NamenodeCalls
from checkpointer.secondary.position import NamenodePosition
from checkpointer.secondary.storage import SecondaryStorage
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.retry import TransferRetry
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import NoSuchRpcMethodError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointSignature, NamenodeClient
from hadoop_rpc.retry import NO_RETRY
from journal.segment_file import EditLogSegment, list_segments, read_transactions
from servlets.transfer_counter import TransferCounter

__all__ = ["SecondaryRole"]

_LOG = logging.getLogger(__name__)
# A poll only looks how far the NameNode is; one that does not answer soon is looked at again at the next.
_LOOK_SECONDS = 20.0


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
        self._uploader = Uploader([self._address], _policy(config), count=self.counter.add_sent)
        self._calls = NamenodeCalls(self._connect)
        self._looks = NamenodeCalls(self._connect_to_look)
        self._position = NamenodePosition(self._looks, self._namenode)
        # What the NameNode said at the last checkpoint; VERSION may lag behind it in a rolling upgrade.
        self._namespace: StorageInfo | None = None
        self._failures = MergeFailures()

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Take the checkpoint directories; the NameNode need not be there yet.

        Raises:
            StorageError: they are in use or cannot be used.
        """
        self._storage.open()

    def close(self) -> None:
        self._calls.close()
        self._looks.close()
        self._storage.close()

    def jobs(self) -> Sequence[Job]:
        return ()

    def reconfigure(self, config: CheckpointConfig) -> None:
        self._config = config
        self._fetcher.settings = FetcherSettings.of(config, self._retry)
        self._uploader.policy = _policy(config)
        # The next call connects with the new limits.
        self._calls.close()
        self._looks.close()

    def _connect(self) -> NamenodeClient:
        host, port = self._config.namenode_rpc_addresses[0]
        return NamenodeClient(host, port, user=self._config.rpc_user, timeout=self._config.rpc_timeout)

    def _connect_to_look(self) -> NamenodeClient:
        host, port = self._config.namenode_rpc_addresses[0]
        limit = min(_LOOK_SECONDS, self._config.rpc_timeout)
        return NamenodeClient(
            host, port, user=self._config.rpc_user, timeout=limit, connect_timeout=limit, retry=NO_RETRY
        )

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
        self._position.ask(self._newest_txid())

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
            # Of another upgrade, or of a merge that failed, nothing is taken for granted.
            afresh = moved or self._failures.count > 0
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

    def _merge(
        self, image: Path, segments: Sequence[EditLogSegment], signature: CheckpointSignature, observer: Observer
    ) -> MergeResult:
        base = signature.most_recent_checkpoint_txid
        with self._failures.counted(self._config.max_retries):
            result = merge(
                image,
                read_transactions(segments, base + 1),
                self._storage.image_folders(),
                expected=signature.current_segment_txid - 1 - base,
                codec=self._config.image_codec,
                sub_sections=self._config.sub_sections,
                rules=self._config.replay_rules,
                observer=observer,
            )
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
            CheckpointCancelledError: `cancelled()` became true.
        """
        newest = self._storage.latest_image()
        if newest is None:
            return
        if self._uploader.targets[0].txid < newest.txid and self._has_newer(newest.txid, cancelled):
            self._uploader.holds(self._address, newest.txid)
        info = self._namespace or self._storage.storage_info()
        yield from self._uploader.offer(newest.path, newest.txid, info, cancelled, force=force)

    def _has_newer(self, txid: int, cancelled: Callable[[], bool]) -> bool:
        try:
            return self._calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled) >= txid
        except RpcError as error:
            _LOG.info("whether %s needs the image at txid %d is not known: %s", self._namenode, txid, error)
            return False


def _policy(config: CheckpointConfig) -> UploadPolicy:
    """One NameNode, whose only checkpointer we are, gets every image."""
    return replace(UploadPolicy.of(config), quiet_period=0.0)


@contextmanager
def _cancellation() -> Iterator[None]:
    """A transfer that was cancelled ends the checkpoint as a merge that was."""
    try:
        yield
    except TransferCancelledError as error:
        raise CheckpointCancelledError(error.message) from error
