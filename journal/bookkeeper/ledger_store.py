"""Ledgers and bookies in ZooKeeper: metadata, new ids, writable bookies and their addresses."""

from __future__ import annotations

import threading
from collections.abc import Callable

from google.protobuf.message import DecodeError

from hadoop_common.zookeeper.znodes import ZNodes
from journal.bookkeeper.errors import BookKeeperError, MissingZnodeError, NoLedgerError, ZnodeExistsError
from journal.bookkeeper.ledger_metadata import LedgerMetadata, format_metadata, parse_metadata
from journal.bookkeeper.ledger_paths import LedgerPaths, id_of, parse_layout
from journal.proto import bookkeeper_pb2 as pb

_READ_ONLY = "readonly"


class LedgerStore:
    """The ledgers below a root; thread-safe. All methods raise MetadataStoreError if ZooKeeper does not answer.

    Args:
        available: path of the znode whose children are the writable bookies, such as /ledgers/available.
    """

    def __init__(self, znodes: ZNodes, available: str) -> None:
        self._znodes = znodes
        self._available = available
        self._root = available.rpartition("/")[0]
        self._guard = threading.Lock()
        self._known: LedgerPaths | None = None

    def read(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Return the metadata and their version.

        Raises:
            NoLedgerError: the ledger does not exist.
            LedgerMetadataError: the metadata are invalid.
        """
        path = self._paths.of(ledger_id)
        try:
            data, version = self._znodes.get(path)
        except MissingZnodeError as fault:
            raise NoLedgerError(f"ledger {ledger_id} does not exist", file=path) from fault
        return parse_metadata(data or b"", file=path), version

    def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Change the metadata, and return the new version.

        Raises:
            ZnodeVersionError: the metadata have another version, perhaps because an attempt at this change succeeded.
            NoLedgerError: the ledger does not exist.
        """
        path = self._paths.of(ledger_id)
        try:
            return self._znodes.set(path, format_metadata(metadata), version)
        except MissingZnodeError as fault:
            raise NoLedgerError(f"ledger {ledger_id} does not exist", file=path) from fault

    def create(self, metadata: LedgerMetadata, note: Callable[[int], None]) -> int:
        """Create a ledger, and return its id; `note` is called with the id before the ledger is created."""
        paths = self._paths
        counter = self._znodes.create_sequential(paths.id_prefix)
        try:
            ledger_id = id_of(counter)
            note(ledger_id)
            data, path = format_metadata(metadata), paths.of(ledger_id)
            try:
                self._znodes.create(path, data, parents=True)
            except ZnodeExistsError:
                if self._znodes.get(path)[0] != data:
                    raise
        finally:
            self._forget(counter)
        return ledger_id

    def delete(self, ledger_id: int) -> None:
        """Remove a ledger, if it exists; bookies remove its entries later."""
        self._forget(self._paths.of(ledger_id))

    def bookies(self) -> frozenset[str]:
        """Return the writable bookies."""
        try:
            return frozenset(self._znodes.children(self._available)) - {_READ_ONLY}
        except MissingZnodeError as fault:
            raise self._not_set_up() from fault

    def address(self, bookie: str) -> tuple[str, int]:
        """Return the host and port of a bookie.

        Raises:
            BookKeeperError: the address is unknown.
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
                except MissingZnodeError as fault:
                    raise self._not_set_up() from fault
                self._known = parse_layout(data or b"", self._root)
            return self._known

    def _not_set_up(self) -> BookKeeperError:
        hint = "Start the bookies, or set dfs.namenode.bookkeeperjournal.zk.availablebookies to their znode."
        return BookKeeperError("BookKeeper is not set up in this ZooKeeper", file=self._root, hint=hint)

    def _forget(self, path: str) -> None:
        try:
            self._znodes.delete(path)
        except MissingZnodeError:
            return


_PROTOCOL = "bookie-rpc"


def address_of(bookie_id: str, registration: bytes | None = None) -> tuple[str, int]:
    """Return the host and port of a bookie.

    Args:
        registration: the value of the bookie's znode below `available`, if it exists.

    Raises:
        BookKeeperError: neither the id nor the registration contains the address.
    """
    if registration:
        try:
            found = pb.BookieServiceInfoFormat.FromString(registration)
        except DecodeError:
            found = pb.BookieServiceInfoFormat()
        for endpoint in found.endpoints:
            if endpoint.protocol == _PROTOCOL:
                return endpoint.host, endpoint.port
    host, _, port = bookie_id.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal():
        raise BookKeeperError(f"{bookie_id} is not host:port, and its registration has no {_PROTOCOL} endpoint")
    return host.removeprefix("[").removesuffix("]"), int(port)


def registration_of(host: str, port: int) -> bytes:
    """Return the value of a bookie's znode as releases from 4.11 on write it; older releases ignore the value."""
    endpoint = pb.BookieServiceInfoFormat.Endpoint(id="bookie", port=port, host=host, protocol=_PROTOCOL)
    return pb.BookieServiceInfoFormat(endpoints=[endpoint]).SerializeToString()
