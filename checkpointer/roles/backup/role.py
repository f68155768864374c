"""The backup role: a NameNode streams its edits to this node and receives checkpoints (BackupNode, Checkpointer).

One lock serialises checks of the NameNode (`StreamUpkeep`) and checkpoints (`BackupCheckpoints`). The stream runs in
parallel, with separate states (`checkpointer.roles.backup.states`). A checkpoint freezes the namespace at the start of
a segment, saves it, and returns it to the stream. The receiver writes edits that arrive during a checkpoint
immediately, and applies them afterwards.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checkpointer.roles.backup.checkpoints import BackupCheckpoints
from checkpointer.roles.backup.folders import FailedFolders, check_storage, initialize_storage
from checkpointer.roles.backup.follower import BackupFollower
from checkpointer.roles.backup.namenode_link import NamenodeLink, OwnAddresses
from checkpointer.roles.backup.own_segments import local_segments
from checkpointer.roles.backup.receiver import JournalReceiver
from checkpointer.roles.backup.states import BackupState
from checkpointer.roles.backup.stream_upkeep import StreamUpkeep, UpkeepPace
from checkpointer.roles.role import Job, Progress
from checkpointer.roles.stored_role import StoredRole
from checkpointer.set_back.namenode_witness import NamenodeWitness
from checkpointer.set_back.provenance import ProvenanceStore, held_images
from checkpointer.set_back.start_over import LostPast
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore
from checkpointer.transfer.upload_target import Upload
from checkpointer.transfer.uploader import Uploader, UploadPolicy
from engine.errors import CheckpointError
from engine.observer import Observer
from engine.txn_runs import ImageId, TxnRecorder
from engine.warm_namespace import MergeResult, WarmNamespace
from hadoop_common.access import AccessRules, Right
from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError
from hadoop_common.port_limits import Refusals
from hadoop_common.throttle import Throttle
from hadoop_common.transfer_counter import TransferCounter
from hadoop_rpc.errors import RpcError
from hadoop_rpc.journal_protocol import journal_service
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import access_checked
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, read_operations
from node_state.state import RoleDetails
from servlets.server_security import ServerSecurity
from site_config.checkpoint_config import CheckpointConfig
from site_config.kerberos import open_security

_LOG = logging.getLogger(__name__)
FOLLOW_SECONDS = 2.0
# the NameNode uses one connection, but connections from its previous process may still be open
_HANDLERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDetails(RoleDetails):
    """Details of a backup node: the position of its stream.

    Attributes:
        stream_txid: newest transaction received; `namenode_txid`: newest known transaction of the NameNode.
        streamed: transactions received since the start.
        registered: whether this node is registered at the NameNode.
        lost_past: record of the last time that this node started over; None if it has never started over.
    """

    state: BackupState
    stream_txid: int
    namenode_txid: int
    streamed: int
    registered: bool
    lost_past: LostPast | None


@dataclass(frozen=True, slots=True)
class OpenBackup:
    """The parts of an open backup node; `security` protects the stream's server."""

    link: NamenodeLink
    follower: BackupFollower
    receiver: JournalReceiver
    upkeep: StreamUpkeep
    checkpoints: BackupCheckpoints
    security: ServerSecurity


class BackupRole(StoredRole):
    """A subordinate node of one NameNode (`CheckpointRole`).

    Args:
        config: settings from the cluster's configuration files.
        clock: monotonic seconds, for the times of retries and comparisons of the past.

    Raises:
        CheckpointError: the configuration does not name exactly one NameNode.
    """

    name = "backup"

    def __init__(self, config: CheckpointConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        if len(config.namenode_rpc_addresses) != 1 or len(config.namenode_http_addresses) != 1:
            raise CheckpointError(
                f"a backup node requires one NameNode; the configuration has {len(config.namenode_rpc_addresses)}",
                hint="With HA, use the standby role.",
            )
        self._config = config
        self._http_address = config.namenode_http_addresses[0]
        self.counter = TransferCounter()
        self.refusals = Refusals()
        self._uploader = Uploader(
            (self._http_address,), UploadPolicy.for_one(config), confirm=self._confirm, count=self.counter.add_sent
        )
        self._storage = StorageDirectories(
            config.image_directories, permission=config.storage_permission, retries=config.restore_directories
        )
        self._recorder = TxnRecorder()
        self._namespace = WarmNamespace(config.merge_settings, recorder=self._recorder, keeps_sums=config.keeps_sums)
        self._clock = clock
        self._closing = threading.Event()
        self._resources = ExitStack()
        # held while the namespace or the storage changes; the stream never waits for this lock
        self._work = threading.Lock()
        self._folders = FailedFolders()
        self._opened: OpenBackup | None = None
        # the NameNode's newest transaction, queried while no stream runs; otherwise -1
        self._asked_txid = -1

    @property
    def _parts(self) -> OpenBackup:
        assert self._opened is not None, "the role is not open"
        return self._opened

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Lock the storage, fetch VERSION and an image into new storage, and listen for the stream.

        Raises:
            StorageError: the storage is in use, is damaged, or belongs to another namespace.
            JournalError: edits of an earlier run cannot be recovered.
            RpcError, TransferError: the storage is new, and the NameNode did not send VERSION or an image.
            CheckpointCancelledError: `cancelled()` became true.
        """
        with ExitStack() as resources:
            self._storage.lock()
            resources.callback(self._storage.release)
            self._opened = self._open(resources, cancelled)
            self._resources = resources.pop_all()

    def _open(self, resources: ExitStack, cancelled: Callable[[], bool]) -> OpenBackup:
        def stopping() -> bool:
            return self._closing.is_set() or cancelled()

        host, port = self._config.namenode_rpc_addresses[0]
        link = NamenodeLink(
            host,
            port,
            user=self._config.rpc_user,
            timeout=self._config.rpc_timeout,
            addresses=OwnAddresses(self._config.rpc_bind_address, self._config.web.first),
            cancelled=stopping,
        )
        resources.callback(link.close)
        past = PastWatch(
            self._recorder,
            ProvenanceStore(self._storage.current_folders),
            lambda: held_images(self._storage.current_folders()),
            lambda last: self._witness(link),
            partial(_newest_image, link),
            clock=self._clock,
        )
        self._take_storage(link, past, cancelled)
        resources.callback(self._namespace.close)
        follower = BackupFollower(
            self._storage,
            self._namespace,
            link,
            past,
            self._http_address,
            timeout=self._config.transfer_timeout,
            throttle=self._throttle(),
            cancelled=stopping,
        )
        # the recovery and the receiver depend on the newest image
        self._storage.exclude_damaged()
        follower.recover()
        receiver = JournalReceiver(
            self.storage_info(), follower.newest_txid(), self.image_folders(), self._namespace, self._folders.note
        )
        resources.callback(receiver.close)
        security = self._serve(receiver, link, resources)
        check, period = self._config.poll_interval, self._config.period
        upkeep = StreamUpkeep(
            self._storage,
            link,
            receiver,
            follower,
            UpkeepPace(BackOff(FOLLOW_SECONDS, check), BackOff(FOLLOW_SECONDS, max(check, period)), self._clock),
            closing=stopping,
            on_start_over=self._uploader.forget,
        )
        checkpoints = BackupCheckpoints(
            self._storage, self._namespace, link, receiver, follower, upkeep, self._folders, past
        )
        return OpenBackup(link, follower, receiver, upkeep, checkpoints, security)

    def _serve(self, receiver: JournalReceiver, link: NamenodeLink, resources: ExitStack) -> ServerSecurity:
        """Listen for the stream, and pass the server's address to `link`."""
        bind_address = self._config.rpc_bind_address
        security = open_security(_host_rules(self._config), self._config.kerberos, self.refusals)
        server = RpcServer(
            [access_checked(journal_service(receiver), security.access, lambda method: Right.CHANGE)],
            *bind_address,
            handlers=_HANDLERS,
            limits=self._config.port_limits,
            refusals=self.refusals,
            security=security.rpc_security,
        )
        server.start()
        resources.callback(server.stop)
        link.addresses = OwnAddresses((bind_address[0], server.address[1]), self._config.web.first)
        return security

    def close(self) -> None:
        """Request that the NameNode end the stream, stop all running work, and release all resources."""
        self._closing.set()
        # Do this first, so that the NameNode does not receive an error when it writes its log.
        try:
            self._parts.link.withdraw(self.storage_info(), "Shutting down.")
        except HdfsError as error:
            _LOG.warning("could not notify the NameNode that this node is stopping: %s", error)
        self._parts.link.close()
        with self._work:
            self._resources.close()

    def _take_storage(self, link: NamenodeLink, past: PastWatch, cancelled: Callable[[], bool]) -> None:
        if self._storage.is_formatted():
            check_storage(self._storage, link)
        else:
            image = initialize_storage(
                self._storage,
                link,
                self._http_address,
                timeout=self._config.transfer_timeout,
                throttle=self._throttle(),
                cancelled=cancelled,
            )
            self._uploader.holds(self._http_address, image.txid)
            past.fetched(ImageId(image.txid, image.md5))
        self._storage.clean_leftovers()
        restore(self._storage)

    def _throttle(self) -> Throttle:
        return Throttle(self._config.transfer_bandwidth, count=self.counter.add_received)

    def reconfigure(self, config: CheckpointConfig) -> None:
        self._config = config
        self._storage.retries = config.restore_directories
        self._uploader.policy = UploadPolicy.for_one(config)
        parts = self._parts
        parts.link.use_timeout(config.rpc_timeout)
        parts.follower.timeout = config.transfer_timeout
        parts.follower.throttle = self._throttle()
        self._namespace.settings = config.merge_settings
        parts.security.reconfigure(_host_rules(config), None if config.kerberos is None else config.kerberos.server)

    def jobs(self) -> Sequence[Job]:
        return (Job("follow", min(FOLLOW_SECONDS, self._config.poll_interval), self.follow),)

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        return read_operations(self.segments(), first, last)

    @property
    def warm_namespace(self) -> WarmNamespace:
        return self._namespace

    # ---- observation ---------------------------------------------------------------------------------------

    def segments(self) -> list[EditLogSegment]:
        self._storage.refuse_unfinished()
        return local_segments(self.image_folders())

    def alarms(self) -> Sequence[str]:
        return [self._parts.upkeep.alarm] if self._parts.upkeep.alarm else []

    def details(self) -> BackupDetails:
        position = self._parts.receiver.position()
        segment = position.segment
        return BackupDetails(
            transactions_since_roll=0 if segment is None else position.last_txid - segment.first + 1,
            tailing_lag_transactions=max(0, self._parts.upkeep.namenode_txid - position.last_txid),
            state=position.state,
            stream_txid=position.last_txid,
            namenode_txid=self._parts.upkeep.namenode_txid,
            streamed=position.streamed,
            registered=self._parts.link.registered,
            lost_past=self._parts.upkeep.lost,
        )

    def progress(self) -> Progress:
        image = self._usable_image()
        newest = max(self._parts.upkeep.namenode_txid, self._asked_txid)
        if image is None:
            return Progress(-1, newest, None)
        newest = max(newest, image.txid, self._parts.receiver.position().last_txid)
        return Progress(image.txid, newest, image.written_at)

    # ---- work ----------------------------------------------------------------------------------------------

    def follow(self) -> bool:
        """Check the NameNode once, unless a checkpoint is running."""
        # A poll holds the lock only for a moment. Without a brief wait, however, every check could coincide with a
        # poll.
        if self._work.acquire(timeout=FOLLOW_SECONDS):
            try:
                self._parts.upkeep.attempt(self._check)
            finally:
                self._work.release()
        return False

    def _check(self) -> None:
        self._folders.drop(self._storage)
        self._parts.receiver.use(self.storage_info(), self.image_folders())
        self._parts.upkeep.check()

    def prepare(self) -> None:
        """Drop failed storage directories, but never the last remaining directory; retry dropped directories if
        configured.

        Without a stream, checks are rare, so this method also queries the NameNode's newest transaction.
        """
        with self._work:
            self._folders.revise(self._storage, restore=self._config.restore_directories)
            self._parts.receiver.use(self.storage_info(), self.image_folders())
        self._asked_txid = -1
        if self._parts.upkeep.alarm:
            # the next check or checkpoint reports why the NameNode does not answer
            with suppress(HdfsError):
                self._asked_txid = self._parts.link.transaction_id()

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Do nothing, because a backup node works alone."""

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Request that the NameNode begin a segment, and make an image with all earlier edits.

        Raises:
            RoleGaveUpError: the NameNode requires this node to stop.
            HdfsError: no image could be made; nothing was written.
        """
        with self._work:
            # check this before the NameNode begins a segment for the checkpoint
            self._storage.require_space()
            return self._parts.checkpoints.make(observer, self._config)

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to the NameNode if it expects an image, and end the checkpoint at the NameNode.

        Raises:
            StorageError: the image belongs to a past that the NameNode has lost; it was not offered.
            CheckpointCancelledError: `cancelled()` became true.
        """
        image = self._storage.latest_image()
        holds = partial(self._uploader.holds, self._http_address)
        self._parts.checkpoints.settle_if_unneeded(image, self._settled_txid, holds)
        yield from self._uploader.offer(
            image.path, image.txid, self.storage_info(), cancelled, force=force, began=began
        )
        self._parts.checkpoints.end(self._settled_txid)

    def _confirm(self, image: Path, txid: int) -> None:
        self._storage.refuse_unfinished()
        self._parts.checkpoints.confirm(image, txid)

    def _witness(self, link: NamenodeLink) -> NamenodeWitness:
        return NamenodeWitness(
            self._http_address,
            link.manifest,
            link.transaction_id,
            timeout=self._config.transfer_timeout,
            cancelled=self._closing.is_set,
        )

    @property
    def _settled_txid(self) -> int:
        return self._uploader.targets[0].txid


def _newest_image(link: NamenodeLink) -> int | None:
    """Return the txid of the NameNode's newest image; None if the NameNode does not answer."""
    try:
        return link.newest_image_txid()
    except RpcError:
        return None


def _host_rules(config: CheckpointConfig) -> AccessRules:
    """Return access rules for streams without Kerberos. The rules allow hosts, because the configuration does not name
    the NameNode's user.
    """
    return AccessRules(config.access.hosts)
