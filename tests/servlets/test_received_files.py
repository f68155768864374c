from __future__ import annotations

import hashlib

import pytest

from image_format import publish
from image_format.errors import ImageStorageError
from servlets import received_files
from servlets.errors import ImageRejectedError
from servlets.received_files import FileReceiver, ImageReceiver
from tests.servlets.support import NEW_IMAGE, NEW_TXID, fill, names

IMAGE = NEW_IMAGE.read_bytes()
MD5 = hashlib.md5(IMAGE).hexdigest()


@pytest.fixture
def directories(tmp_path):
    made = [tmp_path / "a", tmp_path / "b"]
    for directory in made:
        directory.mkdir()
    return made


def test_received_pieces_become_a_file(directories):
    with FileReceiver(directories, "part", "whole") as receiver:
        fill(receiver, b"ab")
        fill(receiver, b"c")
        assert names(directories[0]) == ["part"]
        received = receiver.commit(size=3, md5=None)
    assert received.paths == tuple(directory / "whole" for directory in directories)
    assert received.md5 == hashlib.md5(b"abc").hexdigest()
    assert received.failures == ()
    assert [path.read_bytes() for path in received.paths] == [b"abc", b"abc"]
    assert names(directories[0]) == ["whole"]


def test_leaving_without_commit_removes_everything(directories):
    with FileReceiver(directories, "part", "whole") as receiver:
        fill(receiver, b"ab")
    assert names(directories[0]) == names(directories[1]) == []


@pytest.mark.parametrize("expected", [{"size": 4, "md5": None}, {"size": 3, "md5": "0" * 32}])
def test_a_wrong_length_or_digest_is_refused(directories, expected):
    with FileReceiver(directories, "part", "whole") as receiver, pytest.raises(ImageRejectedError):
        fill(receiver, b"abc")
        receiver.commit(**expected)
    assert names(directories[0]) == names(directories[1]) == []


def test_a_failed_rename_drops_one_directory(directories, monkeypatch):
    real = publish.rename_durably

    def failing(source, target):
        if target.parent == directories[0]:
            raise OSError("disk gone")
        real(source, target)

    monkeypatch.setattr(publish, "rename_durably", failing)
    with ImageReceiver(directories, NEW_TXID) as receiver:
        fill(receiver, IMAGE)
        received = receiver.commit(size=len(IMAGE), md5=MD5)
    assert received.paths == (directories[1] / NEW_IMAGE.name,)
    assert len(received.failures) == 1
    assert "disk gone" in received.failures[0]
    assert names(directories[0]) == [], "neither the image nor an .md5 file without one"
    assert names(directories[1]) == [NEW_IMAGE.name, NEW_IMAGE.name + ".md5"]


def test_failed_renames_in_all_directories_leave_no_files(directories, monkeypatch):
    def failing(source, target):
        raise OSError("disk gone")

    monkeypatch.setattr(publish, "rename_durably", failing)
    with ImageReceiver(directories, NEW_TXID) as receiver:
        fill(receiver, IMAGE)
        with pytest.raises(ImageStorageError, match="disk gone"):
            receiver.commit(size=len(IMAGE), md5=MD5)
    assert names(directories[0]) == names(directories[1]) == []


def test_the_digest_file_is_written_before_the_image(directories, monkeypatch):
    seen = []
    real = publish.rename_durably

    def looking(source, target):
        seen.append(names(target.parent))
        real(source, target)

    monkeypatch.setattr(publish, "rename_durably", looking)
    with ImageReceiver(directories[:1], NEW_TXID) as receiver:
        fill(receiver, IMAGE)
        receiver.commit(size=len(IMAGE), md5=MD5)
    assert seen == [[f"fsimage.ckpt_{NEW_TXID:019d}", NEW_IMAGE.name + ".md5"]]


def test_image_with_an_unknown_codec_is_stored(directories, caplog, monkeypatch):
    def unknown(name, file=""):
        raise received_files.UnsupportedCodecError(f"codec {name}", file=file)

    monkeypatch.setattr("image_format.reader.find_codec", unknown)
    with ImageReceiver(directories, NEW_TXID) as receiver:
        fill(receiver, IMAGE)
        receiver.commit(size=len(IMAGE), md5=MD5)
    assert NEW_IMAGE.name in names(directories[0])
    assert "unchecked" in caplog.text
