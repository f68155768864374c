from __future__ import annotations

import hashlib
import logging
import shutil
import socket
import threading
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from image_format.md5_file import read_md5_file
from servlets.errors import AlreadyHaveImageError
from servlets.image_admission import UploadReservations
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import (
    INFO,
    NEW_IMAGE,
    NEW_TXID,
    OLD_IMAGE,
    OLD_TXID,
    OTHER_INFO,
    PATIENT,
    Served,
    leftovers,
    make_store,
    names,
    put,
    put_query,
    serve,
)

IMAGE = NEW_IMAGE.read_bytes()
MD5 = hashlib.md5(IMAGE).hexdigest()


@pytest.fixture
def served(tmp_path):
    with serve(make_store(tmp_path)) as running:
        yield running


def assert_nothing_happened(served: Served) -> None:
    assert leftovers(served.store) == []
    assert served.reservations.txids == ()
    assert served.store.received == []
    assert all(image_name(NEW_TXID) not in names(directory) for directory in served.store.directories)
    assert all(image_name(NEW_TXID) + ".md5" not in names(directory) for directory in served.store.directories)


@pytest.mark.parametrize("chunk", [None, 1000, 1, 65536])
def test_upload_is_stored_everywhere(served, chunk):
    answer = put(served.url, IMAGE, chunk=chunk)
    assert answer.status == 200, answer.text
    for directory in served.store.directories:
        image = directory / image_name(NEW_TXID)
        assert image.read_bytes() == IMAGE
        assert read_md5_file(image).hex() == MD5
    assert leftovers(served.store) == []
    assert served.store.received == [(NEW_TXID, "IMAGE", MD5, len(IMAGE))]
    assert served.reservations.txids == ()


def test_a_rollback_image_is_stored(served):
    answer = put(served.url, IMAGE, put_query(len(IMAGE), imageFile="IMAGE_ROLLBACK"))
    assert answer.status == 200
    assert image_name(NEW_TXID, rollback=True) in names(served.store.directories[1])
    assert served.store.received[0][1] == "IMAGE_ROLLBACK"
    assert put(served.url, IMAGE).status == 200, "a normal image at the same txid is another file"


def test_an_image_older_than_the_newest_is_accepted(served):
    assert put(served.url, IMAGE).status == 200
    for directory in served.store.directories:
        (directory / OLD_IMAGE.name).unlink()
    old = OLD_IMAGE.read_bytes()
    assert put(served.url, old, put_query(len(old), OLD_TXID)).status == 200


def test_stale_unfinished_upload_is_overwritten(served):
    (served.store.directories[0] / f"fsimage.ckpt_{NEW_TXID:019d}").write_bytes(b"x" * 100_000)
    assert put(served.url, IMAGE).status == 200
    assert (served.store.directories[0] / image_name(NEW_TXID)).read_bytes() == IMAGE


def test_an_image_of_another_namespace_is_forbidden(served):
    answer = put(served.url, IMAGE, put_query(len(IMAGE), info=OTHER_INFO))
    assert answer.status == 403
    assert OTHER_INFO.colon_string() in answer.text
    assert INFO.cluster_id not in answer.text
    assert_nothing_happened(served)


def test_namespace_is_checked_before_the_ha_state(served):
    served.store.active = False
    assert put(served.url, IMAGE, put_query(len(IMAGE), info=OTHER_INFO)).status == 403


def test_an_upload_to_an_inactive_namenode_is_refused(served, caplog):
    """Hadoop's standbys offer all their images to our standby, so this is not worth a warning."""
    caplog.set_level(logging.INFO)
    served.store.active = False
    answer = put(served.url, IMAGE)
    assert answer.status == 417
    assert "not active" in answer.text
    assert_nothing_happened(served)
    assert [each.levelname for each in caplog.records if "not active" in each.getMessage()] == ["INFO"]


def test_ha_state_is_checked_before_conflicts(served):
    served.store.active = False
    old = OLD_IMAGE.read_bytes()
    assert put(served.url, old, put_query(len(old), OLD_TXID)).status == 417


def test_an_upload_soon_after_the_last_is_refused(served):
    served.store.rejection = "the newest image is 5 s old, expected one older than 2700 s or 1000000 txns ahead"
    answer = put(served.url, IMAGE)
    assert (answer.status, answer.text) == (409, served.store.rejection + "\n")
    assert_nothing_happened(served)
    served.store.rejection = None
    assert put(served.url, IMAGE).status == 200, "the txid must not stay reserved"


def test_an_existing_image_is_a_conflict(served):
    old = OLD_IMAGE.read_bytes()
    answer = put(served.url, old, put_query(len(old), OLD_TXID))
    assert answer.status == 409
    assert OLD_IMAGE.name in answer.text
    assert_nothing_happened(served)


def test_an_image_in_only_one_directory_is_a_conflict(served):
    (served.store.directories[0] / OLD_IMAGE.name).unlink()
    old = OLD_IMAGE.read_bytes()
    assert put(served.url, old, put_query(len(old), OLD_TXID)).status == 409


def test_conflicts_are_checked_before_digest_and_length(served):
    old = OLD_IMAGE.read_bytes()
    assert put(served.url, old, put_query(5, OLD_TXID), digest=None).status == 409


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"txid": "-1"}, "txid is -1"),
        ({"txid": ""}, "txid"),
        ({"File-Length": "0"}, "File-Length"),
        ({"storageInfo": ""}, "storageInfo is missing"),
        ({"imageFile": "EDITS"}, "imageFile is 'EDITS'"),
    ],
)
def test_malformed_parameters_are_refused(served, change, message):
    answer = put(served.url, IMAGE, {**put_query(len(IMAGE)), **change})
    assert answer.status == 410
    assert message in answer.text
    assert_nothing_happened(served)


@pytest.mark.parametrize("chunk", [None, 1000])
def test_a_wrong_digest_is_refused(served, chunk):
    answer = put(served.url, IMAGE, digest="0" * 32, chunk=chunk)
    assert answer.status == 410
    assert MD5 in answer.text
    assert "0" * 32 in answer.text
    assert_nothing_happened(served)
    assert put(served.url, IMAGE).status == 200


@pytest.mark.parametrize("digest", ["md5", None])
def test_a_malformed_or_missing_digest_is_refused(served, digest):
    answer = put(served.url, IMAGE, digest=digest)
    assert answer.status == 410
    assert "X-MD5-Digest" in answer.text
    assert_nothing_happened(served)


@pytest.mark.parametrize("chunk", [None, 1000])
@pytest.mark.parametrize("announced", [len(IMAGE) - 1, len(IMAGE) + 1, 1, 1 << 40])
def test_a_wrong_length_is_refused(served, chunk, announced):
    answer = put(served.url, IMAGE, put_query(announced), chunk=chunk)
    assert answer.status == 410
    assert str(announced) in answer.text
    assert_nothing_happened(served)
    assert put(served.url, IMAGE).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"HDFSIMG1",
        b"no image at all" * 100,
        IMAGE[:-4] + b"\x7f\xff\xff\xff",
        IMAGE[:-5] + b"\xff" + IMAGE[-4:],
        IMAGE[:-1],
    ],
    ids=["magic only", "other file", "bad trailer", "bad summary", "cut"],
)
def test_files_that_are_not_images_are_refused_despite_a_correct_digest(served, body):
    answer = put(served.url, body)
    assert answer.status == 410
    assert "is not an image" in answer.text
    assert_nothing_happened(served)


def test_an_image_of_another_txid_is_refused(served):
    answer = put(served.url, IMAGE, put_query(len(IMAGE), 290))
    assert answer.status == 410
    assert "txid 289, expected 290" in answer.text
    assert leftovers(served.store) == []
    assert image_name(290) + ".md5" not in names(served.store.directories[0])


def test_one_bad_directory_does_not_fail_the_upload(served, caplog):
    gone = served.store.directories[0]
    shutil.rmtree(gone)
    assert put(served.url, IMAGE).status == 200
    assert image_name(NEW_TXID) in names(served.store.directories[1])
    assert str(gone) in caplog.text


@pytest.mark.parametrize(
    "fail", [shutil.rmtree, lambda directory: (directory / f"fsimage.ckpt_{NEW_TXID:019d}").mkdir()]
)
def test_an_upload_fails_if_all_directories_fail(served, fail):
    for directory in served.store.directories:
        fail(directory)
    assert put(served.url, IMAGE).status == 410
    assert served.reservations.txids == ()
    assert served.store.received == []


def test_an_upload_without_directories_is_refused(served):
    served.store.directories = []
    answer = put(served.url, IMAGE)
    assert answer.status == 410
    assert "no directory" in answer.text


def test_a_fault_after_the_rename_is_reported(served):
    def full() -> None:
        raise HdfsError("old edits cannot be purged")

    served.store.on_received = full
    answer = put(served.url, IMAGE)
    assert answer.status == 410
    assert "old edits cannot be purged" in answer.text
    assert served.reservations.txids == ()


def open_upload(served: Served, size: int, txid: int = NEW_TXID, *, chunked: bool = False) -> socket.socket:
    """Send the head of an upload of `size` bytes."""
    connection = socket.create_connection(served.address, timeout=600)
    coding = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    connection.sendall(
        f"PUT /imagetransfer?{urlencode(put_query(size, txid))} HTTP/1.1\r\nHost: here\r\n"
        f"X-MD5-Digest: {MD5}\r\n{coding}\r\n\r\n".encode()
    )
    return connection


def wait_until_reserved(served: Served, reached: threading.Event) -> None:
    assert reached.wait(600)
    assert served.reservations.txids == (NEW_TXID,)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("half_close", [False, True])
def test_a_lost_connection_releases_reservation_and_files(served, chunked, half_close):
    reached = threading.Event()
    served.store.on_rejection = reached.set
    connection = open_upload(served, len(IMAGE), chunked=chunked)
    part = IMAGE[:3000]
    connection.sendall(b"%x\r\n%b" % (5000, part) if chunked else part)
    wait_until_reserved(served, reached)
    if half_close:
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 410")
        assert b"after 3000 bytes" in answer
    connection.close()
    # the server notices the disconnection after a while; with a leaked reservation, it would refuse uploads forever
    wait_until("the end of the first upload", lambda: put(served.url, IMAGE).status == 200)
    assert served.store.received == [(NEW_TXID, "IMAGE", MD5, len(IMAGE))]
    assert leftovers(served.store) == []


def test_a_stalled_upload_is_aborted(tmp_path):
    with serve(make_store(tmp_path), limits=replace(PATIENT, stall=0.2)) as served:
        connection = open_upload(served, len(IMAGE))
        connection.sendall(IMAGE[:100])
        answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 410")
        connection.close()
        assert_nothing_happened(served)


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nabcdefgh\r\n", b"-1\r\n"])
def test_malformed_chunks_are_refused(served, body):
    connection = open_upload(served, len(IMAGE), chunked=True)
    connection.sendall(body)
    connection.shutdown(socket.SHUT_WR)
    assert connection.makefile("rb").read().startswith(b"HTTP/1.1 410")
    connection.close()
    assert_nothing_happened(served)


def test_concurrent_uploads_of_one_txid_conflict(served):
    reached = threading.Event()
    served.store.on_rejection = reached.set
    first = open_upload(served, len(IMAGE))
    first.sendall(IMAGE[:1000])
    wait_until_reserved(served, reached)
    same = put(served.url, IMAGE)
    assert same.status == 409
    assert f"txid {NEW_TXID} is in progress" in same.text
    lower = put(served.url, IMAGE, put_query(len(IMAGE), NEW_TXID - 1))
    assert lower.status == 409
    higher = put(served.url, IMAGE, put_query(len(IMAGE), NEW_TXID + 1))
    assert "expected 290" in higher.text, "a newer image may start; only the txid of this one is wrong"
    assert served.reservations.txids == (NEW_TXID,)
    first.sendall(IMAGE[1000:])
    assert first.recv(100).startswith(b"HTTP/1.1 200")
    first.close()
    assert served.reservations.txids == ()
    assert put(served.url, IMAGE).status == 409, "the image exists now"


def test_one_of_many_simultaneous_uploads_succeeds(served):
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(put(served.url, IMAGE).status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 7
    assert len(served.store.received) == 1


def test_the_body_of_a_refused_upload_is_discarded(tmp_path):
    store = make_store(tmp_path)
    store.active = False
    with serve(store, linger=0.2) as served:
        connection = open_upload(served, 1 << 40)
        head = connection.recv(4096)
        assert head.startswith(b"HTTP/1.1 417")
        assert b"Connection: close" in head
        connection.close()
        assert put(served.url, IMAGE).status == 417


def test_expect_100_continue_is_supported(served):
    connection = socket.create_connection(served.address, timeout=600)
    connection.sendall(
        f"PUT /imagetransfer?{urlencode(put_query(len(IMAGE)))} HTTP/1.1\r\n"
        "Host: here\r\nExpect: 100-continue\r\n"
        f"X-MD5-Digest: {MD5}\r\nContent-Length: {len(IMAGE)}\r\n\r\n".encode()
    )
    assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(IMAGE)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()


def test_a_reservation_is_released_after_any_error():
    reservations = UploadReservations()
    for fault in (RuntimeError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(fault), reservations.reserve(5):
            assert reservations.txids == (5,)
            raise fault
        assert reservations.txids == ()


def test_only_newer_txids_can_be_reserved():
    reservations = UploadReservations()
    with reservations.reserve(5):
        for txid in (0, 4, 5):
            with pytest.raises(AlreadyHaveImageError), reservations.reserve(txid):
                pass
        with reservations.reserve(6):
            assert reservations.txids == (5, 6)
        assert reservations.txids == (5,)
