"""When a standby goes on from an image of another NameNode, because its own does not lead on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from checkpointer.errors import StorageError
from checkpointer.standby.gap import closing_images
from checkpointer.standby.image_source import ImageSource
from checkpointer.standby.namenodes import NameNodes
from checkpointer.standby.version import ActiveVersion, Move
from checkpointer.storage.directories import StorageDirectories
from journal.errors import TransactionGapError

__all__ = ["OtherImages"]

_LOG = logging.getLogger(__name__)


class OtherImages:
    """Fetches into locked storage; one thread at a time."""

    def __init__(self, storage: StorageDirectories, nodes: NameNodes, images: ImageSource) -> None:
        self._storage = storage
        self._nodes = nodes
        self._images = images

    def bridge(self, gap: TransactionGapError, cancelled: Callable[[], bool]) -> None:
        """Fetch the newest image of a NameNode that makes missing edits needless.

        Raises:
            TransactionGapError: there is none.
            HdfsError: it could not be fetched.
        """
        closing = closing_images(gap, self._nodes.image_txids())
        newest = self._storage.latest_image().txid
        address, txid = max(closing.items(), key=lambda item: item[1], default=("", -1))
        if txid <= newest:
            raise gap
        _LOG.warning(
            "transactions from %d on are missing, the image at txid %d of %s is fetched instead",
            gap.expected,
            txid,
            address,
            extra={"txid": txid, "phase": "fetch", "target": address},
        )
        self._images.fetch(self._nodes.http_address(address), txid, self._storage.storage_info(), cancelled)

    def take_over(self, move: Move, active: ActiveVersion, cancelled: Callable[[], bool]) -> None:
        """Make the storage that of the active: its image first, VERSION last, so that a kill has it asked again.

        Raises:
            HdfsError: it could not be done; VERSION is as it was.
        """
        if move is Move.FETCH:
            newest = self._storage.latest_image().txid
            if newest > active.image_txid:
                raise StorageError(
                    f"our newest image is of txid {newest}, that of {active.address} of {active.image_txid}, and "
                    "it was upgraded or rolled back since",
                    hint="Make an image there (hdfs dfsadmin -saveNamespace) after an upgrade; after a rollback "
                    "empty dfs.namenode.name.dir, so that it begins with the NameNode's image.",
                )
            self._images.fetch(active.http_address, active.image_txid, active.info, cancelled)
        self._storage.write_version(active.info)
