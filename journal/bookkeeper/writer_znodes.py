"""The two znodes by which writers of a BookKeeper journal exclude each other, and the errors of these writers.

maxtxid             A txid that increases with every segment. No segment begins at or before this txid (MaxTxId).
CurrentInprogress   The segment that is being written. A writer sets this znode only if its version has not changed
                    since the writer read it, so that one of two writers fails (CurrentInprogress).
"""

from __future__ import annotations

import socket

from hadoop_common.zookeeper.znodes import ZNodes
from journal.bookkeeper.errors import MissingZnodeError, ZnodeExistsError, ZnodeVersionError
from journal.bookkeeper.journal_znodes import format_current, format_max_txid, parse_current, parse_max_txid
from journal.errors import JournalError, JournalInUseError


class MaxTxid:
    """The `maxtxid` znode at `path`."""

    def __init__(self, path: str, znodes: ZNodes) -> None:
        self._path = path
        self._znodes = znodes

    def read(self) -> tuple[int, int]:
        """Return the value and its version; 0 and -1 if the znode is missing."""
        try:
            data, version = self._znodes.get(self._path)
        except MissingZnodeError:
            return 0, -1
        return parse_max_txid(data, file=self._path), version

    def raise_to(self, txid: int) -> None:
        """Set the value to `txid`, unless it is already larger."""
        while True:
            found, version = self.read()
            if found >= txid:
                return
            try:
                if version < 0:
                    self._znodes.create(self._path, format_max_txid(txid))
                else:
                    self._znodes.set(self._path, format_max_txid(txid), version)
            except (ZnodeExistsError, ZnodeVersionError):
                continue

    def lower_from(self, txid: int) -> None:
        """If the value is `txid`, lower the value, because the segment of `txid` is empty."""
        newest, version = self.read()
        if newest == txid:
            self._znodes.set(self._path, format_max_txid(newest - 1), version)


class CurrentInprogress:
    """The `CurrentInprogress` znode at `path`.

    Args:
        location: location of the journal, for errors.
    """

    def __init__(self, path: str, znodes: ZNodes, location: str) -> None:
        self._path = path
        self._znodes = znodes
        self._location = location

    def refuse_another(self, first_txid: int) -> int:
        """Return the version of the znode; raise JournalInUseError if it names an existing segment."""
        data, version = self._znodes.get(self._path)
        path = parse_current(data, file=self._path)
        if path is not None and self._znodes.exists(path):
            raise another_writer(self._location, path, first_txid)
        return version

    def set(self, path: str, version: int) -> None:
        """Name the segment at `path`; raise JournalInUseError if another writer was faster."""
        data = format_current(path, _host_name())
        try:
            self._znodes.set(self._path, data, version)
        except ZnodeVersionError as fault:
            if znode_value(self._znodes, self._path) != data:
                raise another_writer(self._location, path, None) from fault

    def clear(self, path: str) -> None:
        """Set the znode to null if it names `path`; a NameNode would consider an empty value damaged."""
        try:
            data, version = self._znodes.get(self._path)
            if data and parse_current(data, file=self._path) == path:
                self._znodes.set(self._path, None, version)
        except (MissingZnodeError, ZnodeVersionError):
            # The znode was removed, or now names another segment.
            return


def znode_value(znodes: ZNodes, path: str) -> bytes | None:
    """Return the value of a znode; None if it does not exist."""
    try:
        return znodes.get(path)[0] or b""
    except MissingZnodeError:
        return None


def remove_znode(znodes: ZNodes, path: str) -> None:
    """Remove a znode, if it exists."""
    try:
        znodes.delete(path)
    except MissingZnodeError:
        return


def another_writer(location: str, path: str, first_txid: int | None) -> JournalInUseError:
    """Return the error of a writer that another writer has excluded."""
    hint = "Recover the journal to take over from the other writer, or let the other writer continue."
    return JournalInUseError(f"another writer has begun {path}", file=location, txid=first_txid, hint=hint)


def not_formatted(location: str) -> JournalError:
    """Return the error for a missing journal."""
    hint = "Check the servers and the path in the URI. Format new journals only."
    return JournalError("the journal is not formatted", file=location, hint=hint)


def _host_name() -> str:
    """Return the name of this host as Java's InetAddress formats it."""
    name = socket.gethostname()
    try:
        return f"{name}/{socket.gethostbyname(name)}"
    except OSError:
        return f"{name}/127.0.0.1"
