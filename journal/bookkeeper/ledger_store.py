"""Ledgers and bookies as ZooKeeper knows them: metadata, new ids, who takes writes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hadoop_common.zookeeper.znodes import ZNodes
from journal.bookkeeper.bookie_id import address_of
from journal.bookkeeper.errors import BookKeeperError, NodeExistsError, NoLedgerError, NoNodeError
from journal.bookkeeper.ledger_metadata import LedgerMetadata, format_metadata, parse_metadata
from journal.bookkeeper.ledger_paths import LedgerPaths, id_of, parse_layout

_READ_ONLY = "readonly"


class LedgerStore:
    """The ledgers below a root; any thread may call. Every method raises ZooKeeperError where ZooKeeper is away.

    Args:
        available: the znode whose children are the bookies that take writes, such as /ledgers/available.
    """

    def __init__(self, znodes: ZNodes, available: str) -> None:
        self._znodes = znodes
        self._available = available
        self._root = available.rpartition("/")[0]
        self._guard = threading.Lock()
        self._known: LedgerPaths | None = None

    def read(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Metadata and version.

        Raises:
            NoLedgerError: there is none.
            LedgerMetadataError: they cannot be read.
        """
        path = self._paths.of(ledger_id)
        try:
            data, version = self._znodes.get(path)
        except NoNodeError as fault:
            raise NoLedgerError(f"there is no ledger {ledger_id}", file=path) from fault
        return parse_metadata(data or b"", file=path), version

    def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Change them; the new version.

        Raises:
            BadVersionError: they have another version; it may be this very change.
            NoLedgerError: there is none.
        """
        path = self._paths.of(ledger_id)
        try:
            return self._znodes.set(path, format_metadata(metadata), version)
        except NoNodeError as fault:
            raise NoLedgerError(f"there is no ledger {ledger_id}", file=path) from fault

    def create(self, metadata: LedgerMetadata, note: Callable[[int], None]) -> int:
        """Make a ledger; its id, which `note` is told before."""
        paths = self._paths
        counter = self._znodes.create_sequential(paths.id_prefix)
        try:
            ledger_id = id_of(counter)
            note(ledger_id)
            data, path = format_metadata(metadata), paths.of(ledger_id)
            try:
                self._znodes.create(path, data, parents=True)
            except NodeExistsError:
                if self._znodes.get(path)[0] != data:
                    raise
        finally:
            self._forget(counter)
        return ledger_id

    def delete(self, ledger_id: int) -> None:
        """Remove a ledger, if it is there; bookies drop its entries in their own time."""
        self._forget(self._paths.of(ledger_id))

    def bookies(self) -> frozenset[str]:
        """Those that take writes."""
        try:
            return frozenset(self._znodes.children(self._available)) - {_READ_ONLY}
        except NoNodeError as fault:
            raise self._not_there() from fault

    def address(self, bookie: str) -> tuple[str, int]:
        """Host and port of a bookie.

        Raises:
            BookKeeperError: nobody knows.
        """
        try:
            return address_of(bookie)
        except BookKeeperError:
            for parent in (self._available, f"{self._available}/{_READ_ONLY}"):
                if self._znodes.exists(f"{parent}/{bookie}"):
                    return address_of(bookie, self._znodes.get(f"{parent}/{bookie}")[0])
            raise

    @property
    def _paths(self) -> LedgerPaths:
        with self._guard:
            if self._known is None:
                path = f"{self._root}/LAYOUT"
                try:
                    data, _ = self._znodes.get(path)
                except NoNodeError as fault:
                    raise self._not_there() from fault
                self._known = parse_layout(data or b"", self._root)
            return self._known

    def _not_there(self) -> BookKeeperError:
        hint = "Start the bookies, or set dfs.namenode.bookkeeperjournal.zk.availablebookies to where they register."
        return BookKeeperError("no BookKeeper is set up here", file=self._root, hint=hint)

    def _forget(self, path: str) -> None:
        try:
            self._znodes.delete(path)
        except NoNodeError:
            return
