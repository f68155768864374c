"""Where the edits are that the active shares: `dfs.namenode.shared.edits.dir` as a URI."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from hadoop_common.config_key import ABSENT, OPTIONAL_SWITCH, ConfigKey, KeyStatus
from hadoop_common.configuration import Configuration, ConfigurationError, local_path
from hadoop_common.endpoint import uri_scheme
from journal.errors import JournalError
from journal.quorum.address import SCHEME, QuorumAddress

_FILE = "file"
RESOLUTION = ConfigKey(
    "dfs.namenode.edits.qjournals.resolution-enabled",
    "false",
    OPTIONAL_SWITCH,
    "Quorum journals whose nodes a resolver finds behind one name.",
    KeyStatus.IGNORED,
    "each JournalNode has to be named in dfs.namenode.shared.edits.dir; a standby refuses the switch",
    ABSENT,
)


def shared_edits(settings: Configuration, key: str) -> str:
    """The URI that `key` holds: `file:///directory`, `qjournal://host:port;host:port/id`, or another journal's.

    Raises:
        ConfigurationError: it holds none or several, or no journal is of that kind.
    """
    found = settings.get_list(key)
    if len(found) != 1:
        problem = "names several directories" if found else "is not set; the standby role reads its edits there"
        raise ConfigurationError([settings.fault(key, problem)])
    return _journal_uri(settings, key, found[0])


def journal_uris(settings: Configuration, key: str) -> tuple[str, ...]:
    """The URIs in the list that `key` holds, each once.

    Raises:
        ConfigurationError: for one of them no journal is of that kind.
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
        # All kinds of journal come with it, which few commands need.
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
    """The directory that a `file:` URI names; None of any other."""
    return Path(unquote(urlsplit(uri).path)) if uri_scheme(uri) == _FILE else None


def _refuse_resolution(settings: Configuration) -> None:
    """One name for all nodes would be taken for a quorum of one."""
    if RESOLUTION.read(settings):
        problem = "is on, but each JournalNode has to be named itself in dfs.namenode.shared.edits.dir"
        raise ConfigurationError([settings.fault(RESOLUTION.name, problem)])
