"""WebHDFS of an image on paths into snapshots, reserved and odd names, compared with NameNodes and readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode, SnapshotFolder
from servlets.application import create_application
from servlets.webhdfs import ImageSource, webhdfs_blueprint
from tests.engine.image_builder import Saved
from tests.engine.snapshot_reader import SnapshotReader
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.recorded_cases import RECORDED, Case

ANSWERED = [RECORDED / "webhdfs-3.4.2", RECORDED / "webhdfs-3.5.0"]
ANSWERS = [
    (folder, *json.loads(line)) for folder in ANSWERED for line in (folder / "answers.jsonl").read_text().splitlines()
]
# `image serve` does not count files that exist only in snapshots, and the image lacks the times of .inodes and raw
COUNTED = ("directoryCount", "fileAndDirectoryCount")
SNAPSHOTS = [
    Case(RECORDED / name)
    for name in (
        "hadoop-2.7.3/snapshots-rename-references",
        "hadoop-3.4.1/nested-snapshots",
        "hadoop-3.4.1/random-snapshot-70101",
        "hadoop-3.4.1/random-snapshot-capture-70106",
    )
]


@pytest.fixture(scope="module")
def answering() -> Iterator[dict[Path, FlaskClient]]:
    with ExitStack() as stack:
        images = {
            folder: stack.enter_context(ImageFile.open(next(folder.glob("fsimage_*")), verify_md5=False))
            for folder in ANSWERED
        }
        yield {
            folder: create_application(webhdfs_blueprint(ImageSource(ImageBrowser(image)))).test_client()
            for folder, image in images.items()
        }


def without(path: str, answer: Any) -> Any:
    """Return a response without fields that an image lacks, and without snapshot counts."""
    if isinstance(answer, dict):
        left = {*(COUNTED if path in ("/", "/.reserved/raw") or "16385" in path or ".." in path else ())}
        if path == "/.reserved":
            left |= {"accessTime", "modificationTime"}
        return {
            key: without(path, each)
            for key, each in answer.items()
            if key not in left and not (key.startswith("snapshot") and key != "snapshotEnabled")
        }
    return [without(path, each) for each in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize(
    ("folder", "path"), dict.fromkeys((folder, path) for folder, path, *_ in ANSWERS), ids=lambda part: str(part)[-20:]
)
def test_responses_equal_those_of_a_namenode(answering: dict[Path, FlaskClient], folder: Path, path: str) -> None:
    for asked_of, asked, op, status, answer in ANSWERS:
        if (asked_of, asked) == (folder, path):
            found = answering[folder].get(f"/webhdfs/v1{quote(path)}", query_string={"op": op})
            assert (found.status_code, op) == (status, op)
            assert without(path, found.json) == without(path, answer), op


@pytest.mark.recorded
@pytest.mark.parametrize("case", SNAPSHOTS, ids=lambda case: case.id)
def test_snapshot_trees_equal_those_of_another_reader(case: Case) -> None:
    reader = SnapshotReader(Saved(case.image("after").read_bytes()))
    count = 0
    with ImageFile.open(case.image("after"), verify_md5=False) as image:
        browser = ImageBrowser(image)
        for (directory, name), snapshot in reader.snapshots.items():
            place = browser.chain(directory)[-1]
            folder = browser.below(place, [b".snapshot"])
            assert isinstance(folder, SnapshotFolder)
            assert folder.snapshots is not None
            (root,) = (each for each in folder.snapshots if each.inode.name == name.encode())
            expected = reader.tree(directory, snapshot.snapshotId)
            found = dict(walk(browser, "", root))
            assert found.keys() == expected.keys()
            for path, seen in expected.items():
                inode = found[path].inode
                owner = browser.names.owner(
                    inode.file.permission or inode.directory.permission or inode.symlink.permission
                )
                assert (inode.id, owner.user, owner.mode) == (seen.inode_id, seen.user, seen.mode), path
                if seen.length is not None:
                    assert sum(block.numBytes for block in inode.file.blocks) == seen.length
                    assert (inode.file.replication, inode.file.modificationTime) == (seen.replication, seen.mtime)
            length = sum(seen.length or 0 for seen in expected.values())
            assert browser.content(root).totals.length == length
            count += len(expected)
    assert count > 0


def walk(browser: ImageBrowser, path: str, place: LocatedInode) -> Iterator[tuple[str, LocatedInode]]:
    yield path or "/", place
    if place.inode.HasField("directory"):
        children = list(browser.children(place))
        assert len(children) == browser.child_count(place)
        for child in children:
            below = f"{path}/{child.inode.name.decode()}"
            assert browser.below(place, [child.inode.name]) == child
            yield from walk(browser, below, child)


@pytest.mark.parametrize("name", [b"a\nb", b"\n", b"a\r\nb\t", b"%0A", b"\xff\n", b"..x", b"a?b#c"])
def test_paths_with_any_name_are_found(tmp_path: Path, name: bytes) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory())
    inner = pb.INode(type=pb.INode.DIRECTORY, id=16386, name=name, directory=pb.INodeDirectory())
    leaf = pb.INode(type=pb.INode.DIRECTORY, id=16387, name=name, directory=pb.INodeDirectory())
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(numInodes=3), root, inner, leaf])
    sections["INODE_DIR"] = delimited(
        [pb.DirEntry(parent=16385, children=[16386]), pb.DirEntry(parent=16386, children=[16387])]
    )
    with ImageFile.open(store(tmp_path, build_image(list(sections.items()))), verify_md5=False) as image:
        client = create_application(webhdfs_blueprint(ImageSource(ImageBrowser(image)))).test_client()
        for path, inode_id in ((b"/" + name, 16386), (b"/" + name + b"/" + name, 16387)):
            # raw bytes as the server receives them, because the test client would replace bytes that are not text
            given = {"PATH_INFO": f"/webhdfs/v1{path.decode('latin-1')}"}
            found = client.get("/", query_string={"op": "GETFILESTATUS"}, environ_overrides=given)
            assert found.status_code == 200
            assert found.json["FileStatus"]["fileId"] == inode_id
        listed = client.get("/webhdfs/v1/.reserved/.inodes/16386", query_string={"op": "LISTSTATUS"})
        assert len(listed.json["FileStatuses"]["FileStatus"]) == 1


def test_space_of_striped_files_includes_parity(tmp_path: Path) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory())
    striped = pb.INode(type=pb.INode.FILE, id=16386, name=b"s", file=pb.INodeFile(erasureCodingPolicyID=1))
    striped.file.blocks.add(blockId=1, genStamp=1, numBytes=(6 << 20) + 5)
    plain = pb.INode(type=pb.INode.FILE, id=16387, name=b"p", file=pb.INodeFile(replication=2))
    plain.file.blocks.add(blockId=2, genStamp=1, numBytes=100)
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(numInodes=3), root, striped, plain])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=[16387, 16386])])
    with ImageFile.open(store(tmp_path, build_image(list(sections.items()))), verify_md5=False) as image:
        browser = ImageBrowser(image)
        spaces = [
            browser.content(place).totals.space
            for path in (b"/s", b"/p", b"/")
            if isinstance(place := browser.find(path), LocatedInode)
        ]
        assert spaces == [(6 << 20) + 5 + 3 * ((1 << 20) + 5), 200, (9 << 20) + 20 + 200]
