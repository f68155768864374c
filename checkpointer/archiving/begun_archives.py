"""Record of the archives that a daemon has filled, in a file next to the `current` folder of each storage directory.

If a recorded location does not contain an archive, the archive is missing, for example because its file system is not
mounted. In this case, the daemon must not begin a new archive there. The file contains only digests of the locations,
because a URL may contain a password.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hadoop_common.durable import write_atomically

NAME: Final = "checkpointer-archives"


class BegunArchive:
    """Durable record that this daemon has filled the archive at `location`; its methods raise OSError or HdfsError.

    In all methods, `storages` are the usable `current` folders of the daemon.
    """

    def __init__(self, location: str) -> None:
        self._digest = hashlib.sha256(location.encode("utf-8", "surrogateescape")).hexdigest()

    def noted(self, storages: Iterable[Path]) -> bool:
        """Return whether any storage records the archive."""
        return any(self._digest in _lines(each) for each in storages)

    def note(self, storages: Iterable[Path]) -> None:
        """Record the archive durably in all storages."""
        for storage in storages:
            if self._digest not in (lines := _lines(storage)):
                write_atomically(
                    storage.parent / NAME, "".join(f"{each}\n" for each in [*lines, self._digest]).encode()
                )


def _lines(storage: Path) -> list[str]:
    try:
        return (storage.parent / NAME).read_text("ascii", "replace").split()
    except FileNotFoundError:
        return []
