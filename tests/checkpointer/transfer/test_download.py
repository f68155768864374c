"""Downloads of images and segments."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer import TransferCancelledError, download_image, download_segment
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from hadoop_common.throttle import Throttle
from image_format.md5_file import read_md5_file
from journal.errors import CorruptOpError
from tests.servlets.support import (
    INFO,
    NEW_IMAGE,
    NEW_TXID,
    OLD_IMAGE,
    OLD_TXID,
    OTHER_INFO,
    SEGMENT,
    make_store,
    names,
    padded_image,
    serve,
)
from tests.socket_peer import saying, scripted_web

OLD = OLD_IMAGE.read_bytes()
MD5 = hashlib.md5(OLD).hexdigest()


@pytest.fixture
def served(tmp_path):
    with serve(make_store(tmp_path / "server", count=1)) as running:
        yield running


@pytest.fixture
def directories(tmp_path):
    made = [tmp_path / "a", tmp_path / "b"]
    for directory in made:
        directory.mkdir()
    return made


def ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def test_image_is_stored_in_every_directory(served, directories):
    image = download_image(served.url, OLD_TXID, INFO, directories)
    assert image.txid == OLD_TXID
    assert (image.md5, image.size, image.failures) == (MD5, len(OLD), ())
    for directory in directories:
        path = directory / OLD_IMAGE.name
        assert path in image.paths
        assert path.read_bytes() == OLD
        assert read_md5_file(path).hex() == MD5
        assert names(directory) == [OLD_IMAGE.name, OLD_IMAGE.name + ".md5"]


def test_latest_image_without_storage_info(served, directories):
    assert download_image(served.url, None, None, directories).txid == OLD_TXID


def test_rollback_image(served, directories):
    name = image_name(NEW_TXID, rollback=True)
    shutil.copy(NEW_IMAGE, served.store.directories[0] / name)
    md5 = hashlib.md5(NEW_IMAGE.read_bytes()).hexdigest()
    (served.store.directories[0] / (name + ".md5")).write_text(f"{md5} *{name}\n")
    image = download_image(served.url, NEW_TXID, INFO, directories, kind="IMAGE_ROLLBACK", bootstrap=True)
    assert image.paths[0].name == name


@pytest.mark.parametrize(
    ("challenge", "key"),
    [
        ("PseudoAuth", "hadoop.http.authentication.simple.anonymous.allowed"),
        ("Negotiate", "hadoop.security.authentication"),
    ],
)
def test_hint_for_a_missing_login_names_the_key(directories, challenge, key):
    answer = f"HTTP/1.1 401 Authentication required\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\n\r\n"
    with (
        scripted_web(saying(answer.encode())) as url,
        pytest.raises(TransferError, match="Authentication required") as caught,
    ):
        download_image(url, OLD_TXID, INFO, directories)
    assert key in caught.value.hint


def test_segment_is_stored_in_every_directory(served, directories):
    paths = download_segment(served.url, 52, 289, INFO, directories).paths
    assert paths == tuple(directory / SEGMENT.name for directory in directories)
    assert all(path.read_bytes() == SEGMENT.read_bytes() for path in paths)
    assert names(directories[0]) == [SEGMENT.name]


def test_segment_has_a_temporary_name_until_it_is_complete(served, directories):
    seen = []

    class Looking(Throttle):
        def acquire(self, count, cancelled=None):
            seen.append(names(directories[0]))

    download_segment(served.url, 52, 289, INFO, directories, throttle=Looking(0))
    assert all(len(entry) == 1 and entry[0].startswith("edits_tmp_") for entry in seen)


def test_wrong_storage_info(served, directories):
    with pytest.raises(TransferError, match="is not the namespace of this side") as caught:
        download_image(served.url, OLD_TXID, OTHER_INFO, directories)
    assert caught.value.status == 403
    with pytest.raises(TransferError):
        download_segment(served.url, 52, 289, OTHER_INFO, directories)
    assert names(directories[0]) == []


def test_unknown_txids(served, directories):
    with pytest.raises(TransferError, match="image at txid 77") as caught:
        download_image(served.url, 77, INFO, directories)
    assert caught.value.status == 410
    with pytest.raises(TransferError, match="segment 1-5"):
        download_segment(served.url, 1, 5, INFO, directories)
    assert names(directories[0]) == []


def test_image_without_digest(served, directories):
    (served.store.directories[0] / (OLD_IMAGE.name + ".md5")).unlink()
    with pytest.raises(TransferError, match="X-MD5-Digest"):
        download_image(served.url, OLD_TXID, INFO, directories)
    assert names(directories[0]) == []


def test_damaged_image(served, directories):
    path = served.store.directories[0] / OLD_IMAGE.name
    path.write_bytes(bytes([*OLD[:100], OLD[100] ^ 1, *OLD[101:]]))
    with pytest.raises(TransferError, match=f"expected {MD5}"):
        download_image(served.url, OLD_TXID, INFO, directories)
    assert names(directories[0]) == names(directories[1]) == []


PAGE = b"<html>login page</html>"
BAD_IMAGES = {
    "not an image": (ok(PAGE, f"X-MD5-Digest: {hashlib.md5(PAGE).hexdigest()}"), "is not an image"),
    "malformed digest": (ok(OLD, "X-MD5-Digest: abc"), "32 hexadecimal"),
    "too short": (ok(OLD, f"X-MD5-Digest: {MD5}", length=len(OLD) + 1), f"after {len(OLD)} "),
    "much too short": (ok(OLD, f"X-MD5-Digest: {MD5}", length=len(OLD) * 1000), f"after {len(OLD)} "),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "could not be requested: SSH-2.0"),
}
BAD_SEGMENTS = {
    "too short": (ok(b"abc", length=10), "3 of 10"),
    "wrong digest": (ok(b"abc", "X-MD5-Digest: " + "0" * 32), "MD5"),
    **{
        head: (f"HTTP/1.1 200 OK\r\n{head}\r\n0\r\n\r\n".encode(), "Content-Length")
        for head in ("", "Transfer-Encoding: chunked\r\n", "Content-Length: -1\r\n", "Content-Length: x\r\n")
    },
}


@pytest.mark.parameters(len(BAD_IMAGES))
@pytest.mark.parametrize(("response", "fault"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_bad_response_for_an_image(directories, response, fault):
    with scripted_web(saying(response)) as url, pytest.raises(TransferError, match=fault):
        download_image(url, OLD_TXID, INFO, directories)
    assert names(directories[0]) == names(directories[1]) == []


@pytest.mark.parameters(len(BAD_SEGMENTS))
@pytest.mark.parametrize(("response", "fault"), BAD_SEGMENTS.values(), ids=BAD_SEGMENTS)
def test_bad_response_for_a_segment(directories, response, fault):
    with scripted_web(saying(response)) as url, pytest.raises(TransferError, match=fault):
        download_segment(url, 1, 2, INFO, directories)
    assert names(directories[0]) == []


def test_hint_forbids_the_restart_of_a_namenode_that_sends_a_damaged_segment(directories):
    def refuse(path):
        raise CorruptOpError("the checksum differs", file=path.name)

    with scripted_web(saying(ok(b"abc"))) as url, pytest.raises(TransferError, match="checksum differs") as caught:
        download_segment(url, 1, 2, INFO, directories, check=refuse)
    assert "Do not restart the NameNode" in caught.value.hint
    assert names(directories[0]) == []


def test_redirects_are_not_followed(directories):
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with scripted_web(saying(answer)) as url, pytest.raises(TransferError) as caught:
        download_image(url, OLD_TXID, INFO, directories)
    assert caught.value.status == 302


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "fsimage_x", "edits_1-2"])
def test_latest_image_needs_a_name(directories, name):
    response = ok(OLD, f"X-Image-Edits-Name: {name}", f"X-MD5-Digest: {MD5}")
    with scripted_web(saying(response)) as url, pytest.raises(TransferError, match="X-Image-Edits-Name"):
        download_image(url, None, INFO, directories)
    assert names(directories[0]) == []


def test_refused_connection_is_an_error(directories, closed_port):
    with pytest.raises(TransferError, match="could not be requested") as caught:
        download_image(f"http://127.0.0.1:{closed_port}", 1, INFO, directories)
    assert caught.value.hint


def test_proxies_of_the_environment_are_not_used(served, directories, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert download_image(served.url, OLD_TXID, INFO, directories).size == len(OLD)


def test_cancelled_download_leaves_no_files(served, directories):
    padded_image(served.store.directories[0] / OLD_IMAGE.name, 4 << 20)
    asked = iter(range(1000))
    with pytest.raises(TransferCancelledError, match="cancelled after"):
        download_image(served.url, OLD_TXID, INFO, directories, cancel=lambda: next(asked) >= 5)
    assert names(directories[0]) == names(directories[1]) == []


def test_one_unwritable_directory(served, directories, tmp_path):
    image = download_image(served.url, OLD_TXID, INFO, [tmp_path / "missing", directories[0]])
    assert image.paths == (directories[0] / OLD_IMAGE.name,)
    assert "missing" in image.failures[0]


def test_directory_that_cannot_store_a_segment_is_named_with_the_reason(served, directories, tmp_path):
    segment = download_segment(served.url, 52, 289, INFO, [tmp_path / "missing", directories[0]])
    ((folder, reason),) = segment.missing_in([tmp_path / "missing", directories[0]])
    assert folder == tmp_path / "missing"
    assert "No such file or directory" in reason


def test_download_without_a_writable_directory_is_an_error(served, tmp_path):
    with pytest.raises(StorageError, match="the file could not be written in any directory"):
        download_image(served.url, OLD_TXID, INFO, [tmp_path / "missing"])
    with pytest.raises(TransferError, match="no directory"):
        download_segment(served.url, 52, 289, INFO, [])


def test_throttle_counts_every_byte(served, directories):
    counted = []

    class Counting(Throttle):
        def acquire(self, count, cancelled=None):
            counted.append(count)

    download_image(served.url, OLD_TXID, INFO, directories, chunk_size=100, throttle=Counting(0))
    assert sum(counted) == len(OLD)
    assert max(counted) <= 100
