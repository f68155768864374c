"""Directories of a JournalNode's journals, depending on the nameservice in the configuration or in a call."""

from __future__ import annotations

import threading

from journal_node.config import JournalNodeConfig
from journal_node.disk import JournalDisk
from journal_node.file_disk import FileDisk

# The number of recorded nameservices is limited, because callers may name any journal.
_MAX_REPORTED = 1000


class JournalPlaces:
    """Function that maps a journal's id to its folder (JournalNode.getLogDir); thread-safe."""

    def __init__(self, config: JournalNodeConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._nameservices = {each.journal_id: each.nameservice for each in config.journals}

    def record_nameservice(self, journal_id: str, nameservice: str) -> None:
        """Record the nameservice that a call names for a journal; the configuration has precedence."""
        with self._lock:
            if self._nameservices.get(journal_id) is None and len(self._nameservices) < _MAX_REPORTED:
                self._nameservices[journal_id] = nameservice

    def __call__(self, journal_id: str) -> JournalDisk:
        with self._lock:
            nameservice = self._nameservices.get(journal_id)
        root = self._config.directory_of(nameservice)
        return FileDisk(root / journal_id, permission=self._config.directory_permission)
