"""Rolls of the NameNode's edit log for a secondary. A check of the NameNode's namespace precedes each roll.

In shadow mode, the node does not request a roll; the end of the finalized segments after our newest image replaces the
roll.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from checkpointer.roles.secondary.agreement import VersionRelation, check_signature, compare_versions, finalized_after
from checkpointer.roles.secondary.namenode import NamenodeCalls, NamenodePosition
from checkpointer.roles.secondary.set_back import PastGuard
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.proof import set_back
from engine.errors import CheckpointError
from hadoop_common.errors import StorageError
from hadoop_common.recurring_fault import Alarm
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_protocol import CheckpointSignature, NamenodeClient

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Roll:
    """A roll: its signature, the NameNode's namespace at that time, and the reading `at` of our clock."""

    signature: CheckpointSignature
    described: StorageInfo
    at: float


@dataclass(eq=False)
class NamenodeRolls:
    """Rolls of the edit log of `namenode`. Only one thread at a time may call methods; any thread may read `alarm`.

    Args:
        clock: monotonic seconds.

    Attributes:
        shadow: whether this node must never request a roll.
        period: seconds for which later attempts use the roll of a failed attempt.
        alarm: reason why the NameNode's namespace is not ours, or "".
    """

    namenode: str
    storage: SecondaryStorage
    calls: NamenodeCalls
    position: NamenodePosition
    guard: PastGuard
    _: KW_ONLY
    period: float
    clock: Callable[[], float]
    # the latest roll until its image is made
    _rolled: _Roll | None = field(init=False, default=None)
    shadow: bool = False
    alarm: str = field(init=False, default="")

    def forget(self) -> None:
        """Require a new roll for the next attempt."""
        self._rolled = None

    def check_namespace(self, cancelled: Callable[[], bool]) -> StorageInfo:
        """Return the NameNode's namespace; raise an alarm while it differs from ours.

        Raises:
            StorageError: the NameNode has another namespace.
            UnsupportedLayoutError: edits of the NameNode's layout cannot be replayed.
        """
        info = self.calls.call(NamenodeClient.version_request, cancelled).storage_info
        try:
            compare_versions(self.storage.versions(), info, self.namenode)
        except StorageError as error:
            self.alarm = Alarm(error.message, error.hint)
            raise
        self.alarm = ""
        return info

    def begin(
        self, cancelled: Callable[[], bool], *, forced: bool, adopted: StorageInfo | None
    ) -> tuple[CheckpointSignature, bool]:
        """Return the roll at which the image ends, and whether the NameNode was upgraded or rolled back since the last
        checkpoint.

        Args:
            adopted: namespace of the NameNode at the last checkpoint.
        """
        # check this first, so that the NameNode does not roll its log if a checkpoint is impossible
        self.storage.require_space()
        described = self.check_namespace(cancelled)
        signature = None if forced or self.shadow else self._earlier_roll(described, cancelled)
        if self.shadow:
            signature = self._without_roll(described, cancelled, adopted)
        elif signature is None:
            signature = self._roll(cancelled)
            self._rolled = _Roll(signature, described, self.clock())
        info = signature.storage_info
        relation = compare_versions(self.storage.versions(), info, self.namenode)
        if relation is VersionRelation.FRESH:
            self.storage.format(info)
        moved = relation is VersionRelation.MOVED and info != adopted
        if moved:
            _LOG.warning("%s was upgraded or rolled back; fetching its image and edits again", self.namenode)
        return signature, moved

    def mergeable_txid(self, client: NamenodeClient) -> int:
        """Return the last transaction that a checkpoint without a roll would contain, or else the last transaction of
        our newest image.

        Raises:
            RpcError: the NameNode does not answer.
        """
        ours = self.storage.latest_image()
        base = client.most_recent_checkpoint_txid() if ours is None else ours.txid
        logs = finalized_after(client.edit_log_manifest(base + 1), base)
        if logs:
            return logs[-1].last
        return -1 if ours is None else base

    def _without_roll(
        self, described: StorageInfo, cancelled: Callable[[], bool], adopted: StorageInfo | None
    ) -> CheckpointSignature:
        """Return a signature that replaces a roll's signature: for the finalized segments after our newest image, or
        else after the NameNode's newest image.
        """
        ours = self.storage.latest_image()
        relation = compare_versions(self.storage.versions(), described, self.namenode)
        if ours is None or (relation is VersionRelation.MOVED and described != adopted):
            base = self.calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
        else:
            base = ours.txid
        manifest = self.calls.call(lambda client: client.edit_log_manifest(base + 1), cancelled)
        logs = finalized_after(manifest, base)
        if not logs:
            hint = (
                "No action is needed: shadow mode never requests a roll, and continues with the next finalized segment."
            )
            raise CheckpointError(f"{self.namenode} has not finalized a segment after txid {base}", hint=hint)
        return CheckpointSignature(described, base, logs[-1].last + 1)

    def _earlier_roll(self, described: StorageInfo, cancelled: Callable[[], bool]) -> CheckpointSignature | None:
        """Return a failed attempt's roll if its segments still follow the NameNode's newest image."""
        rolled = self._rolled
        if rolled is None or described != rolled.described or self.clock() - rolled.at >= self.period:
            return None
        newest = self.calls.call(NamenodeClient.most_recent_checkpoint_txid, cancelled)
        return rolled.signature if newest == rolled.signature.most_recent_checkpoint_txid else None

    def _roll(self, cancelled: Callable[[], bool]) -> CheckpointSignature:
        """Request that the NameNode begin a segment."""
        signature = self.calls.call(NamenodeClient.roll_edit_log, cancelled)
        compare_versions(self.storage.versions(), signature.storage_info, self.namenode)
        check_signature(signature, self.namenode)
        ended = signature.current_segment_txid - 1
        # The roll wrote the last transaction, so an image of the present past cannot contain it yet.
        newest = self.guard.ahead_of(ended - 1)
        if newest is not None:
            reason = f"our newest image is at txid {newest}, but its last segment ends at {ended}"
            self.guard.start_over(set_back(reason))
        self.position.rolled(signature.current_segment_txid)
        return signature
