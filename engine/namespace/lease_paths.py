"""Leases of Hadoop 2.7 whose paths are not those of their files.

A NameNode 2.7 keeps leases by path, as operations spell it (LeaseManager.sortedLeasesByPath), and changes the texts of
paths when something is renamed or closed. A path with a slash at its end becomes another one where a directory above is
renamed, and one that leads nowhere where slashes meet. What a path leads to is looked up when an image is written: to
an open file, or the lease is not in the image.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.namespace.paths import has_odd_slashes


def is_covered(path: str, prefix: str) -> bool:
    """Whether a lease's path goes with a path that is renamed or removed (LeaseManager.findLeaseWithPrefixPath)."""
    return path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix) :][:1] in ("", "/"))


class LeasePaths:
    """The paths; there are some only where clients send paths with slashes at the end or doubled ones."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def add(self, path: str) -> None:
        self._paths.add(path)

    def remove_below(self, prefix: str) -> None:
        """A file was closed, or something was removed."""
        self._paths = {path for path in self._paths if not is_covered(path, prefix)}

    def rename(self, source: str, target: str) -> None:
        """Something was renamed, by these spellings of its paths (LeaseManager.changeLease)."""
        self._paths = {target + path[len(source) :] if is_covered(path, source) else path for path in self._paths}

    def detach(self, path: str, source: str, target: str) -> None:
        """A file whose lease has its plain path is renamed by spellings that may separate both."""
        self._paths.add(target + path[len(source) :] if is_covered(path, source) else path)


def separates(source: str, target: str) -> bool:
    """Whether a rename by these spellings may separate leases from their files."""
    return has_odd_slashes(source) or has_odd_slashes(target)
