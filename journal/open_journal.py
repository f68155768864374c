"""Opening a journal by its URI: the scheme says which kind it is (dfs.namenode.edits.journal-plugin.SCHEME)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hadoop_common.endpoint import uri_scheme
from hadoop_common.storage_lock import StorageLock
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, open_bookkeeper_journal
from journal.errors import JournalError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.json_journal import JsonJournal
from journal.quorum.open_quorum import QuorumOptions, open_quorum_journal

_CURRENT = "current"


@dataclass(frozen=True, slots=True)
class _Options:
    """See `open_journal`."""

    locks: tuple[StorageLock, ...]
    quorum: QuorumOptions
    bookkeeper: BookKeeperOptions


_Opener = Callable[[str, str | None, _Options], Journal]


def open_journal(
    uri: str,
    journal_id: str | None = None,
    *,
    locks: Iterable[StorageLock] = (),
    quorum: QuorumOptions | None = None,
    bookkeeper: BookKeeperOptions | None = None,
) -> Journal:
    """The journal at `uri`, which need not be formatted yet.

    `file:///dir`, or a path alone, is a storage directory; `json:///dir`, or `json:dir`, a directory of JSON files.
    With `journal_id` it is the directory of that name in it. `qjournal://host:port;host:port;host:port/id` is the
    journal `id` on these JournalNodes; without `/id` there, it is `journal_id`.
    `bookkeeper://host:port;host:port/path` is the journal on BookKeeper that these ZooKeeper servers know by `path`.

    Args:
        journal_id: for a place that holds several journals.
        locks: of storage directories, that the caller holds already.
        quorum: how JournalNodes are spoken to.
        bookkeeper: how bookies and ZooKeeper are.

    Raises:
        JournalError: no journal is kept under this scheme, or the URI is none of it.
    """
    opener = _OPENERS.get(uri_scheme(uri) or "file")
    if opener is None:
        hint = f"Known schemes are {', '.join(_OPENERS)}."
        raise JournalError(f"{uri} names no kind of journal that is known", hint=hint)
    options = _Options(tuple(locks), quorum or QuorumOptions(), bookkeeper or BookKeeperOptions())
    return opener(uri, journal_id, options)


def _open_file(uri: str, journal_id: str | None, options: _Options) -> Journal:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise JournalError(f"{uri} names no local directory", hint="Write it as file:///path/of/the/directory.")
    root = Path(unquote(parts.path)) / (journal_id or "")
    return FileJournal(root / _CURRENT, lock=_held(options.locks, root))


def _open_json(uri: str, journal_id: str | None, options: _Options) -> Journal:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise JournalError(f"{uri} names no local directory", hint="Write it as json:///path/of/the/directory.")
    root = Path(unquote(parts.path)).absolute() / (journal_id or "")
    return JsonJournal(root, lock=_held(options.locks, root))


def _open_quorum(uri: str, journal_id: str | None, options: _Options) -> Journal:
    quorum = options.quorum
    return open_quorum_journal(
        _joined(uri, journal_id),
        user=quorum.user,
        settings=quorum.settings,
        namespace=quorum.namespace,
        nameservice=quorum.nameservice,
    )


def _open_bookkeeper(uri: str, journal_id: str | None, options: _Options) -> Journal:
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
