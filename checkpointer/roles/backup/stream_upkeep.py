"""Checks that keep a backup node registered and its stream running, and that detect the loss of either (BackupNode).

Each check proceeds as far as possible through the states registered, streaming and in sync. A check reads the current
state from the link and the receiver. It does not depend on the previous check, except that it repeats a failed
start-over.

- The first time that the NameNode is behind our transactions, a batch may be in progress. The second time, or if no
  stream is running, the NameNode was set back.
- If the NameNode wrote transactions but none arrived, it may have lost our registration. This node then ends the stream
  and registers again.
- A NameNode streams to a registered node from its next segment on, so this node requests a roll. If no segment arrives
  after the roll, the NameNode cannot reach this node, which is an error.
- If every image of this node is damaged, this node sets them all aside and starts over from the NameNode's image.

After faults, checks are less frequent (`UpkeepPace`), especially after rolls without a stream. The node checks a
NameNode that is down as often as before, because this check is cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from checkpointer.roles.backup.follower import BackupFollower
from checkpointer.roles.backup.namenode_link import NamenodeLink, check_same_namespace
from checkpointer.roles.backup.receiver import JournalReceiver
from checkpointer.roles.backup.states import BackupState
from checkpointer.set_back.proof import PastVerdict, set_back
from checkpointer.set_back.start_over import LostPast, StartOverLimiter
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.disk_space import require_space
from checkpointer.storage.lost_pasts import NOT_COMPARED
from checkpointer.storage.usable_images import all_damaged
from engine.errors import CheckpointError
from engine.observer import CancellableObserver, Observer
from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import Alarm, with_next, without_numbers
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcConnectionError, RpcError, SafeModeError
from hadoop_rpc.namenode_protocol import CheckpointSignature
from image_format.errors import ImageFormatError, ImageStorageError

T = TypeVar("T")


class _StartOver(NamedTuple):
    """A start-over from the NameNode's image.

    Attributes:
        cause: the reason.
        folder: name of the folder for the old state in each storage directory.
        keeps_stream: whether the stream remains if the start-over fails, because only images are at fault.
    """

    cause: str
    folder: str
    keeps_stream: bool


class UpkeepPace:
    """Times of the next checks of the NameNode, and detection of a stalled stream. Only one thread at a time may use
    it.

    Args:
        back_off: delays after failures.
        roll_back_off: delays after rolls without a stream. Otherwise, a NameNode that cannot connect to this node would
            roll at each check.
        clock: monotonic seconds.
    """

    def __init__(self, back_off: BackOff, roll_back_off: BackOff, clock: Callable[[], float]) -> None:
        self._back_off = back_off
        self._roll_back_off = roll_back_off
        self._clock = clock
        self._failures = self._rolls_in_vain = 0
        self._not_before = clock()
        self._last_txid = -1

    def due(self) -> bool:
        """Return whether the delay after the last failure has passed."""
        return self._clock() >= self._not_before

    def succeeded(self) -> None:
        """Reset the delays after a check without a fault, or after the start of the stream."""
        self._failures = self._rolls_in_vain = 0
        self._not_before = self._clock()

    def failed(self, *, at_once: bool, rolled: bool = False) -> None:
        """Increase the delay after a failure, unless `at_once` is set because the check is cheap to repeat.

        `rolled` means that the NameNode rolled, but no stream began.
        """
        if at_once:
            return
        if rolled:
            self._rolls_in_vain += 1
            wait = self._roll_back_off.wait(self._rolls_in_vain)
        else:
            self._failures += 1
            wait = self._back_off.wait(self._failures)
        self._not_before = self._clock() + wait

    def stalled(self, last_txid: int, namenode_txid: int) -> bool:
        """Return whether nothing has arrived since the last check, although the NameNode had written more by then.

        Args:
            last_txid: newest transaction received.
            namenode_txid: newest transaction of the NameNode at the last check.
        """
        unmoved, self._last_txid = last_txid == self._last_txid, last_txid
        return unmoved and last_txid < namenode_txid


_LOG = logging.getLogger(__name__)


class _NoStreamError(CheckpointError):
    """Lack of a stream of edits after a roll of the NameNode."""


@dataclass(eq=False)
class StreamUpkeep:
    """Regular checks that keep the namespace in sync. Only one thread at a time may use it.

    Args:
        closing: returns True when the node is stopping.
        on_start_over: called after this node has started over.

    Attributes:
        alarm: reason why the namespace is not in sync, or "".
        lost: record of the last time that this node started over; None if it has never started over.
        namenode_txid: newest transaction of the NameNode at the last check, -1 before the first check.
    """

    storage: StorageDirectories
    link: NamenodeLink
    receiver: JournalReceiver
    follower: BackupFollower
    pace: UpkeepPace
    _: KW_ONLY
    closing: Callable[[], bool]
    on_start_over: Callable[[], None]
    _ahead: bool = field(init=False, default=False)
    alarm: str = field(
        init=False,
        default_factory=lambda: Alarm(
            "not yet in sync with the NameNode", "No action is needed while the daemon starts."
        ),
    )
    namenode_txid: int = field(init=False, default=-1)
    lost: LostPast | None = field(init=False, default=None)
    _start_over_limiter: StartOverLimiter = field(init=False, default_factory=StartOverLimiter)
    # a start-over that has not been completed
    _unfinished: _StartOver | None = field(init=False)

    def __post_init__(self) -> None:
        begun = self.storage.unfinished_start_over()
        self._unfinished = None if begun is None else _StartOver(begun.cause, begun.parent, keeps_stream=False)

    def attempt(self, check: Callable[[], None]) -> None:
        """Run `check` unless the last failure is too recent; if `check` raises an error, set `alarm`."""
        if self.closing() or not self.pace.due():
            return
        try:
            check()
        except HdfsError as error:
            self.note(error)
        except OSError as error:
            self.note(StorageError(error_text(error), hint="Check the disks of the storage."))
        else:
            self.pace.succeeded()
            if self.alarm:
                _LOG.info("in contact with the NameNode at %s", self.link.address)
            self.alarm = ""

    def note(self, error: HdfsError) -> None:
        """Set `alarm`, and log changes."""
        down = isinstance(error, RpcConnectionError)
        if down:
            self.link.registered = False
        if without_numbers(error.message) != without_numbers(self.alarm) and not self.closing():
            level = logging.INFO if isinstance(error, SafeModeError) else logging.ERROR
            _LOG.log(level, "not in sync with the NameNode: %s", with_next(error))
        self.alarm = Alarm(error.message, error.hint)
        self.pace.failed(at_once=down, rolled=isinstance(error, _NoStreamError))

    def check(self) -> None:
        """Register if needed, start the stream if it is not running, and catch up with it.

        Raises:
            HdfsError: a step failed; check again later.
        """
        before = self.receiver.position()
        seen, self.namenode_txid = self.namenode_txid, self.link.transaction_id()
        if self.namenode_txid < before.last_txid:
            # The NameNode counts a batch when all its journals have stored it, so a running stream may be one batch
            # ahead.
            if self._ahead or before.state is BackupState.DROP_UNTIL_NEXT_ROLL:
                self.receiver.break_off(f"the NameNode at {self.link.address} lacks transactions that this node has")
                self.start_over(
                    set_back(
                        f"this node has edits up to {before.last_txid}, but the NameNode has written only up to "
                        f"{self.namenode_txid}"
                    )
                )
                before = self.receiver.position()
            self._ahead = True
        else:
            self._ahead = False
        stalled = self.pace.stalled(before.last_txid, seen) and before.state is not BackupState.DROP_UNTIL_NEXT_ROLL
        if stalled:
            # The NameNode may have lost our registration in a restart.
            self.receiver.break_off(
                f"the NameNode wrote transaction {seen}; the last transaction that arrived was {before.last_txid}"
            )
        if stalled or not self.link.registered:
            self.link.register(self.storage.storage_info())
            self.take_version()
        self.on_intact_image(self.storage.latest_image)
        if self.receiver.position().state is BackupState.DROP_UNTIL_NEXT_ROLL:
            self._begin_stream()
        # otherwise, readers would receive wrong responses until the next save; the load below reports the fault
        self.receiver.check_image()
        if self.receiver.position().state is not BackupState.IN_SYNC:
            self._converge(CancellableObserver(self.closing))

    def resume(self) -> None:
        """Return the namespace to a running stream immediately; if no stream is running, the next check returns it."""
        if self.closing() or self.receiver.position().state is not BackupState.JOURNAL_ONLY:
            return
        try:
            self._converge(CancellableObserver(self.closing))
        except HdfsError as error:
            self.note(error)
        else:
            # The next check may be an hour away.
            self.pace.succeeded()

    def adopt(self, signature: CheckpointSignature) -> None:
        """Check the namespace in the response to a roll; after an upgrade of the NameNode, start over with its image.

        Raises:
            StorageError: the namespace is not ours.
            CheckpointError: the NameNode was upgraded; the next check registers again.
        """
        theirs, ours = signature.storage_info, self.storage.storage_info()
        check_same_namespace(theirs, ours, self.link.address)
        if theirs == ours:
            return
        _LOG.warning("the NameNode's VERSION is %s now, was %s", theirs.colon_string(), ours.colon_string())
        self.link.withdraw(ours, "The namespace was upgraded.")
        self.receiver.break_off("the namespace was upgraded")
        self.storage.write_version(theirs)
        self.receiver.use(theirs, self.storage.current_folders())
        self.follower.forget_image()
        raise CheckpointError("the NameNode was upgraded; this node registers again", hint="No action is needed.")

    def check_past(self) -> None:
        """Start over if the NameNode's segments contradict our segments, because the NameNode was set back and wrote
        new edits.

        Raises:
            HdfsError: the NameNode's image could not be fetched.
        """
        if problem := self.follower.contradiction():
            self.start_over(set_back(problem))

    def start_over(self, verdict: PastVerdict) -> None:
        """Set aside our state, as `verdict` requires, and continue from the NameNode's image.

        Raises:
            StorageError: the node recently started over without success.
            HdfsError: the image could not be fetched. The stream is broken off, and the next check starts over again.
        """
        cause = verdict.cause(f"the NameNode at {self.link.address}")
        self._start_over(_StartOver(cause, verdict.folder, keeps_stream=False))

    def on_intact_image(self, step: Callable[[], T]) -> T:
        """Return the result of `step`, which needs an intact image. If every image of this node is damaged, set them
        all aside, and continue from the NameNode's image.

        A damaged image remains if the process is killed while it replaces the only image with an image of the same
        name. The method first repeats a failed start-over.

        Raises:
            HdfsError: `step` failed for another reason, or see `start_over`.
        """
        if self._unfinished is not None:
            self._start_over(self._unfinished)
        try:
            return step()
        except (ImageFormatError, StorageError) as error:
            # the second check reads whole images
            if (isinstance(error, StorageError) and self.storage.has_image()) or not all_damaged(
                self.storage.current_folders()
            ):
                raise
            cause = f"no image of this node is intact: {error.message}"
            self._start_over(_StartOver(cause, NOT_COMPARED, keeps_stream=True))
        return step()

    def _start_over(self, wanted: _StartOver) -> None:
        cause = wanted.cause
        txid: int | None = None
        self.receiver.release_namespace(cause)
        try:
            # another namespace changes no file; a NameNode that does not answer does not delay the record
            with suppress(RpcError):
                self._check_namespace()
            # repeat this until it succeeds, because the next check may not find the cause
            self._unfinished = wanted
            self.storage.begin_start_over(wanted.folder, cause)
            txid = self.link.newest_image_txid()
            self._start_over_limiter.check(txid, cause)
            # A NameNode that was rolled back sends its image only to nodes with its current VERSION.
            self.take_version()
            aside = self.follower.start_over(self.receiver.open_first, wanted.folder, cause)
            self.lost = LostPast.of(cause, aside)
        except BaseException as error:
            if txid is not None and isinstance(error, ImageFormatError | ImageStorageError):
                # The image was fetched, but cannot be loaded; the next attempt would fetch the same image.
                self._start_over_limiter.started_over(txid)
            if not wanted.keeps_stream:
                # The stream must not continue from the lost state.
                self.receiver.break_off(cause)
            raise
        self._unfinished = None
        image = self.storage.latest_image().txid
        self._start_over_limiter.started_over(image)
        self.receiver.start_over(image)
        _LOG.warning("%s; %s", cause, self.lost.sentence())
        self.on_start_over()

    def take_version(self) -> None:
        """Adopt the VERSION of a NameNode that has been upgraded or rolled back, and require its image.

        Raises:
            StorageError: the NameNode has another namespace.
            HdfsError: the NameNode does not answer.
        """
        theirs, ours = self._check_namespace(), self.storage.storage_info()
        # During a rolling upgrade, some releases report the layout of their software.
        if theirs.c_time != ours.c_time:
            _LOG.warning("the NameNode's VERSION is %s now, was %s", theirs.colon_string(), ours.colon_string())
            self.storage.write_version(theirs)
            self.receiver.use(theirs, self.storage.current_folders())
            self.follower.forget_image()

    def _check_namespace(self) -> StorageInfo:
        """Return the NameNode's VERSION; raise StorageError if the NameNode has another namespace."""
        theirs = self.link.namespace().storage_info
        check_same_namespace(theirs, self.storage.storage_info(), self.link.address)
        return theirs

    def reset_start_over_limit(self) -> None:
        """Allow the next start-over without a delay, because the state of this node was proven."""
        self._start_over_limiter.reset()

    # ---- steps ---------------------------------------------------------------------------------------------

    def _begin_stream(self) -> None:
        """Request that the NameNode begin a segment, because its stream to a registered node begins with a segment."""
        self.receiver.recover(self.follower.recover)
        # check this before the roll: a node that cannot start over or store edits would otherwise request a roll at
        # each check
        self.check_past()
        require_space(self.storage.roots, None)
        self.adopt(self.link.roll())
        self.check_past()
        position = self.receiver.position()
        if position.state is BackupState.DROP_UNTIL_NEXT_ROLL:
            self.link.withdraw(
                self.storage.storage_info(), f"No stream of edits arrives at this node ({position.reason})."
            )
            raise _NoStreamError(
                f"the NameNode at {self.link.address} rolled its edit log, but no stream of edits arrived at this "
                f"node: {position.reason}",
                hint="Check that the NameNode can connect to dfs.namenode.backup.address of this node.",
            )

    def _converge(self, observer: Observer) -> None:
        if not self.on_intact_image(partial(self.follower.converge, self.receiver, observer)):
            raise CheckpointError(f"the stream was interrupted: {self.receiver.position().reason}")
        segment = self.receiver.position().segment
        if segment is not None:
            self.storage.write_seen_txid(segment.first)
