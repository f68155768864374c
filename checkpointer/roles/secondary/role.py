"""The secondary role: lets the NameNode roll, fetches image and edits, merges them and gives the image back.

A checkpoint is a line of steps, and each may fail: ask whose the NameNode is, roll, compare the past, fetch the image
if ours is another, fetch segments, merge, prove, write VERSION. Nothing is kept of a step that failed but whole files
under their final names, which the next attempt checks and does not fetch again. `agreement.standing` says how our
storage is to the NameNode: FRESH is formatted by the first roll, MOVED fetches everything again, another namespace
ends the attempt.

What can never happen, and why:

- An image of two pasts is offered: base and segments are compared with the NameNode's own after the merge, and again
  right before the upload (`_confirm`).
- An image of ours that reaches up to the roll: the roll itself wrote the last transaction. Such an image is of a lost
  past, and is set aside.
- A roll at a NameNode that we cannot serve: its namespace and layout are asked for first.
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
from checkpointer.merging.engines import MergeTask, choose_engine, load_ahead
from checkpointer.past.namenode_witness import NamenodeWitness
from checkpointer.past.proof import PastVerdict, contradiction, refuse, require_whole, set_back
from checkpointer.past.provenance import ProvenanceStore, held_images, image_md5
from checkpointer.past.start_over import LostPast
from checkpointer.roles.role import Job, Progress, Upload, UploadTarget
from checkpointer.roles.secondary.agreement import VersionRelation, check_signature, compare_versions, needed_logs
from checkpointer.roles.secondary.fetch import Fetcher, FetcherSettings
from checkpointer.roles.secondary.merge_failures import MergeFailures
from checkpointer.roles.secondary.namenode import NamenodeCalls, NamenodePosition, connect, connect_probe
from checkpointer.roles.secondary.past import SecondaryPast
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.roles.uploader import Uploader, UploadPolicy
from checkpointer.storage.retention import enforce_retention
from checkpointer.storage.usable_images import ImageCopy
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.download import NO_SUCH_IMAGE
from checkpointer.transfer.retry import TransferRetry
from engine.errors import CheckpointCancelledError
from engine.loaded_image import next_layout
from engine.merge import MergeResult, Observer
from engine.txn_runs import ImageId, runs_of_segments
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import told
from hadoop_common.port_limits import Refusals
from hadoop_common.recurring_fault import Alarm
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import NoSuchRpcMethodError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointSignature, NamenodeClient, RemoteEditLog
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from journal.segment_extent import whole_segments
from journal.segment_file import EditLogSegment, list_segments
from servlets.errors import ImageRejectedError
from servlets.node_state import RoleDetails
from servlets.transfer_counter import TransferCounter
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryDetails(RoleDetails):
    """What a secondary tells besides.

    Attributes:
        namenode: RPC address.
        merge_errors: in a row; `max_retries`: how many of them are borne.
        lost_past: the last time that this node started over, None for never.
    """

    namenode: str
    merge_errors: int
    max_retries: int
    lost_past: LostPast | None


@dataclass(frozen=True, slots=True)
class _Roll:
    """A roll of the NameNode's log: how the NameNode described its namespace then, and the reading of our clock."""

    signature: CheckpointSignature
    described: StorageInfo
    at: float


class SecondaryRole:
    """Checkpoints for one NameNode without HA (`CheckpointRole`, SecondaryNameNode).

    Args:
        config: from the cluster's own configuration files.
        retry: when a download is tried again at once.
        clock: monotonic seconds, for how long a roll serves and when to offer an image again.
    """

    name = "secondary"

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        retry: TransferRetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock = clock
        self._retry = retry or TransferRetry()
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
        self._looks = NamenodeCalls(lambda: connect_probe(self._config))
        self._position = NamenodePosition(self._looks)
        # What the NameNode said at the last checkpoint; VERSION may lag behind it in a rolling upgrade.
        self._namespace: StorageInfo | None = None
        self._failures = MergeFailures()
        self._past = SecondaryPast(
            ProvenanceStore(self._storage.image_folders), lambda: held_images(self._storage.image_folders())
        )
        self._lost: LostPast | None = None
        # The newest roll, until an image is made for it.
        self._rolled: _Roll | None = None
        # Why the NameNode is not ours, "" while it is.
        self._stranger = ""
        self._stopping: Callable[[], bool] = lambda: False
        # whether the code that merges was loaded ahead
        self._is_warm = False

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
        self._storage.restores = config.restore_directories
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
                f"the fetched edits cannot be listed: {told(fault)}", hint="Check dfs.namenode.checkpoint.edits.dir."
            ) from fault

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> tuple[UploadTarget, ...]:
        return self._uploader.targets

    def storage(self) -> dict[str, str]:
        return self._storage.states()

    def alarms(self) -> list[str]:
        return [*([self._stranger] if self._stranger else []), *self._failures.alarms()]

    def space_shortage(self) -> str:
        return self._storage.space_shortage()

    def details(self) -> SecondaryDetails:
        return SecondaryDetails(
            namenode=self._namenode.removeprefix("NameNode "),
            merge_errors=self._failures.count,
            max_retries=self._config.max_retries,
            lost_past=self._lost,
        )

    def progress(self) -> Progress:
        """Our newest image, -1 before the first, and how far the NameNode was when it was looked at last.

        Raises:
            HdfsError: it could not be asked then, or a directory cannot be read.
        """
        newest = self._storage.latest_image()
        txid = self._position.txid()
        if newest is None:
            return Progress(-1, txid, None)
        # One that was only fetched is no checkpoint: after a fault that followed, it would seem to be just made.
        return Progress(newest.txid, txid, newest.written_at if self._is_ours(newest) else None)

    def _is_ours(self, image: ImageCopy) -> bool:
        try:
            return self._past.is_ours(ImageId(image.txid, image_md5(image.path)))
        except HdfsError:
            return False

    def _newest_txid(self) -> int | None:
        newest = self._storage.latest_image()
        return None if newest is None else newest.txid

    def _ahead_of(self, txid: int) -> int | None:
        """Txid of our newest image, where that is after `txid`; nothing is concluded from a damaged file."""
        ahead = (held.txid for held in held_images(self._storage.image_folders()) if held.txid > txid)
        return next(filter(self._storage.is_whole, ahead), None)

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self._storage.revise()
        theirs = self._position.ask(self._stopping)
        ours = None if theirs is None else self._ahead_of(theirs)
        if ours is not None:
            # One that was reformatted is another namespace, which is for the operator to see to.
            self._check_namespace(self._stopping)
            self._set_aside(set_back(f"our newest image is of txid {ours}, but it has written no more than {theirs}"))

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Fetch the NameNode's newest image, once there is a first of ours; edits are small beside it.

        The code that merges is loaded the first time.
        """
        if not self._is_warm:
            self._is_warm = True
            load_ahead()
        with _cancellation():
            info = self._check_namespace(cancelled)
            if self._storage.versions() != {info}:
                # It is new, or follows an upgrade: that is for a checkpoint to see to.
                return
            newest = self._calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
            if newest != self._newest_txid():
                witness = self._witness(cancelled)
                self._base(newest, info, witness, witness.active_life(), refetch=False, cancelled=cancelled)
                self._uploader.holds(self._address, newest)
                self._retain()

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Make the image of everything up to a roll that the NameNode is asked for.

        A roll that an attempt was made for that failed serves the next ones too, for a period, unless they are forced.

        Raises:
            RoleGaveUpError: more merges in a row failed than `dfs.namenode.checkpoint.max-retries` allows.
            HdfsError: any other fault; what was fetched whole is used at the next attempt.
        """
        with _cancellation():
            signature, moved = self._begin(observer, forced=forced)
            # Of another upgrade, or of a merge that failed, nothing is taken for granted.
            refetch = moved or self._failures.count > 0
            try:
                result = self._made(signature, observer, refetch=refetch)
            except (TransferError, ImageFormatError) as error:
                older = None if moved else self._older_base(signature.most_recent_checkpoint_txid, error)
                if older is None:
                    raise
                _LOG.error("%s; continuing from the image before it, at txid %d", error.message, older)
                signature = replace(signature, most_recent_checkpoint_txid=older)
                result = self._made(signature, observer, refetch=False)
            info = signature.storage_info
            self._namespace = info
            self._write_version(info, observer.cancelled)
        self._retain()
        return result

    def _made(self, signature: CheckpointSignature, observer: Observer, *, refetch: bool) -> MergeResult:
        """Fetch what is needed from the image that `signature` names on, and merge it.

        Raises:
            HdfsError: see `checkpoint`.
        """
        info, base_txid = signature.storage_info, signature.most_recent_checkpoint_txid
        ask = partial(NamenodeClient.edit_log_manifest, since=base_txid + 1)
        manifest = self._calls.call(ask, observer.cancelled)
        # Should it not fit, the next attempt rolls again.
        rolled, self._rolled = self._rolled, None
        logs = needed_logs(manifest, signature, self._namenode)
        self._rolled = rolled
        observer.phase("fetch", None)
        witness = self._witness(observer.cancelled)
        # asked before anything is compared with this process, or fetched from it
        life = witness.active_life()
        self._leave_lost_past(witness, logs)
        image = self._base(base_txid, info, witness, life, refetch=refetch, cancelled=observer.cancelled)
        base = ImageId(base_txid, image_md5(image))
        segments = self._fetcher.segments(logs, info, witness, refetch=refetch, cancelled=observer.cancelled)
        result = self._merge(image, segments, signature, observer)
        self._rolled = None
        made = ImageId(result.txid, result.saved.md5)
        self._past.made(made, base, runs_of_segments(segments), life)
        verdict = self._past.compare(made, witness)
        if not verdict.holds:
            _LOG.warning("whether the image at txid %d is of one past is not known: %s", result.txid, verdict.reason)
        return result

    def _base(
        self,
        txid: int,
        info: StorageInfo,
        witness: NamenodeWitness,
        life: tuple[str, int] | None,
        *,
        refetch: bool,
        cancelled: Callable[[], bool],
    ) -> Path:
        """Return the NameNode's image at `txid`, fetched unless it is here; `life` is its process since before.

        Raises:
            HdfsError: see `Fetcher.image`.
        """
        image, fetched = self._fetcher.image(txid, info, witness, refetch=refetch, cancelled=cancelled)
        if fetched:
            self._past.fetched(ImageId(txid, image_md5(image)), life, witness)
            self._uploader.holds(self._address, txid)
        return image

    def _older_base(self, unreadable_txid: int, error: HdfsError) -> int | None:
        """Txid of a whole image of ours before the NameNode's newest one, where `error` is damage of that one."""
        if isinstance(error, UnsupportedLayoutError | UnsupportedCodecError):
            return None
        if isinstance(error, TransferError):
            damaged = (
                isinstance(error.__cause__, ImageFormatError | ImageRejectedError) or error.status in NO_SUCH_IMAGE
            )
            if not damaged:
                return None
        held = (each.txid for each in held_images(self._storage.image_folders()) if each.txid < unreadable_txid)
        return next(filter(self._storage.is_whole, held), None)

    def _check_namespace(self, cancelled: Callable[[], bool]) -> StorageInfo:
        """Ask the NameNode whose it is; another namespace than ours is an alarm until it is ours again.

        Raises:
            StorageError: it has another namespace.
            UnsupportedLayoutError: its layout is none that edits can be replayed in.
        """
        info = self._calls.call(NamenodeClient.version_request, cancelled).storage_info
        try:
            compare_versions(self._storage.versions(), info, self._namenode)
        except StorageError as error:
            self._stranger = Alarm(error.message, error.hint)
            raise
        self._stranger = ""
        return info

    def _begin(self, observer: Observer, *, forced: bool) -> tuple[CheckpointSignature, bool]:
        """A roll up to which the image is made; whether the NameNode was upgraded or rolled back since our last one."""
        # Asked first, so that nothing is rolled where no checkpoint can be made of it.
        self._storage.require_space()
        described = self._check_namespace(observer.cancelled)
        signature = None if forced else self._earlier_roll(described, observer)
        if signature is None:
            signature = self._roll(observer)
            self._rolled = _Roll(signature, described, self._clock())
        info = signature.storage_info
        found = compare_versions(self._storage.versions(), info, self._namenode)
        if found is VersionRelation.FRESH:
            self._storage.format(info)
        moved = found is VersionRelation.MOVED and info != self._namespace
        if moved:
            _LOG.warning("%s was upgraded or rolled back; fetching its image and edits again", self._namenode)
        return signature, moved

    def _earlier_roll(self, described: StorageInfo, observer: Observer) -> CheckpointSignature | None:
        """The roll of an attempt that failed, as long as its segments are what lies behind the NameNode's image."""
        rolled = self._rolled
        if rolled is None or described != rolled.described or self._clock() - rolled.at >= self._config.period:
            return None
        newest = self._calls.call(NamenodeClient.most_recent_checkpoint_txid, observer.cancelled)
        return rolled.signature if newest == rolled.signature.most_recent_checkpoint_txid else None

    def _roll(self, observer: Observer) -> CheckpointSignature:
        """Let the NameNode begin a segment."""
        signature = self._calls.call(NamenodeClient.roll_edit_log, observer.cancelled)
        compare_versions(self._storage.versions(), signature.storage_info, self._namenode)
        check_signature(signature, self._namenode)
        ended = signature.current_segment_txid - 1
        # The roll itself wrote the last transaction, so that no image can hold that one yet.
        newest = self._ahead_of(ended - 1)
        if newest is not None:
            self._set_aside(
                set_back(f"our newest image is of txid {newest}, but its segment ended at {ended} just now")
            )
        self._position.rolled(signature.current_segment_txid)
        return signature

    # ---- the past ------------------------------------------------------------------------------------------

    def _witness(self, cancelled: Callable[[], bool]) -> NamenodeWitness:
        return NamenodeWitness(
            self._address,
            lambda since: self._calls.call(lambda client: client.edit_log_manifest(since), cancelled),
            lambda: self._calls.call(NamenodeClient.transaction_id, cancelled),
            timeout=self._config.transfer_timeout,
            cancelled=cancelled,
        )

    def _leave_lost_past(self, witness: NamenodeWitness, logs: Sequence[RemoteEditLog]) -> None:
        """Set aside what is here where the NameNode was set back since: it is not to be served, nor taken for new."""
        for newest in (*held_images(self._storage.image_folders()), None):
            verdict = self._lost_by(newest, witness, logs)
            if verdict is None:
                return
            # Nothing is concluded from a damaged file, but the one before it may tell the same.
            if newest is None or self._storage.is_whole(newest.txid):
                self._set_aside(verdict)
                return

    def _lost_by(
        self, newest: ImageId | None, witness: NamenodeWitness, logs: Sequence[RemoteEditLog]
    ) -> PastVerdict | None:
        """Return what says that our newest image is not of the NameNode's past, None where nothing does."""
        txid, local = -1 if newest is None else newest.txid, self.segments()
        problem = contradiction(txid, local, logs)
        if problem:
            # nothing is concluded from a file that is no segment
            problem = contradiction(txid, whole_segments(local), logs)
        if problem:
            return set_back(problem)
        if newest is None or witness.image_md5(newest.txid) == newest.md5:
            return None
        verdict = self._past.compare(newest, witness)
        return verdict if verdict.lost else None

    def _set_aside(self, verdict: PastVerdict) -> None:
        self._lost = LostPast.of(verdict.cause(self._namenode), self._storage.set_aside())
        _LOG.warning("%s; %s", self._lost.reason, self._lost.sentence())
        self._past.forget()
        self._rolled = None
        self._uploader.forget()

    def _confirm(self, image: Path, txid: int) -> None:
        """Right before an image is sent: it is of the NameNode's past as it is now.

        Raises:
            StorageError: it is not, and was set aside; or it is damaged.
            TransferError: that cannot be told now.
        """
        verdict = self._past.compare(ImageId(txid, image_md5(image)), self._witness(self._stopping))
        if verdict.holds:
            return
        if verdict.lost:
            require_whole(image, txid)
            self._set_aside(verdict)
        refuse(verdict, txid, self._namenode)

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
                settings=replace(self._config.merge_settings, layout_version=layout),
            )
            result = choose_engine(self._config.engine, task).merge(task, observer)
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
                theirs = self._calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
            except RpcError as error:
                _LOG.info("whether %s needs the image at txid %d is not known: %s", self._namenode, newest.txid, error)
            else:
                if theirs >= newest.txid:
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
