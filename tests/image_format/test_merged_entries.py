"""New entries of changed directories, compared with a dictionary of their children in the order of names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.index import DirectoryChanges, ImageIndex
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, parse_message, read_record
from tests.image_format.index_support import ROOT, directory, file, write

Children = dict[bytes, int]
NAMES = st.binary(min_size=1, max_size=3) | st.binary(min_size=9, max_size=140)


def changes_of(wanted: dict[int, Children]) -> DirectoryChanges:
    """Return, by directory id, the changed names and each name's current inode, or 0 if the name was removed."""
    names = [name for each in wanted.values() for name in each]
    sizes = [len(name) for name in names]
    starts = np.cumsum([0, *sizes])[:-1]
    return DirectoryChanges(
        np.array(list(wanted), np.int64),
        np.frombuffer(b"".join(names), np.uint8),
        np.stack([starts, np.array(sizes, np.int64)], axis=1).astype(np.int64),
        np.array([held for each in wanted.values() for held in each.values()], np.int64),
        np.cumsum([0, *map(len, wanted.values())], dtype=np.int64),
    )


@contextmanager
def index_of(path: Path, directories: dict[int, list[tuple[bytes, int]]], order: list[int]) -> Iterator[ImageIndex]:
    """Yield an index of an image with these children, whose inodes are in that order in the file."""
    names = {child: name for each in directories.values() for name, child in each}
    records = {child: file(child, name) for child, name in names.items()}
    records |= {each: directory(each, b"" if each == ROOT else b"d%d" % each) for each in directories}
    entries = (
        encode_delimited(pb.DirEntry(parent=parent, children=[child for _, child in children]))
        for parent, children in directories.items()
        if children
    )
    image_path = write(path, [records[each] for each in order], b"".join(entries))
    with ImageFile.open(image_path, verify_md5=False) as image:
        yield ImageIndex(image)


def merged(index: ImageIndex, changes: DirectoryChanges) -> dict[int, list[int]]:
    data, spans = index.merge_directories(changes, index.directory_spans(changes.directory_ids))
    found = {}
    for directory_id, (start, end) in zip(changes.directory_ids.tolist(), spans.tolist(), strict=True):
        entry = pb.DirEntry()
        if end > start:
            record = read_record(data.data, start)
            assert record.end == end
            entry = parse_message(pb.DirEntry, record)
            assert entry.parent == directory_id
            assert entry.children
        found[directory_id] = list(entry.children)
    assert sum(np.diff(spans).ravel().tolist()) == data.size
    return found


@given(st.data())
def test_any_changes_are_merged_into_any_directories(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ids = iter(range(ROOT + 100, 1 << 20, data.draw(st.integers(1, 999))))
    held: dict[int, Children] = {
        ROOT + number: {name: next(ids) for name in sorted(names, key=name_key)}
        for number, names in enumerate(data.draw(st.lists(st.sets(NAMES, max_size=40), min_size=1, max_size=6)))
    }
    wanted: dict[int, Children] = {}
    for directory_id, children in held.items():
        known = st.sampled_from(list(children)) if children else st.nothing()
        names = data.draw(st.lists(known | NAMES, unique=True, max_size=20))
        wanted[directory_id] = {name: data.draw(st.sampled_from([0, next(ids)])) for name in names}
    # unsorted directories, which only NameNodes of Hadoop up to 3.2 write
    mixed = [each for each in held if data.draw(st.integers(0, 3)) == 0]
    listed = {
        each: data.draw(st.permutations(list(children.items()))) if each in mixed else list(children.items())
        for each, children in held.items()
    }
    everyone = [*held, *(child for children in held.values() for child in children.values())]
    order = data.draw(st.permutations(everyone)) if data.draw(st.booleans()) else sorted(everyone)
    asked = {each: wanted[each] for each in data.draw(st.permutations(list(wanted)))}
    with index_of(tmp_path_factory.mktemp("merged") / "fsimage_7", listed, order) as index:
        found = merged(index, changes_of(asked))
    for directory_id, children in held.items():
        now = {name: child for name, child in (children | wanted[directory_id]).items() if child}
        assert found[directory_id] == [now[name] for name in sorted(now, key=name_key)]


def test_directories_without_an_entry_in_the_image(tmp_path: Path) -> None:
    with index_of(tmp_path / "fsimage_7", {ROOT: [(b"b", ROOT + 7)]}, [ROOT, ROOT + 7]) as index:
        wanted = {ROOT + 50: {b"x": 9, b"a": 8, b"gone": 0}, ROOT: {b"b": 0}, ROOT + 51: {b"gone": 0}, ROOT + 52: {}}
        assert merged(index, changes_of(wanted)) == {ROOT + 50: [8, 9], ROOT: [], ROOT + 51: [], ROOT + 52: []}
        assert merged(index, changes_of({})) == {}


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ([(b"a", ROOT + 2), (b"a", ROOT + 3)], f"directory {ROOT + 1} has two children with the name of inode"),
        ([(b"a", ROOT + 2), (b"b", ROOT + 9)], f"directory {ROOT + 1} has a child that is not an inode"),
    ],
)
def test_the_error_names_a_damaged_directory(tmp_path: Path, children: list[tuple[bytes, int]], message: str) -> None:
    order = [ROOT, ROOT + 1, *(child for _, child in children if child != ROOT + 9)]
    # unordered, so that another directory follows while a directory's children are loaded
    root = [(b"d", ROOT + 4), (b"c", ROOT + 5)]
    listed = {ROOT: root, ROOT + 1: children}
    with index_of(tmp_path / "fsimage_7", listed, [*order, ROOT + 4, ROOT + 5]) as index:
        changes = changes_of({ROOT + 1: {b"z": 77}, ROOT: {b"z": 78}})
        with pytest.raises(RecordError, match=message) as caught:
            index.merge_directories(changes, index.directory_spans(changes.directory_ids))
        assert "INODE_DIR" in str(caught.value)
