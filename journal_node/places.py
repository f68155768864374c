"""Where a JournalNode keeps a journal: by its nameservice, which the configuration or its writer tells."""

from __future__ import annotations

import threading

from journal_node.config import JournalNodeConfig
from journal_node.disk import Disk
from journal_node.file_disk import FileDisk

# Anybody may tell of any journal.
_MOST_HEARD = 1000


class JournalPlaces:
    """The folder of a journal by its id (JournalNode.getLogDir); any thread may call."""

    def __init__(self, config: JournalNodeConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._nameservices = {each.journal_id: each.nameservice for each in config.journals}

    def heard(self, journal_id: str, nameservice: str) -> None:
        """A caller told the nameservice of a journal; the configuration's word counts more."""
        with self._lock:
            if self._nameservices.get(journal_id) is None and len(self._nameservices) < _MOST_HEARD:
                self._nameservices[journal_id] = nameservice

    def __call__(self, journal_id: str) -> Disk:
        with self._lock:
            nameservice = self._nameservices.get(journal_id)
        root = self._config.directory_of(nameservice)
        return FileDisk(root / journal_id, permission=self._config.directory_permission)
