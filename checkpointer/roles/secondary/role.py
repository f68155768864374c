"""The secondary role: requests a roll, fetches image and edits, merges them, and uploads the new image.

A checkpoint is a sequence of steps, each of which may fail: check the NameNode's namespace, roll, compare the past,
fetch the image and segments that differ from ours, merge, prove, write VERSION. After a failed step, only complete
files have their final names. The next attempt checks these files instead of fetching them again.
`agreement.compare_versions` determines the relation of our storage to the NameNode. The first roll formats FRESH
storage. For MOVED storage, the role fetches the contents again. A NameNode of another namespace ends the attempt.

The role prevents these faults:

- An image of two pasts is offered. The role compares base image and segments with the NameNode's after the merge, and
  again immediately before the upload (`_confirm`).
- An image that already contains the roll is treated as valid. The roll wrote the last transaction, so such an image
  belongs to a lost past; the role starts over.
- A NameNode rolls its log although we cannot make its checkpoints. The role checks the NameNode's namespace and layout
  before the roll.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from checkpointer.errors import TransferError
from checkpointer.merging.engines import load_ahead
from checkpointer.roles.checkpoint_end import purge
from checkpointer.roles.role import Job, Progress
from checkpointer.roles.secondary.agreement import needed_logs
from checkpointer.roles.secondary.archive_edits import ArchiveEdits
from checkpointer.roles.secondary.fetch import Fetcher, FetcherSettings, shows_damage
from checkpointer.roles.secondary.first_image import FirstImageFetch
from checkpointer.roles.secondary.merging import MergeFailures, merge_checkpoint
from checkpointer.roles.secondary.namenode import NamenodeCalls, NamenodePosition, connect, connect_probe
from checkpointer.roles.secondary.rolls import NamenodeRolls
from checkpointer.roles.secondary.set_back import PastGuard, SecondaryPast
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.namenode_witness import NamenodeWitness
from checkpointer.set_back.proof import set_back
from checkpointer.set_back.provenance import ProvenanceStore, image_md5
from checkpointer.set_back.start_over import LostPast
from checkpointer.storage.usable_images import ImageCopy
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.download import NO_SUCH_IMAGE
from checkpointer.transfer.download_retry import DownloadRetry
from checkpointer.transfer.upload_target import Upload, UploadTarget
from checkpointer.transfer.uploader import Uploader, UploadPolicy
from engine.errors import CheckpointCancelledError
from engine.merge import MergeResult, Observer
from engine.txn_runs import ImageId, runs_of_segments
from hadoop_common.addresses import host_port
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from hadoop_rpc.errors import NoSuchRpcMethodError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointSignature, EditLogManifest, NamenodeClient
from image_format.errors import ImageFormatError
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, read_operations
from node_state.state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryDetails(RoleDetails):
    """Details of a secondary.

    Attributes:
        namenode: RPC address of the NameNode.
        merge_errors: number of consecutive failed merges; `max_retries`: number of tolerated failures.
        lost_past: record of the last time that this node started over; None if it has never started over.
    """

    namenode: str
    merge_errors: int
    max_retries: int
    lost_past: LostPast | None


class SecondaryRole:
    """Role that makes checkpoints for one NameNode without HA (`CheckpointRole`, SecondaryNameNode).

    Args:
        config: settings from the cluster's configuration files.
        retry: rule for the immediate retry of a failed download.
        clock: monotonic seconds, for the validity of a roll and the time of an image's next offer.
    """

    name = "secondary"

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        retry: DownloadRetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock = clock
        self._retry = retry or DownloadRetry()
        self._storage = SecondaryStorage(
            config.image_directories,
            config.edits_directories,
            permission=config.storage_permission,
            restore=config.restore_directories,
        )
        self._address = config.namenode_http_addresses[0]
        self.counter = TransferCounter()
        self.refusals = Refusals()
        settings = FetcherSettings.of(config, self._retry)
        self._fetcher = Fetcher(self._address, self._storage, settings, count=self.counter.add_received)
        self._uploader = Uploader(
            [self._address],
            UploadPolicy.for_one(config),
            confirm=self._confirm,
            count=self.counter.add_sent,
            clock=clock,
        )
        self._calls = NamenodeCalls(lambda: connect(self._config))
        self._probe = NamenodeCalls(lambda: connect_probe(self._config))
        self._position = NamenodePosition(self._probe)
        # namespace at the last checkpoint; VERSION may be older during a rolling upgrade
        self._namespace: StorageInfo | None = None
        self._failures = MergeFailures()
        self._past = SecondaryPast(ProvenanceStore(self._storage.image_folders), self._storage.held_images)
        host, port = config.namenode_rpc_addresses[0]
        self._rpc_address = host_port(host, port)
        self._namenode = f"NameNode {self._rpc_address}"
        self._archive_edits = ArchiveEdits(self._fetcher, self._storage, self._past)
        self._guard = PastGuard(self._namenode, self._storage, self._past, self._forget_offers)
        self._rolls = NamenodeRolls(
            self._namenode,
            self._storage,
            self._calls,
            self._position,
            self._guard,
            period=config.period,
            clock=clock,
            shadow=config.shadow,
        )
        # last transaction that a checkpoint without a roll would contain
        self._mergeable = NamenodePosition(self._probe, self._rolls.mergeable_txid)
        self._first_image = FirstImageFetch(clock)
        self._stopping: Callable[[], bool] = lambda: False
        # whether the code for merges was loaded in advance
        self._is_warm = False

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Lock the checkpoint directories, which does not require a running NameNode.

        Args:
            cancelled: called until `close`; when it returns True, waiting calls to the NameNode end.

        Raises:
            StorageError: a directory is in use or cannot be used.
        """
        self._stopping = cancelled
        self._storage.open()
        self._guard.resume()

    def close(self) -> None:
        self._calls.close()
        self._probe.close()
        self._storage.close()

    def jobs(self) -> Sequence[Job]:
        return ()

    def reconfigure(self, config: CheckpointConfig) -> None:
        reconnects = config.rpc_timeout != self._config.rpc_timeout
        self._config = config
        self._storage.restores = config.restore_directories
        self._fetcher.settings = FetcherSettings.of(config, self._retry)
        self._uploader.policy = UploadPolicy.for_one(config)
        self._rolls.period = config.period
        if reconnects:
            # The next call connects with the new timeout; a running call ends.
            self._calls.close()
            self._probe.close()

    # ---- contents -----------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        return self._storage.storage_info()

    def image_folders(self) -> list[Path]:
        return self._storage.image_folders()

    def serving_folders(self) -> list[Path]:
        self._storage.refuse_lost()
        return self._storage.image_folders()

    def latest_image(self) -> Path:
        return self._newest_image().path

    def confirm_image(self) -> Path:
        image = self._newest_image()
        self._confirm(image.path, image.txid)
        return image.path

    def _newest_image(self) -> ImageCopy:
        self._storage.refuse_lost()
        newest = self._storage.latest_image()
        if newest is None:
            raise StorageError("there is no image yet", hint="Wait for the next checkpoint.")
        return newest

    def segments(self) -> list[EditLogSegment]:
        self._storage.refuse_lost()
        return self._storage.segments()

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        return read_operations(self.segments(), first, last)

    @property
    def warm_namespace(self) -> None:
        """None, because the namespace exists only during a checkpoint."""

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> tuple[UploadTarget, ...]:
        return self._uploader.targets

    def storage(self) -> dict[str, str]:
        return self._storage.states()

    def alarms(self) -> list[str]:
        return [*filter(None, (self._guard.alarm, self._rolls.alarm)), *self._failures.alarms()]

    def space_shortage(self) -> str:
        return self._storage.space_shortage()

    def details(self) -> SecondaryDetails:
        return SecondaryDetails(
            namenode=self._rpc_address,
            merge_errors=self._failures.count,
            max_retries=self._config.max_retries,
            lost_past=self._guard.lost,
        )

    def progress(self) -> Progress:
        """Return the txids of our newest image (-1 if there is none) and of the NameNode's last known transaction.

        In shadow mode, the latter is the last transaction of the NameNode's finalized segments.

        Raises:
            ProgressPendingError: `prepare` has not queried the NameNode yet.
            HdfsError: the NameNode could not be queried, or a directory cannot be read.
        """
        newest = self._storage.latest_image()
        txid = (self._mergeable if self._config.shadow else self._position).txid()
        if newest is None:
            return Progress(-1, txid, None)
        # A fetched image has no checkpoint time; otherwise, after a later fault, it would appear as a new checkpoint.
        made = self._past.made_here(newest.txid, newest.path)
        return Progress(newest.txid, txid, newest.written_at if made else None)

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self._storage.revise()
        theirs = self._position.ask(self._stopping)
        ours = None if theirs is None else self._guard.ahead_of(theirs)
        if ours is not None:
            # A reformatted NameNode has another namespace, which requires an operator's attention.
            self._rolls.check_namespace(self._stopping)
            reason = f"our newest image is at txid {ours}, but the NameNode has written only up to {theirs}"
            self._guard.start_over(set_back(reason))
        if self._config.shadow:
            self._mergeable.ask(self._stopping)
            if self._storage.latest_image() is None:
                # If another checkpointer is also running, an image of the NameNode soon contains most segments.
                self._first_image.run(self._fetch_first)
                self._mergeable.ask(self._stopping)

    def _fetch_first(self) -> None:
        self._storage.require_space()
        self.keep_up(self._stopping)

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """If this node already has an image, fetch the NameNode's newest image. Do not fetch edits, because they are
        much smaller.

        In shadow mode, also fetch the first image. The first call loads the code for merges.
        """
        if not self._is_warm:
            self._is_warm = True
            load_ahead()
        with _cancellation():
            info = self._rolls.check_namespace(cancelled)
            if self._config.shadow and not self._storage.versions():
                self._storage.format(info)
            if self._storage.versions() != {info}:
                # A checkpoint handles new storage and upgrades.
                return
            newest = self._calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
            ours = self._storage.latest_image()
            if ours is None or newest != ours.txid:
                witness = self._witness(cancelled)
                life = witness.active_life()
                manifest = self._manifest(cancelled)(0)
                # do not purge images of a lost past in favour of the NameNode's images
                self._guard.leave_lost_past(witness, manifest.logs, if_not_compared=False)
                self._base(newest, info, witness, life, refetch=False, moved=False, cancelled=cancelled)
                self._uploader.holds(self._address, newest)
                self._retain()

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Make an image with all edits up to a roll of the NameNode.

        For one period after a failed attempt, later attempts use the roll of that attempt, unless they are forced.

        Raises:
            RoleGaveUpError: more consecutive merges failed than `dfs.namenode.checkpoint.max-retries` allows.
            HdfsError: any other fault; the next attempt uses the files that were fetched completely.
        """
        with _cancellation():
            signature, moved = self._rolls.begin(observer.cancelled, forced=forced, adopted=self._namespace)
            # After an upgrade or a failed merge, do not trust local files.
            refetch = moved or self._failures.count > 0
            try:
                result = self._merge(signature, observer, refetch=refetch, moved=moved)
            except (TransferError, ImageFormatError) as error:
                older = None if moved else self._older_base(signature.most_recent_checkpoint_txid, error)
                if older is None:
                    raise
                _LOG.error("%s; continuing from the image before it, at txid %d", error.message, older)
                signature = replace(signature, most_recent_checkpoint_txid=older)
                result = self._merge(signature, observer, refetch=False, moved=False)
            info = signature.storage_info
            self._namespace = info
            self._write_version(info, observer.cancelled)
        self._retain()
        return result

    def _merge(self, signature: CheckpointSignature, observer: Observer, *, refetch: bool, moved: bool) -> MergeResult:
        """Fetch the image of `signature` and the segments after it, and merge them; `moved`: see `_base`.

        Raises:
            HdfsError: see `checkpoint`.
        """
        info, base_txid, cancelled = signature.storage_info, signature.most_recent_checkpoint_txid, observer.cancelled
        manifest = self._manifest(cancelled)(base_txid + 1)
        try:
            logs = needed_logs(manifest, signature, self._namenode)
        except TransferError:
            self._rolls.forget()
            raise
        observer.phase("fetch", None)
        witness = self._witness(cancelled)
        # query the NameNode's process before any fetch from it or comparison with it
        life = witness.active_life()
        self._guard.leave_lost_past(witness, logs)
        image = self._base(base_txid, info, witness, life, refetch=refetch, moved=moved, cancelled=cancelled)
        base = ImageId(base_txid, image_md5(image))
        segments = self._fetcher.segments(logs, info, witness, refetch=refetch, cancelled=cancelled)
        result = merge_checkpoint(image, segments, signature, self._storage, self._config, self._failures, observer)
        self._rolls.forget()
        made = ImageId(result.txid, result.saved.md5)
        self._past.made(made, base, runs_of_segments(segments), life)
        verdict = self._past.compare(made, witness)
        if not verdict.holds:
            _LOG.warning(
                "it is not known whether all of the image at txid %d belongs to one past: %s",
                result.txid,
                verdict.reason,
            )
        if self._config.archive.directory:
            self._archive_edits.want(base_txid, info)
        return result

    def _manifest(self, cancelled: Callable[[], bool]) -> Callable[[int], EditLogManifest]:
        """Return a function that returns the NameNode's segments from a txid on."""
        return lambda since: self._calls.call(lambda client: client.edit_log_manifest(since), cancelled)

    def _base(
        self,
        txid: int,
        info: StorageInfo,
        witness: NamenodeWitness,
        life: tuple[str, int] | None,
        *,
        refetch: bool,
        moved: bool,
        cancelled: Callable[[], bool],
    ) -> Path:
        """Return the NameNode's image at `txid`, and fetch it if necessary.

        Args:
            life: the NameNode's process before the fetch.
            moved: whether the NameNode was upgraded, so that our copy is not used even if the NameNode lacks the image.

        Raises:
            HdfsError: see `Fetcher.image`.
        """
        is_lost = self._storage.is_lost
        refetch = refetch or is_lost
        if self._config.shadow and not refetch and (made := self._guard.copy_made_here(txid)) is not None:
            return made
        fetch = partial(self._fetcher.image, txid, info, witness, refetch=refetch, cancelled=cancelled)
        try:
            image, fetched = self._guard.replace(txid, fetch) if is_lost else fetch()
        except TransferError as error:
            # a NameNode keeps few images, but may still have the edits that prove our image
            unusable = moved or is_lost or error.status not in NO_SUCH_IMAGE
            proved = None if unusable else self._guard.proved_copy(txid, witness)
            if proved is None:
                raise
            return proved
        if fetched:
            self._past.fetched(ImageId(txid, image_md5(image)), life, witness)
            self._uploader.holds(self._address, txid)
        return image

    def _older_base(self, unreadable_txid: int, error: HdfsError) -> int | None:
        """Return the txid of our newest undamaged image before the NameNode's image; None unless `error` shows damage
        in the NameNode's image.
        """
        if not shows_damage(error):
            return None
        held = (each.txid for each in self._storage.held_images() if each.txid < unreadable_txid)
        return next(filter(self._storage.is_whole, held), None)

    def _witness(self, cancelled: Callable[[], bool]) -> NamenodeWitness:
        return NamenodeWitness(
            self._address,
            self._manifest(cancelled),
            lambda: self._calls.call(NamenodeClient.transaction_id, cancelled),
            timeout=self._config.transfer_timeout,
            cancelled=cancelled,
            lacks=lambda txid: self._config.shadow and self._guard.copy_made_here(txid) is not None,
        )

    def _forget_offers(self) -> None:
        self._archive_edits.forget()
        self._rolls.forget()
        self._uploader.forget()

    def _confirm(self, image: Path, txid: int) -> None:
        self._guard.confirm(image, txid, self._witness(self._stopping))

    def _write_version(self, info: StorageInfo, cancelled: Callable[[], bool]) -> None:
        """Adopt a changed VERSION, except while a rolling upgrade may still be rolled back."""
        if self._storage.versions() == {info}:
            return
        try:
            rolling = self._calls.call(NamenodeClient.is_rolling_upgrade, cancelled)
        except NoSuchRpcMethodError:
            # Hadoop 2 does not have this query.
            rolling = False
        if not rolling:
            self._storage.write_version(info)

    def _retain(self) -> None:
        purge(self._storage.image_folders(), self._storage.edits_folders(), self._config)

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        """Offer our newest image to the NameNode, unless it has this image or a newer image. Before, fetch edits that
        only the archive needs.

        Raises:
            StorageError: the NameNode has another namespace, or has lost the image's past; the image is not offered.
            CheckpointCancelledError: `cancelled()` became true during the offer.
        """
        if self._config.archive.directory:
            extra = self._config.extra_edits_retained
            self._archive_edits.fetch(self._manifest(cancelled), self._witness(cancelled), cancelled, extra_edits=extra)
        newest = self._storage.latest_image()
        if newest is None or self._config.shadow:
            return
        if self._uploader.targets[0].txid < newest.txid:
            try:
                self._rolls.check_namespace(cancelled)
                theirs = self._calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
            except RpcError as error:
                _LOG.info("%s may need the image at txid %d: %s", self._namenode, newest.txid, error)
            else:
                if theirs >= newest.txid:
                    self._uploader.holds(self._address, newest.txid)
        info = self._namespace or self._storage.storage_info()
        yield from self._uploader.offer(newest.path, newest.txid, info, cancelled, force=force, began=began)


@contextmanager
def _cancellation() -> Iterator[None]:
    """Convert the cancellation of a transfer to CheckpointCancelledError."""
    try:
        yield
    except TransferCancelledError as error:
        raise CheckpointCancelledError(error.message) from error
