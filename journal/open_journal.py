"""Opening a journal by its URI: the scheme says which kind it is (dfs.namenode.edits.journal-plugin.SCHEME)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hadoop_common.endpoint import uri_scheme
from hadoop_common.storage_lock import StorageLock
from journal.errors import JournalError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.json_journal import JsonJournal
from journal.quorum.open_quorum import QuorumOptions, open_quorum_journal

_CURRENT = "current"
_Opener = Callable[[str, str | None, Iterable[StorageLock], QuorumOptions], Journal]


def open_journal(
    uri: str,
    journal_id: str | None = None,
    *,
    locks: Iterable[StorageLock] = (),
    quorum: QuorumOptions | None = None,
) -> Journal:
    """The journal at `uri`, which need not be formatted yet.

    `file:///dir`, or a path alone, is a storage directory; `json:///dir`, or `json:dir`, a directory of JSON files.
    With `journal_id` it is the directory of that name in it. `qjournal://host:port;host:port;host:port/id` is the
    journal `id` on these JournalNodes; without `/id` there, it is `journal_id`.

    Args:
        journal_id: for a place that holds several journals.
        locks: of storage directories, that the caller holds already.
        quorum: how JournalNodes are spoken to.

    Raises:
        JournalError: no journal is kept under this scheme, or the URI is none of it.
    """
    opener = _OPENERS.get(uri_scheme(uri) or "file")
    if opener is None:
        hint = f"Known schemes are {', '.join(_OPENERS)}."
        raise JournalError(f"{uri} names no kind of journal that is known", hint=hint)
    return opener(uri, journal_id, locks, quorum or QuorumOptions())


def _open_file(uri: str, journal_id: str | None, locks: Iterable[StorageLock], _: QuorumOptions) -> Journal:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise JournalError(f"{uri} names no local directory", hint="Write it as file:///path/of/the/directory.")
    root = Path(unquote(parts.path)) / (journal_id or "")
    return FileJournal(root / _CURRENT, lock=_held(locks, root))


def _open_json(uri: str, journal_id: str | None, locks: Iterable[StorageLock], _: QuorumOptions) -> Journal:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise JournalError(f"{uri} names no local directory", hint="Write it as json:///path/of/the/directory.")
    root = Path(unquote(parts.path)).absolute() / (journal_id or "")
    return JsonJournal(root, lock=_held(locks, root))


def _open_quorum(uri: str, journal_id: str | None, _: Iterable[StorageLock], options: QuorumOptions) -> Journal:
    return open_quorum_journal(
        f"{uri.rstrip('/')}/{journal_id}" if journal_id else uri,
        user=options.user,
        settings=options.settings,
        namespace=options.namespace,
        nameservice=options.nameservice,
    )


def _held(locks: Iterable[StorageLock], directory: Path) -> StorageLock | None:
    return next((each for each in locks if each.directory == directory), None)


_OPENERS: dict[str, _Opener] = {"file": _open_file, "json": _open_json, "qjournal": _open_quorum}
