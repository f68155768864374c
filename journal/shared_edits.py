"""The location of the edits that the active NameNode shares: `dfs.namenode.shared.edits.dir` as a URI."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.addresses import uri_scheme
from hadoop_common.config_key import ABSENT, OPTIONAL_SWITCH, ConfigKey, KeyStatus
from hadoop_common.configuration import Configuration, ConfigurationError, local_path
from hadoop_common.file_uris import local_uri_path
from journal.errors import JournalError
from journal.quorum.address import SCHEME, QuorumAddress

_FILE = "file"
RESOLUTION = ConfigKey(
    "dfs.namenode.edits.qjournals.resolution-enabled",
    "false",
    OPTIONAL_SWITCH,
    "Quorum journals with nodes that are resolved from one name.",
    KeyStatus.IGNORED,
    "name each JournalNode in dfs.namenode.shared.edits.dir; a standby refuses to start if this switch is on",
    ABSENT,
)


def shared_edits(settings: Configuration, key: str) -> str:
    """Return the URI in `key`, such as `file:///directory` or `qjournal://host:port;host:port/id`.

    Raises:
        ConfigurationError: the key has no URI or several URIs, or the kind of journal is unknown.
    """
    found = settings.get_list(key)
    if len(found) != 1:
        problem = "names several directories" if found else "is not set; it names the edits that the standby role reads"
        if found and uri_scheme(found[0]) == SCHEME:
            problem = "names several journals; separate the JournalNodes of a journal by semicolons"
        raise ConfigurationError([settings.fault(key, problem)])
    return _journal_uri(settings, key, found[0])


def journal_uris(settings: Configuration, key: str) -> tuple[str, ...]:
    """Return the URIs in the list of `key`, without duplicates.

    Raises:
        ConfigurationError: the kind of journal of a URI is unknown.
    """
    return tuple(dict.fromkeys(_journal_uri(settings, key, item) for item in settings.get_list(key)))


def _journal_uri(settings: Configuration, key: str, item: str) -> str:
    try:
        scheme = uri_scheme(item)
        if scheme in ("", _FILE):
            return _directory_uri(settings, key, item)
        if scheme == SCHEME:
            _refuse_resolution(settings)
            return QuorumAddress.parse(item).uri
        # Parsing loads the modules of all kinds of journals, which few commands need.
        from journal.open_journal import open_journal

        open_journal(item).close()
    except (JournalError, ValueError) as error:
        problem = error.message if isinstance(error, JournalError) else str(error)
        raise ConfigurationError([settings.fault(key, f"names no journal: {problem}", item)]) from error
    return item


def _directory_uri(settings: Configuration, key: str, item: str) -> str:
    try:
        return local_path(item).as_uri()
    except ValueError as error:
        raise ConfigurationError([settings.fault(key, str(error), item)]) from error


def directory_of(uri: str) -> Path | None:
    """Return the directory of a `file:` URI; None for other URIs."""
    return local_uri_path(uri) if uri_scheme(uri) == _FILE else None


def _refuse_resolution(settings: Configuration) -> None:
    """Refuse the resolution of one name to all nodes, because that name would count as a quorum of one node."""
    if RESOLUTION.read(settings):
        problem = "is on, but resolution is not supported: name each JournalNode in dfs.namenode.shared.edits.dir"
        raise ConfigurationError([settings.fault(RESOLUTION.name, problem)])
