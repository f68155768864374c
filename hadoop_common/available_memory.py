"""Memory that this process and the page cache of its files can use, given the free memory and control group limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
# files that contain the limit of a control group, in version 2 of control groups and in version 1
_LIMITS = ("memory.max", "memory.high")
_LIMITS_1 = ("memory.limit_in_bytes",)


def available_memory(meminfo: Path = _MEMINFO, own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int:
    """Return the bytes of memory that are free or easily freed, at most the smallest limit of a control group.

    A group's limit includes its page cache. The result is 0 if the system does not report its memory.

    Args:
        meminfo, own_groups: files in the format that proc(5) describes.
        groups: the mounted hierarchy of control groups.
    """
    found = _AVAILABLE.search(_text(meminfo))
    if found is None:
        return 0
    return min([int(found[1]) << 10, *_group_limits(_text(own_groups), groups)])


def _group_limits(own_groups: str, groups: Path) -> Iterator[int]:
    """Yield the limits of the process's groups and of the groups above them."""
    for line in own_groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_above(groups, path, _LIMITS)
        elif "memory" in controllers.split(","):
            yield from _limits_above(groups / "memory", path, _LIMITS_1)


def _limits_above(root: Path, path: str, names: tuple[str, ...]) -> Iterator[int]:
    # In a container, the path of the group may not exist below the mounted hierarchy, which then begins at the group.
    group = root / path.strip("/")
    for each in (group, *group.parents):
        for name in names:
            text = _text(each / name).strip()
            if text.isdecimal():
                yield int(text)
        if each == root:
            return


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
