"""The index of a host: built once, even with concurrent or killed processes, with the same tree as the plain index."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import NoReturn
from unittest import mock

import numpy as np
import pytest
from pyspark import SparkFiles

from image_format.errors import DigestMismatchError, ImageStorageError, RecordError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.md5_file import md5_path
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords
from image_tools.dump.tree import ImageTree
from image_tools.dump.values import java_text
from pipeline.errors import SourceFileError
from pipeline.host_image import HostImage, create_once
from pipeline.host_scratch import host_scratch, scratch_setting
from pipeline.source_files import SourceKind, local_files
from pipeline.sources.fsimage import open_in_task
from tests.image_format.image_support import CODEC_NAMES, RECORDED, build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import recorded_views

VIEWS = [view for view in recorded_views(large=False) if "corrupt" not in view.id and "/odd/" not in view.id]
BASIC = next((RECORDED / "hadoop-3.4.1" / "snapshots-rename-references" / "after").glob("fsimage_" + "?" * 19))
DEADLINE = 600.0
SPAWN = multiprocessing.get_context("fork")


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS[::3], ids=lambda view: view.id)
def test_paths_equal_those_of_the_plain_index(view: object, tmp_path: Path) -> None:
    check_paths(view.image, tmp_path)  # type: ignore[attr-defined]


def check_paths(path: Path, scratch: Path) -> None:
    host = HostImage.open(path, scratch)
    records = ImageRecords(ImageFile.open(path, verify_md5=False))
    tree = ImageTree(records)
    in_tree = host.in_tree(range(host.count))
    for slot, inode in enumerate(records.inodes()):
        expected = tree.path(inode.id)
        assert host.slot(inode.id) == slot
        assert host.path(slot, inode.name) == (None if expected is None else java_text(expected))
        assert bool(in_tree[slot]) == (expected is not None)


@pytest.mark.recorded
def test_the_saved_arrays_give_the_same_index(tmp_path: Path) -> None:
    host = HostImage.open(BASIC, tmp_path)
    plain = ImageIndex(ImageFile.open(BASIC))
    assert host.index.slot_count == plain.slot_count
    assert host.index.offsets.all().tolist() == plain.offsets.all().tolist()
    for directory in plain.directory_ids.tolist():
        assert host.index.children(directory).tolist() == plain.children(directory).tolist()
        assert host.index.reference_children(directory).tolist() == plain.reference_children(directory).tolist()


@pytest.mark.recorded
@pytest.mark.parametrize("codec", [name for name in CODEC_NAMES if name])
def test_a_compressed_image_is_decompressed_once(codec: str, tmp_path: Path) -> None:
    with ImageFile.open(BASIC) as plain:
        names = [entry.name for entry in plain.sections if not entry.name.endswith("_SUB")]
        data = build_image([(name, bytes(plain.section_bytes(name))) for name in names], codec, plain.layout_version)
    name = BASIC.name
    path = store(tmp_path, data, name)
    check_paths(path, tmp_path / "scratch")
    (folder,) = (entry for entry in (tmp_path / "scratch").iterdir() if entry.is_dir())
    assert {file.name for file in folder.glob("*.section")} >= {"INODE.section", "INODE_DIR.section"}


def _count(scratch: Path, results: object) -> None:
    host = HostImage.open(BASIC, scratch)
    results.put((host.count, int(np.count_nonzero(host.in_tree(range(host.count))))))  # type: ignore[attr-defined]


@pytest.mark.recorded
def test_concurrent_processes_build_one_index(tmp_path: Path) -> None:
    results = SPAWN.Queue()
    workers = [SPAWN.Process(target=_count, args=(tmp_path, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = {results.get(timeout=DEADLINE) for _ in workers}
    for worker in workers:
        worker.join(DEADLINE)
        assert worker.exitcode == 0
    assert len(found) == 1
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 1


def _die(folder: Path) -> NoReturn:
    (folder / "half").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_files_of_a_killed_builder_are_removed(tmp_path: Path) -> None:
    worker = SPAWN.Process(target=create_once, args=(tmp_path, "thing", _die))
    worker.start()
    worker.join(DEADLINE)
    assert worker.exitcode == -signal.SIGKILL
    assert [entry.name for entry in tmp_path.glob("thing.making-*")]

    folder = create_once(tmp_path, "thing", lambda folder: (folder / "whole").touch())
    assert [entry.name for entry in folder.iterdir()] == ["whole"]
    assert not list(tmp_path.glob("thing.making-*"))


def test_a_failed_builder_leaves_no_files(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError(28, "No space left on device")

    with pytest.raises(ImageStorageError, match="No space left"):
        create_once(tmp_path, "thing", fail)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing.lock"]


def test_a_directory_is_created_once(tmp_path: Path) -> None:
    made: list[Path] = []
    folders = {create_once(tmp_path, "thing", made.append) for _ in range(3)}
    assert len(made) == len(folders) == 1


# ---- damage --------------------------------------------------------------------------------------------------


def tree_image(folder: Path, entries: list[pb.DirEntry], directories: int = 3) -> Path:
    """Write an image of the root and a few directories with these entries."""
    sections = dict(minimal_sections())
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"", directory=pb.INodeDirectory(permission=0))
    below = [
        pb.INode(type=pb.INode.DIRECTORY, id=16386 + i, name=b"d%d" % i, directory=pb.INodeDirectory(permission=0))
        for i in range(directories)
    ]
    header = pb.INodeSection(lastInodeId=16385 + directories, numInodes=1 + directories)
    sections["INODE"] = delimited([header, root, *below])
    sections["INODE_DIR"] = delimited(entries)
    return store(folder, build_image(list(sections.items())))


def test_directories_that_contain_each_other_are_an_error(tmp_path: Path) -> None:
    ring = [pb.DirEntry(parent=16386, children=[16387]), pb.DirEntry(parent=16387, children=[16386])]
    with pytest.raises(RecordError, match="contains itself") as raised:
        HostImage.open(tree_image(tmp_path, ring), tmp_path / "scratch")
    assert raised.value.section == "INODE_DIR"


def test_unreachable_inodes_have_no_path(tmp_path: Path) -> None:
    image = tree_image(tmp_path, [pb.DirEntry(parent=16386, children=[16387])])
    host = HostImage.open(image, tmp_path / "scratch")
    assert host.in_tree(range(4)).tolist() == [True, False, False, False]
    assert [host.path(slot, b"x") for slot in range(4)] == ["/", None, None, None]


def test_an_image_without_directory_entries_has_a_root(tmp_path: Path) -> None:
    host = HostImage.open(store(tmp_path, build_image(minimal_sections())), tmp_path / "scratch")
    assert (host.count, host.path(0, b""), host.in_tree(range(1)).tolist()) == (1, "/", [True])


def test_a_reference_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    image = tree_image(tmp_path, [pb.DirEntry(parent=16385, children=[16386], refChildren=[5])])
    with pytest.raises(RecordError, match="INODE_REFERENCE has no record 5"):
        HostImage.open(image, tmp_path / "scratch")


def test_a_damaged_image_is_detected_by_its_md5(tmp_path: Path) -> None:
    image = tree_image(tmp_path, [pb.DirEntry(parent=16385, children=[16386])])
    data = bytearray(image.read_bytes())
    data[data.index(b"d0")] ^= 1
    image.write_bytes(data)
    with pytest.raises(DigestMismatchError):
        HostImage.open(image, tmp_path / "scratch")


def test_a_changed_file_is_indexed_again(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    image = tree_image(tmp_path, [pb.DirEntry(parent=16385, children=[16386])])
    first = HostImage.open(image, scratch)
    assert HostImage.open(image, scratch) is first
    image.unlink()
    tree_image(tmp_path, [pb.DirEntry(parent=16385, children=[16387])], directories=5)
    assert (first.count, HostImage.open(image, scratch).count) == (4, 6)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceFileError, match="cannot read"):
        HostImage.open(tmp_path / "fsimage_0000000000000000001", tmp_path)


def test_a_truncated_index_is_an_error(tmp_path: Path) -> None:
    column, plain = Packed.of(np.arange(3)), np.arange(3)
    arrays = IndexArrays(column, np.arange(3, dtype=np.uint32), column, plain, plain, plain)
    arrays.save(tmp_path)
    loaded = IndexArrays.load(tmp_path)
    assert loaded.ids.all().tolist() == loaded.offsets.all().tolist() == loaded.directory_offsets.tolist() == [0, 1, 2]
    (tmp_path / "ids-low.npy").write_bytes(b"")
    with pytest.raises(ImageStorageError, match=r"ids-low\.npy"):
        IndexArrays.load(tmp_path)


def test_copies_sent_by_spark_share_an_index_but_are_verified_separately(tmp_path: Path) -> None:
    copies = [tmp_path / name / BASIC.name for name in ("executor0", "executor1", "executor2")]
    for time, copy in enumerate(copies):
        copy.parent.mkdir()
        shutil.copyfile(BASIC, copy)
        shutil.copyfile(md5_path(BASIC), md5_path(copy))
        os.utime(copy, (time, time))
    data = bytearray(BASIC.read_bytes())
    data[300] ^= 1
    copies[2].write_bytes(data)
    with mock.patch.object(ImageFile, "verify_md5", autospec=True, side_effect=ImageFile.verify_md5) as verify:
        for copy in copies[:2] * 2:
            HostImage.open(copy, tmp_path / "scratch", BASIC.name)
        with pytest.raises(DigestMismatchError, match="executor2"):
            HostImage.open(copies[2], tmp_path / "scratch", BASIC.name)
    assert [call.args[0].path for call in verify.call_args_list] == copies
    assert len([path for path in (tmp_path / "scratch").glob("image-*") if path.is_dir()]) == 1


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch("os.posix_fallocate", side_effect=full),
        pytest.raises(ImageStorageError, match="No space left") as caught,
    ):
        HostImage.open(BASIC, scratch)
    assert f"Free space in {scratch}, or set spark.local.dir" in caught.value.hint
    assert not [path for path in scratch.iterdir() if path.is_dir()]


def test_an_image_replaced_while_tasks_read_it_is_refused(tmp_path: Path) -> None:
    path = store(tmp_path, build_image(minimal_sections()))
    (file,) = local_files(str(path), SourceKind.IMAGE)
    with mock.patch.object(SparkFiles, "getRootDirectory", return_value=str(tmp_path)):
        assert open_in_task(file).count == open_in_task(file).count
        os.utime(path, (1, 1))
        with pytest.raises(SourceFileError, match="was replaced while it was read") as caught:
            open_in_task(file)
    assert caught.value.hint


SHARED = [
    ({"SPARK_EXECUTOR_DIRS": "/local/app:/other/app"}, "SPARK_LOCAL_DIRS or spark.local.dir of Spark's workers"),
    ({"CONTAINER_ID": "container_1_1_1_1", "LOCAL_DIRS": "/local/app,/other/app"}, "yarn.nodemanager.local-dirs"),
]


@pytest.mark.parametrize(("variables", "setting"), SHARED, ids=["standalone", "yarn"])
def test_executors_of_a_host_share_the_applications_directory(
    variables: dict[str, str], setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with mock.patch.object(SparkFiles, "getRootDirectory", return_value="."):
        assert host_scratch() == Path("/local/app/fsimage")
    assert scratch_setting(Path("/local/app/fsimage")) == setting
    # a local session has its own folder, whichever manager set the variables
    with mock.patch.object(SparkFiles, "getRootDirectory", return_value="/tmp/spark-1/userFiles-1"):
        assert host_scratch() == Path("/tmp/spark-1/userFiles-1/fsimage")
    assert scratch_setting(Path("/tmp/spark-1/userFiles-1/fsimage")) == "spark.local.dir"


def test_directories_of_another_application_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_DIRS", "/local/app")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/local/spark")
    with mock.patch.object(SparkFiles, "getRootDirectory", return_value="."):
        assert host_scratch() == Path("fsimage")
    assert scratch_setting(Path("/local/spark/fsimage")) == "SPARK_LOCAL_DIRS"
