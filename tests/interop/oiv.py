"""The output of OfflineImageViewerPB -p XML in parts, to compare two images independently of their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable

# an inode, a directory with its children, the diffs of an inode, a reference, a snapshottable directory, the number of
# a snapshot, or the header of a section
_ITEM = re.compile(
    r"(?=<inode><id>|<directory>|<diff>|<(?:dir|file)DiffEntry>|<ref>|<dir>|<snapshot>|<[A-Za-z]+Section>)"
)
# ignore a diff list without diffs
_EMPTY = re.compile(
    r"<diff><inodeid>\d+</inodeid></diff>|<(dir|file)DiffEntry><inodeId>\d+</inodeId><count>0</count></\1DiffEntry>"
)
# counts the names of a created list, some of which the output omits
_COUNTED = re.compile(r"<createdListSize>\d+</createdListSize>")
_REFERENCE = re.compile(r"<ref>.*?</ref>")
_INDEX = re.compile(r"<(?:inodereference-index|refChild|deletedInoderef)>(\d+)</[A-Za-z-]+>")
_CHILD = re.compile(r"(?=<inode>|<child>|<reference>)")
# quotas and attributes are sets
_SET = re.compile(r"(?:<(typeQuota|xattr)>(?:(?!</\1>).)*</\1>){2,}")
_MEMBER = re.compile(r"<(typeQuota|xattr)>.*?</\1>")
_DELETED = re.compile(r"(?:<deletedInode>\d+</deletedInode>)+")
_BLOCK = re.compile(r"(<block><id>(\d+)</id><genstamp>\d+</genstamp><numBytes>)(\d+)")
_DELETED_LENGTH = str((1 << 63) - 1)
_MTIME = re.compile(r"<mtime>(\d+)</mtime>")
_END = re.compile(r"</[A-Za-z]+Section>|</fsimage>|</?snapshottableDir>")


def deleted_blocks(text: str) -> set[str]:
    """Return the ids of the blocks that Hadoop marked as deleted during the replay; the mark is a special length."""
    return {number for _, number, length in _BLOCK.findall(text) if length == _DELETED_LENGTH}


def items(
    text: str, clock: Container[int], nowhere: Iterable[tuple[int, str]], deleted: Container[str] = ()
) -> Counter[str]:
    """Return the inodes, directories, references, diffs and sections in `text`.

    In the result, a reference replaces the number of the reference.

    Args:
        clock: times that Hadoop takes from its clock during replay; the result omits them, because they always differ.
        nowhere: names (directory, name) in created lists that lead to no inode; the result omits these names.
        deleted: ids of blocks whose lengths the result omits.
    """
    references = [found.replace("<ref>", "<reference>") for found in _REFERENCE.findall(text)]
    text = _COUNTED.sub("", text)
    text = _SET.sub(lambda match: "".join(sorted(member[0] for member in _MEMBER.finditer(match[0]))), text)
    text = _DELETED.sub(lambda match: "".join(sorted(match[0].split(">"))), text)
    text = _BLOCK.sub(lambda match: match[1] if match[2] in deleted else match[0], text)
    text = _INDEX.sub(lambda match: references[int(match[1])], text)
    text = _MTIME.sub(lambda match: "<mtime>clock</mtime>" if int(match[1]) in clock else match[0], text)
    parts = Counter(map(_sorted_children, _ITEM.split(_END.sub("", text.replace("\n", "")))))
    for directory, name in nowhere:
        heads = (f"<diff><inodeid>{directory}</inodeid>", f"<dirDiffEntry><inodeId>{directory}</inodeId>")
        created = f"<created><name>{name}</name></created>"
        parts = Counter(part.replace(created, "") if part.startswith(heads) else part for part in parts.elements())
    return Counter({part: count for part, count in parts.items() if not _EMPTY.fullmatch(part)})


def _sorted_children(item: str) -> str:
    """Return a directory's children in sorted order, because the position of a reference has no meaning."""
    if not item.startswith("<directory>"):
        return item
    head, *children = _CHILD.split(item.removesuffix("</directory>"))
    return head + "".join(sorted(children))
