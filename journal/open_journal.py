"""Opens a journal by its URI, whose scheme selects the kind (dfs.namenode.edits.journal-plugin.SCHEME)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.addresses import uri_scheme
from hadoop_common.file_uris import local_uri_path
from hadoop_common.storage_lock import StorageLock
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, open_bookkeeper_journal
from journal.errors import JournalError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.json_journal import JsonJournal
from journal.quorum.open_quorum import QuorumOptions, open_quorum_journal

_CURRENT = "current"


@dataclass(frozen=True, slots=True)
class _JournalOptions:
    locks: tuple[StorageLock, ...]
    quorum: QuorumOptions
    bookkeeper: BookKeeperOptions


_Opener = Callable[[str, str | None, _JournalOptions], Journal]


def open_journal(
    uri: str,
    journal_id: str | None = None,
    *,
    locks: Iterable[StorageLock] = (),
    quorum: QuorumOptions | None = None,
    bookkeeper: BookKeeperOptions | None = None,
) -> Journal:
    """Return the journal at `uri`, which may be unformatted.

    `file:///dir`, or a plain path, is a storage directory; `json:///dir`, or `json:dir`, is a directory of JSON files.
    With `journal_id`, the journal is in the subdirectory of that name. `qjournal://host:port;host:port;host:port/id` is
    the journal `id` on these JournalNodes; without `/id`, `journal_id` is used. `bookkeeper://host:port;host:port/path`
    is the BookKeeper journal at `path` of these ZooKeeper servers.

    Args:
        journal_id: id of the journal at a location that can contain several journals.
        locks: locks of storage directories that the caller already holds.
        quorum: options of JournalNode clients.
        bookkeeper: options of BookKeeper and ZooKeeper clients.

    Raises:
        JournalError: the scheme is unknown, or the URI is invalid.
    """
    opener = _OPENERS.get(uri_scheme(uri) or "file")
    if opener is None:
        hint = f"Known schemes are {', '.join(_OPENERS)}."
        raise JournalError(f"{uri} has an unknown scheme", hint=hint)
    options = _JournalOptions(tuple(locks), quorum or QuorumOptions(), bookkeeper or BookKeeperOptions())
    return opener(uri, journal_id, options)


def _open_file(uri: str, journal_id: str | None, options: _JournalOptions) -> Journal:
    root = (Path(uri) if uri.startswith("/") else _local_path(uri)) / (journal_id or "")
    return FileJournal(root / _CURRENT, lock=_held(options.locks, root))


def _open_json(uri: str, journal_id: str | None, options: _JournalOptions) -> Journal:
    root = _local_path(uri, absolute=False).absolute() / (journal_id or "")
    return JsonJournal(root, lock=_held(options.locks, root))


def _local_path(uri: str, *, absolute: bool = True) -> Path:
    try:
        return local_uri_path(uri, absolute=absolute)
    except ValueError as error:
        raise JournalError(f"{uri} {error}", hint="Specify the URI of a directory of this host.") from error


def _open_quorum(uri: str, journal_id: str | None, options: _JournalOptions) -> Journal:
    quorum = options.quorum
    return open_quorum_journal(
        _joined(uri, journal_id),
        user=quorum.user,
        settings=quorum.settings,
        namespace=quorum.namespace,
        nameservice=quorum.nameservice,
    )


def _open_bookkeeper(uri: str, journal_id: str | None, options: _JournalOptions) -> Journal:
    return open_bookkeeper_journal(_joined(uri, journal_id), options.bookkeeper)


def _joined(uri: str, journal_id: str | None) -> str:
    return f"{uri.rstrip('/')}/{journal_id}" if journal_id else uri


def _held(locks: Iterable[StorageLock], directory: Path) -> StorageLock | None:
    return next((each for each in locks if each.directory == directory), None)


_OPENERS: dict[str, _Opener] = {
    "file": _open_file,
    "json": _open_json,
    "qjournal": _open_quorum,
    "bookkeeper": _open_bookkeeper,
}
