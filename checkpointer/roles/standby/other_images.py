"""When a standby goes on from an image of another NameNode, because its own does not lead on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from checkpointer.roles.standby.gap import closing_images
from checkpointer.roles.standby.image_source import ImageSource
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.version import ActiveVersion, Move
from checkpointer.storage.directories import StorageDirectories
from hadoop_common.names import image_name
from journal.errors import TransactionGapError

_LOG = logging.getLogger(__name__)


class OtherImages:
    """Fetches into locked storage; one thread at a time."""

    def __init__(self, storage: StorageDirectories, nodes: NameNodes, images: ImageSource) -> None:
        self._storage = storage
        self._nodes = nodes
        self._images = images

    def bridge(self, gap: TransactionGapError, cancelled: Callable[[], bool]) -> None:
        """Fetch the newest image of the active NameNode, where that makes missing edits needless.

        Raises:
            TransactionGapError: it does not, or none is active.
            HdfsError: it could not be fetched.
        """
        active = self._nodes.active_version()
        # Another one's image would have to be found at the active in the end.
        closing = closing_images(gap, {} if active is None else {active.address: active.image_txid})
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

    def take_over(self, move: Move, active: ActiveVersion, cancelled: Callable[[], bool]) -> list[Path]:
        """Make the storage that of the active: its image first, VERSION last, so that a kill has it asked again.

        Returns where images are that were here.

        Raises:
            HdfsError: it could not be done; VERSION is as it was.
        """
        aside = self.start_over(active, cancelled) if move is Move.FETCH else []
        self._storage.write_version(active.info)
        return aside

    def start_over(self, active: ActiveVersion, cancelled: Callable[[], bool]) -> list[Path]:
        """Have the newest image of the active and no other; returns where those are that were here.

        Raises:
            HdfsError: the image could not be fetched. Then nothing was changed, unless one of its name was here.
        """
        name = image_name(active.image_txid)
        aside = []
        if any((folder / name).exists() for folder in self._storage.current_folders()):
            # It may be another one, of the lost past.
            aside = self._storage.set_aside()
        self._images.fetch(active.http_address, active.image_txid, active.info, cancelled)
        return aside + self._storage.set_aside(keep=[name])
