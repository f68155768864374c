"""Replaces the live namespace's base image with a newer image, so that the delta contains only later edits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path

from checkpointer.storage.usable_images import latest_image
from engine.errors import CheckpointCancelledError
from engine.loaded_image import LoadedImage, load_image
from engine.replay import replay
from hadoop_common.errors import HdfsError, StorageError
from image_format.reader import ImageFile
from journal.journal import Journal
from journal.ops import EditOp
from journal.segment_copies import read_log
from namenode_stub.names.transactions import Transactions

_LOG = logging.getLogger(__name__)

# a smaller delta is not worth the replay
_WORTHWHILE = 20_000
# number of transactions that may be pending when the namespace's lock is acquired: tens of milliseconds of replay
_CATCH_UP = 1_000
_ROUNDS = 10


class Rebaser:
    """Rebaser that loads the newest image, replays the log onto it in parallel, and then replaces the live namespace.

    A delta does not reuse the objects of deleted files, so a namespace that kept its first image would grow forever. A
    failed rebase changes nothing; the next checkpoint triggers another attempt.

    Args:
        transactions: the live namespace; the rebaser closes a replaced base image.
        image_folders: the `current` folders.
        journal: journal of the edit log.
        worthwhile: minimum number of transactions since the base image.
    """

    def __init__(
        self,
        transactions: Transactions,
        image_folders: Sequence[Path],
        journal: Journal,
        *,
        worthwhile: int = _WORTHWHILE,
    ) -> None:
        self._transactions = transactions
        self._image_folders = image_folders
        self._journal = journal
        self._worthwhile = worthwhile
        self._base_txid = transactions.loaded.image.txid
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rebaser", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End at the next safe point and close the base image; the namespace must no longer have users."""
        self._stopping.set()
        self._due.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._transactions.loaded.image.close()

    def image_arrived(self) -> None:
        """Notify the rebaser of a new image; thread-safe."""
        self._due.set()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._stopping.is_set():
                return
            try:
                self.rebase()
            except CheckpointCancelledError:
                return
            except (HdfsError, OSError) as error:
                _LOG.warning("the namespace keeps its base image at txid %d: %s", self._base_txid, error)

    def rebase(self) -> bool:
        """Replace the base with the newest image; return False if a rebase is not worthwhile or was stopped.

        Raises:
            HdfsError, OSError: the image or the edits cannot be read or have been purged; nothing changed.
        """
        newest = latest_image(list(self._image_folders))
        if newest.txid - self._base_txid < self._worthwhile:
            return False
        with ExitStack() as opened:
            fresh = load_image(opened.enter_context(ImageFile.open(newest.path)))
            old = self._transactions.loaded
            if not self._replace_base(fresh):
                return False
            opened.pop_all()
        old.image.close()
        self._base_txid = newest.txid
        _LOG.info("the namespace's base is now the image at txid %d", newest.txid)
        return True

    def _replace_base(self, fresh: LoadedImage) -> bool:
        namespace, log = fresh.namespace, self._transactions.log
        for _ in range(_ROUNDS):
            if log.durable_txid - namespace.last_txid <= _CATCH_UP or self._stopping.is_set():
                break
            replay(namespace, self._edits(namespace.last_txid + 1, log.durable_txid), cancelled=self._stopping.is_set)
        if self._stopping.is_set():
            return False
        with self._transactions.lock:
            self._transactions.fail_stop.check()
            log.flush()
            replay(namespace, self._edits(namespace.last_txid + 1, log.last_txid))
            if namespace.last_txid != log.last_txid:
                raise StorageError(f"edits can be read up to txid {namespace.last_txid}, but not to {log.last_txid}")
            self._transactions.rebase(fresh)
        return True

    def _edits(self, first: int, last: int) -> Iterator[EditOp]:
        """Yield the durable transactions `first` to `last`; also read the open segment."""
        ops = read_log(self._journal.segments(first, in_progress=True), first)
        return takewhile(lambda op: op.txid <= last, ops)
