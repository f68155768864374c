"""Status of paths, which distinguishes a missing path from a failing disk: a failing disk is an error.

`Path.exists`, `is_dir` and `is_file` return False for every error since Python 3.14. A file whose disk fails would then
count as missing, and a default would apply. For example, a JournalNode would forget its promise.
"""

from __future__ import annotations

import stat
from pathlib import Path


def exists(path: Path) -> bool:
    """Return whether `path` resolves to a file or a directory; raise OSError if this cannot be determined."""
    return _mode(path) != 0


def is_directory(path: Path) -> bool:
    """Return whether `path` resolves to a directory; raise OSError if this cannot be determined."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Return whether `path` resolves to a regular file; raise OSError if this cannot be determined."""
    return stat.S_ISREG(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
