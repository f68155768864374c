"""NamenodeProtocol: queries that a NameNode answers in any state."""

from __future__ import annotations

from collections.abc import Callable

from hadoop_common.hadoop_releases import Release
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.namenode_protocol import NamespaceInfo
from hadoop_rpc.service import CallContext
from namenode_stub.image_store import StubImages
from namenode_stub.rpc.gate import Gate


class Questions:
    """`NamenodeQuestions` of the stub in one state.

    Args:
        info: of the storage.
        release: reported release.
        last_txid: returns the newest transaction written, or applied by a standby; raises if the NameNode failed.
    """

    def __init__(
        self,
        info: StorageInfo,
        release: Release,
        state: HAState,
        images: StubImages,
        gate: Gate,
        *,
        last_txid: Callable[[], int],
    ) -> None:
        self._info = info
        self._release = release
        self._state = state
        self._images = images
        self._gate = gate
        self._last_txid = last_txid

    def transaction_id(self, caller: CallContext) -> int:
        self._gate.check_superuser(caller)
        return self._last_txid()

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int:
        self._gate.check_superuser(caller)
        return self._images.checkpoint_txid

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        self._gate.check_superuser(caller)
        release = self._release
        # Releases before 3.0 have no state there.
        state = "" if release.version.startswith("2.") else self._state.name
        return NamespaceInfo(self._info, release.revision, release.version, state)
