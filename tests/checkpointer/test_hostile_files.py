"""Files crafted to make a command hang, crash or exhaust memory; each command must exit with a one-line error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.merge import merge
from engine.observer import SilentObserver
from hadoop_common.mapped_file import ShrunkFileError
from hadoop_common.names import parse_image
from image_format.codecs import CODEC_SHORT_NAMES
from image_format.errors import BufferOrigin
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_varint, iter_records
from journal.segment_file import SegmentTransactions, list_segments
from tests.cli_runner import fingerprint, run_cli
from tests.depth import scaled
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.recorded_cases import RECORDED, Case

CASE = Case(RECORDED / "hadoop-2.7.3" / "random-mixed-1")

SHRINKING = """
import mmap, os, sys
class Shrinking(mmap.mmap):
    def __new__(cls, descriptor, *arguments, **more):
        made = super().__new__(cls, descriptor, *arguments, **more)
        if descriptor >= 0 and os.readlink(f"/proc/self/fd/{descriptor}") == TARGET:
            os.truncate(TARGET, 4096)
        return made
TARGET = sys.argv[1]
mmap.mmap = Shrinking
from checkpointer.cli import main
sys.argv[:2] = ["checkpointer"]
main()
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return CASE.copy_of("after", tmp_path)


IMAGE_COMMANDS = (
    ("info", "{}"),
    ("verify", "{}"),
    ("dump", "{}"),
    ("dump", "--format", "delimited", "{}"),
    ("convert", "{}", "{}.new"),
    ("diff", "{}", "{}"),
)


@pytest.mark.parametrize("words", IMAGE_COMMANDS, ids=" ".join)
@pytest.mark.parameters(2)
def test_image_that_shrinks_while_it_is_read(image: Path, words: tuple[str, ...]) -> None:
    assert image.stat().st_size > 2 * 4096
    arguments = [word.format(image) for word in words]
    ran = subprocess.run(
        [sys.executable, "-c", SHRINKING, str(image), "image", *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 6, (ran.returncode, ran.stderr)
    assert "became shorter" in ran.stderr
    assert "  next: " in ran.stderr
    assert not image.with_name(image.name + ".new").exists()


def test_segment_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    source = max((CASE.path / "before").glob("edits_*"), key=lambda path: path.stat().st_size)
    segment = tmp_path / source.name
    shutil.copy(source, segment)
    ran = subprocess.run(
        [sys.executable, "-c", SHRINKING, str(segment), "edits", "info", str(segment)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 4, (ran.returncode, ran.stderr)
    assert "the file became shorter while it was read" in ran.stderr


class ShrinkWhenSaving(SilentObserver):
    """Observer that truncates the old image just before the new image is written."""

    def __init__(self, image: Path) -> None:
        self._image = image

    def phase(self, name: str, total: int | None) -> None:
        if name == "save":
            os.truncate(self._image, 4096)


def test_no_image_is_saved_if_the_old_one_shrinks_while_it_is_copied(tmp_path: Path) -> None:
    current = CASE.copy_to(tmp_path)
    (old,) = (path for path in current.glob("fsimage_*") if path.suffix != ".md5")
    segments = list_segments(current)
    before = sorted(path.name for path in current.iterdir())
    ops = SegmentTransactions(segments, parse_image(old.name).txid + 1)
    with pytest.raises(ShrunkFileError, match="became shorter"):
        merge(old, ops, [current], observer=ShrinkWhenSaving(old))
    assert sorted(path.name for path in current.iterdir()) == before


@pytest.mark.parametrize("words", [("image", *words) for words in IMAGE_COMMANDS[:4]], ids=" ".join)
@pytest.mark.parametrize("kind", ["fifo", "device", "sparse"])
@pytest.mark.parameters(3)
def test_irregular_and_sparse_files_are_rejected_at_once(tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "fsimage_0000000000000000001"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 1 << 40)
    outcome = run_cli(*(word.format(path) for word in words))
    assert outcome.code == 6, outcome.err
    assert ("is sparse" if kind == "sparse" else "not a regular file") in outcome.err
    assert "  next: " in outcome.err


def test_fifo_as_digest_file_or_segment_is_rejected(tmp_path: Path, image: Path) -> None:
    digest = image.with_name(image.name + ".md5")
    digest.unlink()
    os.mkfifo(digest)
    assert run_cli("image", "verify", image).code == 6
    os.mkfifo(tmp_path / "edits_0000000000000000001-0000000000000000002")
    outcome = run_cli("edits", "info", tmp_path / "edits_0000000000000000001-0000000000000000002")
    assert (outcome.code, "is a FIFO" in outcome.err) == (6, True)


@pytest.mark.parametrize("name", ["VERSION", "seen_txid"])
def test_storage_directory_with_a_fifo_is_rejected(tmp_path: Path, name: str) -> None:
    current = CASE.copy_to(tmp_path)
    (current / name).unlink(missing_ok=True)
    os.mkfifo(current / name)
    before = fingerprint(current)
    outcome = run_cli("merge", tmp_path)
    assert (outcome.code, "is a FIFO" in outcome.err) == (6, True)
    assert fingerprint(current) == before
    if name == "VERSION":
        for words in (("archive", "add", tmp_path), ("undelete", tmp_path, "--path", "/a", "--out", tmp_path / "out")):
            options = ("--archive", tmp_path / "archive") if words[0] == "archive" else ()
            outcome = run_cli(*words, *options)
            assert (outcome.code, "is a FIFO" in outcome.err) == (6, True), outcome.err


def tree_image(folder: Path, directories: Iterable[pb.INode], entries: Iterable[pb.DirEntry]) -> Path:
    """Return an image with the root, these directories, and entries that need not match them."""
    (_, root) = split_records(dict(minimal_sections())["INODE"])
    inodes = list(directories)
    for inode in inodes:
        inode.directory.permission = 0o755
    header = pb.INodeSection(lastInodeId=1 << 20, numInodes=len(inodes) + 1)
    sections = dict(minimal_sections()) | {
        "INODE": delimited([header]) + root + delimited(inodes),
        "INODE_DIR": delimited(entries),
    }
    return store(folder, build_image(list(sections.items())))


def split_records(section: bytes) -> list[bytes]:
    return [
        encode_varint(len(record.body)) + bytes(record.body)
        for record in iter_records(memoryview(section), 0, BufferOrigin())
    ]


def test_cyclic_image_is_not_converted(tmp_path: Path) -> None:
    first, second = (pb.INode(type=pb.INode.DIRECTORY, id=20_000 + i, name=b"d") for i in range(2))
    entries = [pb.DirEntry(parent=20_000, children=[20_001]), pb.DirEntry(parent=20_001, children=[20_000])]
    path = tree_image(tmp_path, [first, second], entries)
    outcome = run_cli("image", "convert", path, tmp_path / "new")
    assert (outcome.code, "contains itself" in outcome.err) == (3, True)
    assert not (tmp_path / "new").exists()


def test_overlong_path_is_an_error(tmp_path: Path) -> None:
    count = 1200
    directories = [pb.INode(type=pb.INode.DIRECTORY, id=20_000 + i, name=b"d" * 120) for i in range(count)]
    parents = [16385, *(20_000 + i for i in range(count - 1))]
    entries = [pb.DirEntry(parent=parent, children=[20_000 + i]) for i, parent in enumerate(parents)]
    path = tree_image(tmp_path, directories, entries)
    outcome = run_cli("image", "dump", path, "--format", "delimited", "--output", tmp_path / "rows")
    assert (outcome.code, "has more than 131072 bytes" in outcome.err) == (3, True)
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize("words", [("verify", "{}"), ("dump", "{}"), ("convert", "{}", "{}.new")], ids=" ".join)
@pytest.mark.parameters(1)
def test_section_with_excessive_unpacked_size_is_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The section has 0.1 MB in the file and 100 MB in memory."""
    sections = dict(minimal_sections())
    sections["INODE"] += bytes(96 << 20)
    path = store(tmp_path, build_image(list(sections.items()), CODEC_SHORT_NAMES["default"]))
    assert path.stat().st_size < 1 << 18
    outcome = run_cli("image", *(word.format(path) for word in words))
    assert outcome.code == 3
    assert "expand by more than the factor 200" in outcome.out + outcome.err


def test_verification_beyond_its_memory_limit_is_an_error(tmp_path: Path) -> None:
    """Each record has five bytes; the arrays of a verification need ten times as much."""
    count = scaled(40_000_000, quick=5_000_000)
    sections = dict(minimal_sections())
    header, root = pb.INodeSection(lastInodeId=1 << 20, numInodes=count), split_records(sections["INODE"])[1]
    record = b"\x04\x10\x81\x80\x01"
    sections["INODE"] = delimited([header]) + root + record * (count - 1)
    path = store(tmp_path, build_image(list(sections.items())))
    outcome = run_cli("image", "verify", path, "--memory", "64m")
    assert (outcome.code, "more memory than its limit of 64 MiB" in outcome.err) == (6, True)
    assert "  next: " in outcome.err


def test_many_duplicate_children_are_only_counted(tmp_path: Path) -> None:
    count = scaled(5_000_000, quick=200_000)
    only = pb.INode(type=pb.INode.DIRECTORY, id=20_000, name=b"d")
    path = tree_image(tmp_path, [only], [pb.DirEntry(parent=16385, children=[20_000] * count)])
    outcome = run_cli("image", "verify", path, "--limit", "2")
    assert outcome.code == 3
    assert outcome.out.count("which is already listed") == 2
    assert f"and {count - 3} more dir-child-twice" in outcome.out


def test_many_damaged_records_are_only_counted(tmp_path: Path) -> None:
    count = scaled(16 << 20, quick=1 << 19)
    sections = dict(minimal_sections())
    sections["INODE"] += bytes(count)
    path = store(tmp_path, build_image(list(sections.items())))
    outcome = run_cli("image", "verify", path, "--limit", "2")
    assert outcome.code == 3
    assert outcome.out.count("the record is not an INode") == 2
    assert f"and {count - 2} more record-damaged" in outcome.out


@pytest.mark.deep
def test_merge_beyond_its_memory_limit_is_an_error(tmp_path: Path) -> None:
    """The image has more than a million names, each of which takes about ten bytes in the file."""
    current = CASE.copy_to(tmp_path)
    path = current / CASE.image("before").name
    count = 1_500_000
    entries = (pb.StringTableEntry(id=serial, str=b"%d" % serial) for serial in range(1, count + 1))
    table = delimited([pb.StringTableSection(numEntry=count)]) + delimited(entries)
    with ImageFile.open(path) as image:
        sections = [(entry.name, bytes(image.section(entry.name))) for entry in image.sections]
    sections = [(name, table if name == "STRING_TABLE" else data) for name, data in sections]
    store(current, build_image(sections, CODEC_SHORT_NAMES["default"]), path.name)
    before = fingerprint(current)
    outcome = run_cli("merge", tmp_path, "--memory", "64m", "--as-hadoop")
    assert (outcome.code, "more memory than its limit of" in outcome.err) == (6, True)
    assert fingerprint(current) == before
    assert run_cli("merge", tmp_path, "--memory", "1g", "--as-hadoop").code == 0
