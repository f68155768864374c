"""The znodes of a bookie: the ledger layout, a cookie, and an ephemeral znode that shows whether it is writable."""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from google.protobuf import text_format

from hadoop_common.durable import write_atomically
from hadoop_common.zookeeper.znodes import ZNodes
from journal.bookkeeper.errors import MissingZnodeError, ZnodeExistsError
from journal.bookkeeper.ledger_paths import LedgerManager, format_layout
from journal.bookkeeper.ledger_store import registration_of
from journal.bookkeeper.zookeeper import JournalZNodes
from journal.errors import JournalError
from journal.proto import bookkeeper_pb2 as pb

_LOG = logging.getLogger(__name__)

COOKIE = "VERSION"
_COOKIE_VERSION = b"4\n"
_CHECK_SECONDS = 1.0


def format_ledgers(znodes: ZNodes, root: str, manager: LedgerManager) -> None:
    """Create the missing znodes of a ledger root; do not change existing znodes."""
    for path, data in (
        (root, b""),
        (f"{root}/INSTANCEID", str(uuid.uuid4()).encode()),
        (f"{root}/available", b""),
        (f"{root}/available/readonly", b""),
        (f"{root}/cookies", b""),
        # LAYOUT is created last: once it exists, clients consider the root complete.
        (f"{root}/LAYOUT", format_layout(manager)),
    ):
        try:
            znodes.create(path, data, parents=True)
        except ZnodeExistsError:
            continue


def check_cookie(znodes: ZNodes, root: str, bookie_id: str, directory: Path) -> None:
    """Check that ZooKeeper and the directory contain the bookie's cookie; store the cookie of a new bookie in both.

    Raises:
        JournalError: ZooKeeper or the directory refers to another bookie.
    """
    instance, _ = znodes.get(f"{root}/INSTANCEID")
    cookie = pb.CookieFormat(
        bookieHost=bookie_id,
        journalDir=str(directory),
        ledgerDirs=f"1\t{directory}",
        instanceId=(instance or b"").decode(),
    )
    ours = _COOKIE_VERSION + text_format.MessageToString(cookie).encode()
    path, file = f"{root}/cookies/{bookie_id}", directory / COOKIE
    try:
        known, _ = znodes.get(path)
    except MissingZnodeError:
        known = None
    kept = file.read_bytes() if file.exists() else None
    if known is None and kept is None:
        write_atomically(file, ours)
        znodes.create(path, ours, parents=True)
        return
    if known is None and kept == ours:
        # An earlier process was killed between the two writes.
        znodes.create(path, ours, parents=True)
        return
    if known != ours or kept != ours:
        hint = (
            "Start the bookie on the host that has its directory. If the directory is lost, its entries are lost, too: "
            "start a new bookie on another port."
        )
        raise JournalError(
            f"the cookie of {bookie_id} in {path} differs from that of its directory", file=str(file), hint=hint
        )


class BookieRegistration:
    """Registration of a bookie, renewed in every session; `set_writable` is thread-safe."""

    def __init__(self, znodes: JournalZNodes, root: str, bookie_id: str, address: tuple[str, int]) -> None:
        self._znodes = znodes
        self._paths = {True: f"{root}/available/{bookie_id}", False: f"{root}/available/readonly/{bookie_id}"}
        self._data = registration_of(*address)
        self._wake = threading.Event()
        self._stopping = False
        self._writable = True
        self._thread = threading.Thread(target=self._run, name="bookie-registration", daemon=True)

    def set_writable(self, writable: bool) -> None:
        self._writable = writable
        self._wake.set()

    def start(self) -> None:
        """Register the bookie, and renew the registration from then on.

        Raises:
            MetadataStoreError: ZooKeeper does not answer.
        """
        self._register()
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait(_CHECK_SECONDS)
            self._wake.clear()
            if self._stopping:
                return
            try:
                self._register()
            except JournalError as fault:
                _LOG.warning("the bookie is not registered: %s", fault)

    def _register(self) -> None:
        path, other = self._paths[self._writable], self._paths[not self._writable]
        self._remove(other)
        if self._znodes.owned(path):
            return
        # A znode of an older session would disappear with that session.
        self._remove(path)
        try:
            self._znodes.create(path, self._data, ephemeral=True)
        except ZnodeExistsError:
            if not self._znodes.owned(path):
                raise

    def _remove(self, path: str) -> None:
        # ZooKeeper logs a transaction even if a deletion fails.
        if self._znodes.exists(path):
            with suppress(MissingZnodeError):
                self._znodes.delete(path)
