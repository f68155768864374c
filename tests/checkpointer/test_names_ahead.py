"""Names that are looked up ahead of the replay: what is said of them is true, and the replay is as without them."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.loaded_image import load_image
from engine.replay import names_ahead as module
from engine.replay import replay
from engine.replay.compiled import CompiledReplay
from engine.replay.kernels.base_children import DIRECTORY_ID, NAME_AT, NOT_LOOKED_UP, PATH_START, SLOT
from engine.replay.kernels.state import ABSENT
from engine.replay.name_lookup import NameLookup, Piece
from engine.replay.names_ahead import NamesAhead, names_ahead
from image_format.errors import ImageStorageError
from image_format.index import ImageIndex
from image_format.reader import ImageFile
from image_format.room import Room
from journal.binary_codec import encode_op
from journal.ops import EditOp
from journal.segment import HEADER_SIZE, SegmentCursor, encode_header
from tests.checkpointer.image_builder import HADOOP2, ROOT, ImageBuilder, numbered
from tests.checkpointer.op_makers import add, close, delete, mkdir, rename, set_permissions, times
from tests.checkpointer.replay_twins import EncodedOps, encoded, names_at_once

DIRECTORIES, FILES = 40, 30
"""Directories below the root, each with so many files and a directory with as many."""


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageIndex]:
    with ImageFile.open(save(tmp_path_factory.mktemp("image"))) as image:
        yield ImageIndex(image)


def save(folder: Path) -> Path:
    """An image of a small tree; one directory of it is in no order, another is empty."""
    builder = ImageBuilder()
    for number in range(DIRECTORIES):
        for above in (f"/d{number}", f"/d{number}/below"):
            builder.directory(above)
            for file in range(FILES):
                builder.file(f"{above}/f{file}")
    builder.directory("/empty")
    return builder.save(folder)


def segment(ops: Sequence[EditOp]) -> bytes:
    out = bytearray(encode_header(HADOOP2))
    for op in numbered(ops, 100):
        out += encode_op(op, HADOOP2)
    return bytes(out)


def paths() -> st.SearchStrategy[str]:
    names = st.sampled_from(["d0", "d7", "d39", "d40", "below", "empty", "f0", "f29", "f30", "x", "é"])
    return st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def operations() -> st.SearchStrategy[EditOp]:
    one = st.sampled_from([delete, times, lambda path: set_permissions(path, 0o640), lambda path: mkdir(path, 99_999)])
    single = st.builds(lambda make, path: make(path), one, paths())
    return single | st.builds(rename, paths(), paths()) | st.builds(lambda path: add(path, 99_998), paths())


def paths_of(op: EditOp) -> list[str]:
    """What is followed ahead for an operation."""
    return [text for name in ("path", "src", "dst") if isinstance(text := getattr(op, name, None), str)]


def child(index: ImageIndex, directory: int, name: str) -> int:
    return index.child(directory, name.encode()) if directory > 0 else ABSENT


def expected(index: ImageIndex, path: str) -> tuple[int, int]:
    """(id of the directory that a path leads to but for its last name, slot of what that leads to)."""
    directory, (*above, last) = ROOT, path[1:].split("/")
    for name in above:
        directory = child(index, directory, name)
    found = child(index, directory, last)
    return directory, index.slot(found) if found > 0 else ABSENT


def all_pieces(lookup: NameLookup, cursor: SegmentCursor, most: int) -> list[Piece]:
    lookup.begin(cursor)
    found = list(iter(lambda: lookup.next_piece(0, most), None))
    lookup.end()
    return found


@given(ops=st.lists(operations(), min_size=1, max_size=60), most=st.integers(1, 70))
def test_what_is_said_of_a_name_is_true_of_the_image(index: ImageIndex, ops: list[EditOp], most: int) -> None:
    data = segment(ops)
    pieces = all_pieces(NameLookup(index, Room()), SegmentCursor(data), most)
    assert [piece.first for piece in pieces] == list(range(0, len(ops), most))
    assert pieces[-1].behind == len(ops)
    told = [row for piece in pieces for row in piece.found.tolist()]
    wanted = [path for op in ops for path in paths_of(op)]
    assert len(told) == len(wanted)
    for row, path in zip(told, wanted, strict=True):
        raw = path.encode()
        assert data[row[PATH_START] :][: len(raw)] == raw
        assert row[NAME_AT] == row[PATH_START] + raw.rindex(b"/") + 1
        directory, slot = expected(index, path)
        if row[SLOT] == NOT_LOOKED_UP:
            # nothing is said of what is in a file, an empty directory, or none
            assert slot == ABSENT
        else:
            assert (row[DIRECTORY_ID], row[SLOT]) == (directory, slot)


@given(size=st.integers(HEADER_SIZE, 3000), flipped=st.integers(0, 255), place=st.integers(HEADER_SIZE, 2999))
def test_damaged_bytes_end_it_or_say_nothing_else(index: ImageIndex, size: int, flipped: int, place: int) -> None:
    data = bytearray(segment([delete(f"/d{n % 50}/f{n}") for n in range(60)]))
    data[min(place, len(data) - 1)] ^= flipped
    pieces = all_pieces(NameLookup(index, Room()), SegmentCursor(bytes(data[:size])), 7)
    assert sum(len(piece.found) for piece in pieces) <= 60


def test_what_is_passed_over_is_not_looked_at(index: ImageIndex) -> None:
    data = segment([delete(f"/d{n}/f{n % 40}") for n in range(DIRECTORIES)])
    lookup = NameLookup(index, Room())
    lookup.begin(SegmentCursor(data))
    piece = lookup.next_piece(7, 5)
    assert piece is not None
    assert (piece.first, piece.behind, len(piece.found)) == (7, 12, 5)
    following = lookup.next_piece(3, 2)
    assert following is not None
    assert (following.first, following.behind) == (12, 14)
    assert lookup.next_piece(39, 2) is not None
    assert lookup.next_piece(0, 2) is None
    lookup.end()


def test_it_ends_behind_the_last_transaction(index: ImageIndex) -> None:
    data = segment([delete("/d1/f1") for _ in range(20)])
    cursor = SegmentCursor(data, last_txid=111)
    (piece,) = all_pieces(NameLookup(index, Room()), cursor, 100)
    # the first one has txid 101
    assert piece.behind == 11


def deletes_everywhere(seed: int = 1) -> list[EditOp]:
    """So many that the replay and the thread meet: files, directories, names that are not there or come again."""
    shuffled = random.Random(seed)
    ops: list[EditOp] = []
    for number in range(4000):
        above = f"/d{shuffled.randrange(DIRECTORIES + 2)}" + shuffled.choice(["", "/below"])
        file = f"{above}/f{shuffled.randrange(FILES + 5)}"
        made = f"/n{number}"
        ops += shuffled.choice(
            [
                [delete(file)],
                [times(file, 7 + number)],
                [mkdir(made, 50_000 + number), times(made, 8)],
                [add(made, 50_000 + number), close(made)],
                [rename(file, made)],
            ]
        )
    return ops


def replayed(folder: Path, ops: Sequence[EditOp], *, ahead: Callable[[], object] | None = None) -> bytes:
    """The image that comes of operations which are all of the kinds that kernels apply, where they can be applied."""
    with ImageFile.open(save(folder)) as image:
        loaded = load_image(image)
        wanted = encoded(numbered(ops, loaded.namespace.last_txid), HADOOP2)
        assert isinstance(wanted, EncodedOps)
        replay(loaded.namespace, wanted)
        out = bytearray()
        loaded.write(out.extend, codec="")
    return bytes(out)


def applicable(ops: Sequence[EditOp]) -> list[EditOp]:
    """Those that succeed one after another on the tree of `save`."""
    there = {f"/d{n}{more}/f{f}" for n in range(DIRECTORIES) for more in ("", "/below") for f in range(FILES)}
    kept: list[EditOp] = []
    for op in ops:
        first, *second = paths_of(op)
        if op.opcode in (times("/").opcode, rename("/", "/").opcode, delete("/").opcode, close("/").opcode):
            if first not in there:
                continue
            if not isinstance(op, type(times("/"))) and op.opcode != close("/").opcode:
                there.discard(first)
        else:
            there.add(first)
        there.update(second)
        kept.append(op)
    return kept


def test_a_replay_beside_the_thread_is_as_one_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = applicable(deletes_everywhere())
    monkeypatch.setattr(module, "available_cores", lambda: 1)
    without = replayed(tmp_path, ops)
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr(module, "_PIECE", 16)
    assert replayed(tmp_path, ops) == without
    with names_at_once():
        assert replayed(tmp_path, ops) == without


def test_pieces_are_in_order_and_its_lead_is_limited(index: ImageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 10)
    count = 1000
    data = segment([delete(f"/d{n % DIRECTORIES}/f1") for n in range(count)])
    lookup = NameLookup(index, Room())
    lookup.begin(SegmentCursor(data))
    done = ready = 0
    with NamesAhead(lookup, lambda: True) as names:
        while done < count:
            piece, most = names.at(done)
            if piece is None:
                assert most <= 20
                os.sched_yield()
            else:
                assert piece.first <= done < piece.behind == done + most
                ready += 1
            # as a replay that never lags behind
            done += most
    assert done >= count
    assert ready <= count // 10


def test_a_replay_that_stops_often_is_told_of_the_same_piece(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 10)
    lookup = NameLookup(index, Room())
    lookup.begin(SegmentCursor(segment([delete(f"/d{n % DIRECTORIES}/f1") for n in range(100)])))
    with NamesAhead(lookup, lambda: True) as names:
        while len(names._ready) < module._LEAD:
            os.sched_yield()
        for done in range(10 * module._LEAD):
            piece, most = names.at(done)
            assert piece is not None
            assert (piece.first, piece.behind) == (done // 10 * 10, done + most)
            assert most == 10 - done % 10


def test_it_waits_for_a_free_core_and_ends_while_it_does(index: ImageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 10)
    asked, free = threading.Event(), threading.Event()

    def core_free() -> bool:
        asked.set()
        return free.is_set()

    lookup = NameLookup(index, Room())
    for waits_for_ever in (True, False):
        lookup.begin(SegmentCursor(segment([delete("/d1/f1") for _ in range(100)])))
        with NamesAhead(lookup, core_free) as names:
            asked.wait()
            assert not names._ready
            if not waits_for_ever:
                free.set()
                while len(names._ready) < module._LEAD:
                    os.sched_yield()


def test_it_ends_where_others_take_the_core(index: ImageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 10)
    # a clock that runs so much quicker than the thread does
    ticks = iter(range(10**6))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(ticks)))
    lookup = NameLookup(index, Room())
    lookup.begin(SegmentCursor(segment([delete("/d1/f1") for _ in range(100)])))
    names = NamesAhead(lookup, lambda: True)
    names._walk()
    assert len(names._ready) == 1


@pytest.mark.parametrize("error", [MemoryError(), ImageStorageError("no room")])
def test_without_room_or_threads_nothing_is_said(
    index: ImageIndex, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = NameLookup(index, Room())
    lookup.begin(SegmentCursor(segment([delete("/d1/f1") for _ in range(50)])))

    def fail(begin: int, most: int) -> Piece:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(lookup, "next_piece", fail)
        with NamesAhead(lookup, lambda: True) as names:
            assert names.at(0)[0] is None

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    lookup.begin(SegmentCursor(segment([delete("/d1/f1") for _ in range(50)])))
    with NamesAhead(lookup, lambda: True) as names:
        assert names.at(0)[0] is None


def test_no_thread_for_a_few_operations_and_none_on_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = SegmentCursor(segment([delete("/d1/f1") for _ in range(50)]))
    with ImageFile.open(save(tmp_path)) as image:
        compiled = CompiledReplay.of(load_image(image).namespace)
        assert compiled is not None
        with names_ahead(cursor, compiled, lambda: True) as names:
            assert names is None
        monkeypatch.setattr(module, "_WORTH_A_THREAD", 0)
        with names_ahead(cursor, compiled, lambda: True) as names:
            assert isinstance(names, NamesAhead)
        monkeypatch.setattr(module, "available_cores", lambda: 1)
        with names_ahead(cursor, compiled, lambda: True) as names:
            assert names is None
