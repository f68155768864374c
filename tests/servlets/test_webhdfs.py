"""WebHDFS of an image, compared with the rows of a dump of the same image."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from hadoop_common.process_control import Control
from image_format.array_allocator import ArrayAllocator
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.dump.delimited import dump_delimited
from image_tools.dump.records import ImageRecords
from servlets.application import create_application
from servlets.webhdfs import ImageSource, webhdfs_blueprint
from tests.cli_runner import run_cli
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.recorded_cases import RECORDED, Case

JSON = "application/json; charset=utf-8"
ZLIB = "org.apache.hadoop.io.compress.DefaultCodec"
CASES = [
    Case(RECORDED / name)
    for name in ("hadoop-2.7.3/snapshots-rename-references", "hadoop-2.7.3/acl-xattr", "hadoop-3.4.1/symlinks")
]


def client_of(image: ImageFile) -> FlaskClient:
    return create_application(webhdfs_blueprint(ImageSource(ImageBrowser(image)))).test_client()


def asked(client: FlaskClient, path: str, op: str, **more: str) -> Any:
    answer = client.get(f"/webhdfs/v1{path}", query_string={"op": op, **more})
    assert answer.content_type == JSON
    return answer.json


@pytest.mark.recorded
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.name)
def test_a_walk_over_webhdfs_finds_all_rows(case: Case) -> None:
    with ImageFile.open(case.image("after"), verify_md5=False) as image:
        text = b"".join(dump_delimited(ImageRecords(image), "|")).decode()
        rows = {row[0]: row for row in (line.split("|") for line in text.splitlines())}
        client = client_of(image)
        status = asked(client, "/", "GETFILESTATUS")["FileStatus"]
        found = {"/": status} | dict(walk(client, ""))
        assert found.keys() == rows.keys()
        for path, row in rows.items():
            assert [str(found[path][key]) for key in ("replication", "blockSize", "length", "owner", "group")] == [
                *(row[1], row[4], row[6]),
                *("" if name == "null" else name for name in row[10:]),
            ]
        summary = asked(client, "/", "GETCONTENTSUMMARY")["ContentSummary"]
        sizes = [int(row[6]) for row in rows.values()]
        directories = [path for path in rows if found[path]["type"] == "DIRECTORY"]
        assert (summary["fileCount"], summary["directoryCount"]) == (len(rows) - len(directories), len(directories))
        assert summary["length"] == sum(sizes)
        assert summary["spaceConsumed"] == sum(int(row[1]) * int(row[6]) for row in rows.values())
        assert (str(summary["quota"]), str(summary["spaceQuota"])) == tuple(rows["/"][7:9])


def walk(client: FlaskClient, path: str) -> Iterator[tuple[str, Any]]:
    listed = asked(client, path or "/", "LISTSTATUS")["FileStatuses"]["FileStatus"]
    batch = asked(client, path or "/", "LISTSTATUS_BATCH")["DirectoryListing"]
    assert batch == {"partialListing": {"FileStatuses": {"FileStatus": listed}}, "remainingEntries": 0}
    for number, status in enumerate(listed):
        below = f"{path}/{status['pathSuffix']}"
        alone = asked(client, below, "GETFILESTATUS")["FileStatus"]
        assert alone == {**status, "pathSuffix": ""}
        after = asked(client, path or "/", "LISTSTATUS_BATCH", startAfter=status["pathSuffix"])["DirectoryListing"]
        assert after["partialListing"]["FileStatuses"]["FileStatus"] == listed[number + 1 :]
        yield below, status
        if status["type"] == "DIRECTORY":
            assert status["childrenNum"] == len(asked(client, below, "LISTSTATUS")["FileStatuses"]["FileStatus"])
            yield from walk(client, below)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FlaskClient]:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory())
    odd = "é b%;".encode()
    inodes = [pb.INode(type=pb.INode.FILE, id=20000 + i, name=odd if i == 0 else b"f%04d" % i) for i in range(2500)]
    for inode in inodes:
        inode.file.blocks.add(blockId=1, genStamp=1, numBytes=3)
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(numInodes=1 + len(inodes)), root, *inodes])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=[inode.id for inode in inodes])])
    with ImageFile.open(store(tmp_path, build_image(list(sections.items()))), verify_md5=False) as image:
        yield client_of(image)


def test_large_directories_are_listed_in_batches(client: FlaskClient) -> None:
    whole = asked(client, "/", "LISTSTATUS")["FileStatuses"]["FileStatus"]
    assert len(whole) == 2500
    names, left = [""], -1
    while left:
        listing = asked(client, "/", "LISTSTATUS_BATCH", startAfter=names[-1])["DirectoryListing"]
        statuses = listing["partialListing"]["FileStatuses"]["FileStatus"]
        names += [status["pathSuffix"] for status in statuses]
        left = listing["remainingEntries"]
        assert left == 2501 - len(names)
    assert names[1:] == [status["pathSuffix"] for status in whole]


def test_non_ascii_names_are_found(client: FlaskClient) -> None:
    assert asked(client, "/%C3%A9%20b%25;", "GETFILESTATUS")["FileStatus"]["fileId"] == 20000
    assert asked(client, "/f0001/", "LISTSTATUS")["FileStatuses"]["FileStatus"][0]["pathSuffix"] == ""
    assert asked(client, "/", "GETHOMEDIRECTORY", **{"user.name": "erin"}) == {"Path": "/user/erin"}


def test_parameter_names_are_case_insensitive_as_on_a_namenode(client: FlaskClient) -> None:
    answer = client.get("/webhdfs/v1/", query_string={"OP": "getHomeDirectory", "User.Name": "erin"})
    assert answer.json == {"Path": "/user/erin"}
    listing = asked(client, "/", "LISTSTATUS_BATCH", STARTAFTER="f2498")["DirectoryListing"]
    assert [each["pathSuffix"] for each in listing["partialListing"]["FileStatuses"]["FileStatus"]] == ["f2499"]


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "exception"),
    [
        ("get", "/none", "op=GETFILESTATUS", 404, "java.io.FileNotFoundException"),
        ("get", "/f0001/x", "op=LISTSTATUS", 404, "java.io.FileNotFoundException"),
        ("get", "/", "op=OPEN", 400, "java.lang.IllegalArgumentException"),
        ("get", "/", "", 400, "java.lang.IllegalArgumentException"),
        ("get", "/", "op=GETXATTRS&encoding=octal", 400, "java.lang.IllegalArgumentException"),
        ("get", "/", "op=GETXATTRS&xattr.name=user.none", 403, "java.io.IOException"),
        ("put", "/x", "op=MKDIRS", 405, "java.lang.UnsupportedOperationException"),
        ("delete", "/f0001", "op=DELETE", 405, "java.lang.UnsupportedOperationException"),
    ],
)
def test_refusals_have_the_status_and_exception_of_hadoop(
    client: FlaskClient, method: str, path: str, query: str, status: int, exception: str
) -> None:
    answer = getattr(client, method)(f"/webhdfs/v1{path}?{query}")
    assert (answer.status_code, answer.content_type) == (status, JSON)
    reported = answer.json["RemoteException"]
    assert reported["javaClassName"] == exception
    assert reported["exception"] == exception.rpartition(".")[2]
    assert reported["message"]


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    sections = dict(minimal_sections())
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
    root.directory.permission = 9 << 40
    sections["INODE"] = delimited([pb.INodeSection(numInodes=1), root])
    with ImageFile.open(store(tmp_path, build_image(list(sections.items()))), verify_md5=False) as image:
        answer = client_of(image).get("/webhdfs/v1/?op=GETFILESTATUS")
    assert answer.status_code == 403
    assert "serial 9" in answer.json["RemoteException"]["message"]


@pytest.mark.recorded
def test_serve_command_serves_webhdfs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "checkpointer", "image", "serve", str(CASES[1].image("after")), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        words = server.stdout.readline().split()
        url = words[-1].replace("webhdfs:", "http:")
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}webhdfs/v1/?op=LISTSTATUS") as answer:
            assert json.load(answer)["FileStatuses"]["FileStatus"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}webhdfs/v1/none?op=GETFILESTATUS")
        assert refused.value.code == 404
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0


@pytest.mark.recorded
@pytest.mark.parametrize(("codec", "memory", "spills"), [("", "1", True), (ZLIB, "1g", True), ("", "1g", False)])
def test_serve_command_puts_large_data_into_the_spill_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, memory: str, spills: bool
) -> None:
    """The index beyond the limit and decompressed sections are in unnamed files, which the process maps."""
    image = CASES[1].image("after")
    if codec:
        assert run_cli("image", "convert", image, tmp_path / image.name, "--codec", codec).code == 0
        image = tmp_path / image.name
    (spill := tmp_path / "spill").mkdir()
    monkeypatch.setattr("image_format.reader.SPOOL_LIMIT", 0)
    monkeypatch.setattr("image_tools.cli.memory_options.MIN_MEMORY", 0)
    monkeypatch.setitem(ArrayAllocator.__init__.__kwdefaults__, "smallest", 1)
    maps: list[str] = []
    monkeypatch.setattr(Control, "wait_for_stop", lambda _: maps.append(Path("/proc/self/maps").read_text()))
    served = run_cli("image", "serve", image, "--port", "0", "--memory", memory, "--spill-dir", spill)
    assert (served.code, served.err) == (0, "")
    assert [str(spill) in each for each in maps] == [spills]
