"""What OfflineImageViewerPB -p XML printed, taken apart so that two images can be compared whatever their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable

# an inode, a directory with its children, the diffs of an inode, a reference, a snapshottable directory, the number
# of a snapshot, or the head of a section
_ITEM = re.compile(r"(?=<inode><id>|<directory>|<diff>|<ref>|<dir>|<snapshot>|<[A-Za-z]+Section>)")
# a diff list without diffs says nothing
_EMPTY = re.compile(r"<diff><inodeid>\d+</inodeid></diff>")
_REFERENCE = re.compile(r"<ref>.*?</ref>")
_INDEX = re.compile(r"<inodereference-index>(\d+)</inodereference-index>")
_CHILD = re.compile(r"(?=<inode>|<reference>)")
_MTIME = re.compile(r"<mtime>(\d+)</mtime>")
_END = re.compile(r"</[A-Za-z]+Section>|</fsimage>|</?snapshottableDir>")


def items(text: str, clock: Container[int], nowhere: Iterable[tuple[int, str]]) -> Counter[str]:
    """The inodes, directories, references, diffs and sections in `text`.

    The number of a reference is replaced by the reference.

    Args:
        clock: times that Hadoop took from the clock at replay, so that they differ each time; left out.
        nowhere: names (directory, name) in created lists that lead to no inode; left out.
    """
    references = [found.replace("<ref>", "<reference>") for found in _REFERENCE.findall(text)]
    text = _INDEX.sub(lambda match: references[int(match[1])], text)
    text = _MTIME.sub(lambda match: "<mtime>clock</mtime>" if int(match[1]) in clock else match[0], text)
    parts = Counter(map(_sorted_children, _ITEM.split(_END.sub("", text.replace("\n", "")))))
    for directory, name in nowhere:
        head, created = f"<diff><inodeid>{directory}</inodeid>", f"<created><name>{name}</name></created>"
        parts = Counter(part.replace(created, "") if part.startswith(head) else part for part in parts.elements())
    return Counter({part: count for part, count in parts.items() if not _EMPTY.fullmatch(part)})


def _sorted_children(item: str) -> str:
    """A directory's children in an order of ours: where a reference stands among the others is of no account."""
    if not item.startswith("<directory>"):
        return item
    head, *children = _CHILD.split(item.removesuffix("</directory>"))
    return head + "".join(sorted(children))
