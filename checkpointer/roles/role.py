"""Interface of a role, and the values that a role exchanges with the service: progress and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from checkpointer.transfer.upload_target import Upload, UploadTarget
from engine.merge import MergeResult, Observer
from engine.warm_namespace import WarmNamespace
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from journal.operation import EditOp
from journal.segment_file import EditLogSegment
from node_state.state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig


@dataclass(frozen=True, slots=True)
class Progress:
    """State of the image and the edits: this node's newest image, and the newest transaction that is available without
    a roll.

    Attributes:
        image_at: time when that image was written, in seconds since the epoch; None if there is no image, or if the
            image is not a checkpoint.
        urgent: reason why an image is due immediately, regardless of period and transaction count; usually "".
    """

    image_txid: int
    journal_txid: int
    image_at: float | None
    urgent: str = ""

    @property
    def behind(self) -> int:
        """Number of transactions that are not in an image yet."""
        # the first transaction has txid 1, and image_txid is -1 without an image
        return max(0, self.journal_txid - max(0, self.image_txid))


@dataclass(frozen=True, slots=True)
class Job:
    """Work in addition to checkpoints: `run` is called every `seconds`, in one thread at a time.

    A result of True requests an immediate poll. `run` handles all errors.
    """

    name: str
    seconds: float
    run: Callable[[], bool]


class CheckpointRole(Protocol):
    """A role that makes and uploads images. Only one thread may work at a time; any thread may observe."""

    @property
    def name(self) -> str:
        """Name of the role, as in `--role`."""

    @property
    def counter(self) -> TransferCounter:
        """Bytes of images and segments that the role sent and received; the process adds the bytes that its server
        sends.
        """

    @property
    def refusals(self) -> Refusals:
        """Counts of peers' requests that the process refused or ended."""

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool]) -> None:
        """Lock the storage and acquire all other resources of the role.

        Raises:
            HdfsError: the role cannot start, and nothing remains locked.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def close(self) -> None:
        """Stop running jobs at a safe point, and release all resources."""

    def jobs(self) -> Sequence[Job]:
        """Return the jobs to run while the role is open."""

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings; only settings in `daemon.reload.RELOADABLE` differ from the old settings."""

    # ---- contents -----------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        """Return the namespace of the storage; an HdfsError explains why it is missing."""

    def confirm_image(self) -> Path:
        """Return the newest image after a check that it belongs to the cluster's present past.

        The thread that makes checkpoints calls this method.

        Raises:
            HdfsError: no image exists, the image does not belong to the present past, or this past is unknown now.
        """

    def image_folders(self) -> list[Path]:
        """Return the `current` folders of the usable storage directories."""

    def serving_folders(self) -> list[Path]:
        """Return `image_folders`; raise StorageError if their images do not belong to the NameNode's past."""

    def latest_image(self) -> Path:
        """Return the newest image; a StorageError explains why it is missing."""

    def segments(self) -> list[EditLogSegment]:
        """Return the segments of edits that the role can serve; an HdfsError explains why there are none."""

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        """Yield the operations `first` to `last` of the edits that the role follows.

        Raises:
            HdfsError: the edits cannot be read.
        """

    @property
    def warm_namespace(self) -> WarmNamespace | None:
        """The namespace that follows the edits, which other threads may only read; None if the role maintains no
        namespace.
        """

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> Sequence[UploadTarget]:
        """The NameNodes that receive images, with their current state."""

    def storage(self) -> Mapping[str, str]:
        """Return the state of each storage directory by path: "in use", or the reason why the directory was dropped."""

    def alarms(self) -> Sequence[str]:
        """Return the problems that require an operator's attention, one sentence each; with an alarm, the daemon is not
        ready.
        """

    def space_shortage(self) -> str:
        """Return the reason why no storage directory has space for the next image, or "" if there is space."""

    def details(self) -> RoleDetails:
        """Return the state of the tailing of edits, and other details of the role."""

    def progress(self) -> Progress:
        """Return the positions of the image and the edits.

        Raises:
            HdfsError: the storage or the journal cannot be read.
        """

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Drop failed storage directories and retry dropped directories; called before each attempt."""

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Update the data for the next checkpoint; called at each poll while another daemon makes the checkpoints.

        Raises:
            HdfsError: the data is not available now.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Make an image with all present edits. Unless `forced`, the image may end at a recent roll.

        Raises:
            HdfsError: no image could be made; nothing was written.
        """

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to the targets that are due; each transfer thread first calls `began`.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """


@runtime_checkable
class SavesAside(Protocol):
    """A role whose memory may contain transactions that no disk of its host has."""

    def save_aside(self, observer: Observer) -> Sequence[Path]:
        """Save the namespace in memory to `not_compared`, without reading edits; return the images. Callable by any
        thread.

        Raises:
            HdfsError: no namespace is in memory, or no image could be made.
            CheckpointCancelledError: the observer cancelled.
        """
