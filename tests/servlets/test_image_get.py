from __future__ import annotations

import hashlib
import http.client
import os
import shutil
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hadoop_common.errors import HdfsError
from hadoop_common.transfer_counter import TransferCounter
from servlets.application import create_application
from servlets.image_transfer_servlet import image_transfer_blueprint
from tests.depth import examples
from tests.servlets.support import (
    INFO,
    NEW_IMAGE,
    NEW_TXID,
    OLD_IMAGE,
    OLD_TXID,
    OTHER_INFO,
    SEGMENT,
    make_store,
    padded_image,
    serve,
)


@pytest.fixture
def served(tmp_path):
    with serve(make_store(tmp_path)) as running:
        yield running


def get(served, **query: str) -> requests.Response:
    return requests.get(served.url + "/imagetransfer", params=query, timeout=600)


def test_an_image_is_sent_by_txid(served):
    answer = get(served, getimage="1", txid=str(OLD_TXID), storageInfo=INFO.colon_string())
    assert answer.status_code == 200
    assert answer.content == OLD_IMAGE.read_bytes()
    assert answer.headers["Content-Length"] == str(len(answer.content))
    assert answer.headers["X-MD5-Digest"] == hashlib.md5(answer.content).hexdigest()
    assert answer.headers["X-Image-Edits-Name"] == OLD_IMAGE.name
    assert answer.headers["Content-Disposition"] == f"attachment; filename={OLD_IMAGE.name}"
    assert "chunked" not in answer.headers.get("Transfer-Encoding", "")


def test_the_older_getimage_servlet_is_supported(served):
    image = requests.get(served.url + "/getimage", params={"getimage": "1", "txid": str(OLD_TXID)}, timeout=600)
    assert image.content == OLD_IMAGE.read_bytes()
    assert image.headers["X-Image-Edits-Name"] == OLD_IMAGE.name
    edits = {"getedit": "1", "startTxId": "52", "endTxId": "289"}
    assert requests.get(served.url + "/getimage", params=edits, timeout=600).content == SEGMENT.read_bytes()
    assert requests.put(served.url + "/getimage", data=b"x", timeout=600).status_code == 405


def test_the_latest_image_is_sent(served):
    shutil.copy(NEW_IMAGE, served.store.directories[0])
    answer = get(served, getimage="1", txid="latest")
    assert answer.status_code == 200
    assert answer.content == NEW_IMAGE.read_bytes()
    assert "X-MD5-Digest" not in answer.headers


def test_rollback_image_is_found_by_txid(served):
    name = f"fsimage_rollback_{NEW_TXID:019d}"
    shutil.copy(NEW_IMAGE, served.store.directories[0] / name)
    answer = get(served, getimage="1", txid=str(NEW_TXID), imageFile="IMAGE_ROLLBACK")
    assert answer.headers["X-Image-Edits-Name"] == name


def test_a_segment_is_sent(served):
    answer = get(served, getedit="1", startTxId="52", endTxId="289", storageInfo=INFO.colon_string())
    assert answer.status_code == 200
    assert answer.content == SEGMENT.read_bytes()
    assert answer.headers["X-Image-Edits-Name"] == SEGMENT.name
    assert "X-MD5-Digest" not in answer.headers


def test_a_refusal_does_not_reveal_the_correct_storage_info(served):
    answer = get(served, getimage="1", txid=str(OLD_TXID), storageInfo=OTHER_INFO.colon_string())
    assert answer.status_code == 403
    assert OTHER_INFO.colon_string() in answer.text
    assert INFO.cluster_id not in answer.text
    assert str(INFO.namespace_id) not in answer.text


def test_an_unformatted_store_refuses_requests(served, monkeypatch):
    def unformatted():
        raise HdfsError("no directory is formatted")

    monkeypatch.setattr(served.store, "storage_info", unformatted)
    answer = get(served, getimage="1", txid=str(OLD_TXID), storageInfo=INFO.colon_string())
    assert answer.status_code == 403
    assert "no directory is formatted" in answer.text
    assert "no directory is formatted" in answer.reason, "Hadoop's clients log only the status line"
    assert get(served).status_code == 403, "before anything else is checked"
    assert get(served, getimage="1", txid="latest").status_code == 403


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"getimage": "1", "txid": "77"}, "image at txid 77"),
        ({"getedit": "1", "startTxId": "1", "endTxId": "5"}, "segment 1-5"),
        ({"getimage": "1"}, "txid is missing"),
        ({"getimage": "1", "getedit": "1"}, "getimage and getedit"),
        ({}, "neither"),
        ({"getaliasmap": "1"}, "neither"),
        ({"getimage": "1", "txid": "51", "imageFile": "EDITS"}, "expected IMAGE or IMAGE_ROLLBACK"),
    ],
)
def test_bad_requests_get_status_410_with_one_sentence(served, query, message):
    answer = get(served, **query)
    assert answer.status_code == 410
    assert message in answer.text
    assert answer.text.count("\n") == 1


def test_a_store_without_images_gives_status_410(served):
    for path in served.store.directories[0].iterdir():
        path.unlink()
    assert get(served, getimage="1", txid="latest").status_code == 410


def test_a_file_purged_meanwhile_gives_status_410(served, monkeypatch):
    monkeypatch.setattr(served.store, "find_image", lambda txid: Path("/nonexistent/fsimage_1"))
    assert get(served, getimage="1", txid="1").status_code == 410


def test_an_unexpected_error_of_the_store_is_only_logged(served, monkeypatch, caplog):
    def broken(txid):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(served.store, "find_image", broken)
    answer = get(served, getimage="1", txid="1")
    assert answer.status_code == 410
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


def test_a_malformed_digest_file_gives_status_410(served):
    (served.store.directories[0] / (OLD_IMAGE.name + ".md5")).write_text("nonsense\n")
    assert get(served, getimage="1", txid=str(OLD_TXID)).status_code == 410


def test_an_image_truncated_during_transfer_closes_the_connection(tmp_path):
    store = make_store(tmp_path)
    image = store.directories[0] / OLD_IMAGE.name
    padded_image(image, 64 << 20)
    with serve(store) as served:
        connection = http.client.HTTPConnection(*served.address, timeout=600)
        connection.request("GET", f"/imagetransfer?getimage=1&txid={OLD_TXID}")
        answer = connection.getresponse()
        answer.read(1000)
        os.truncate(image, 1000)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        connection.close()


def test_several_requests_on_one_connection(served):
    session = requests.Session()
    for _ in range(3):
        answer = session.get(served.url + "/imagetransfer", params={"getimage": "1", "txid": "51"}, timeout=600)
        assert answer.content == OLD_IMAGE.read_bytes()


def test_sent_bytes_are_counted(tmp_path):
    counter = TransferCounter()
    with serve(make_store(tmp_path), counter=counter) as served:
        get(served, getimage="1", txid=str(OLD_TXID))
        get(served, getimage="1", txid=str(OLD_TXID), bootstrapstandby="true")
    assert (counter.sent, counter.received) == (2 * OLD_IMAGE.stat().st_size, 0)


def test_a_head_response_has_no_body(served):
    answer = requests.head(served.url + "/imagetransfer", params={"getimage": "1", "txid": "51"}, timeout=600)
    assert answer.status_code == 200
    assert answer.headers["Content-Length"] == str(OLD_IMAGE.stat().st_size)


NAMES = ["getimage", "getedit", "txid", "startTxId", "endTxId", "storageInfo", "File-Length", "imageFile", "q"]
VALUES = st.one_of(st.text(max_size=20), st.integers().map(str), st.sampled_from(["latest", "1", "51", "IMAGE"]))


@examples(60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    query=st.dictionaries(st.sampled_from(NAMES), VALUES),
    headers=st.dictionaries(st.sampled_from(["X-MD5-Digest", "Content-Type"]), st.text("abc0123 ;=-", max_size=34)),
    body=st.binary(max_size=30),
)
def test_garbage_never_gives_500(tmp_path_factory, query, headers, body):
    store = make_store(tmp_path_factory.mktemp("garbage"), count=1)
    client = create_application(image_transfer_blueprint(store)).test_client()
    with client.get("/imagetransfer", query_string=query, headers=headers) as answer:
        assert answer.status_code in (200, 403, 410)
    with client.put("/imagetransfer", query_string=query, headers=headers, data=body) as answer:
        assert answer.status_code in (403, 409, 410, 417)
    assert len(list(store.directories[0].iterdir())) == 3


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_only_regular_files_are_sent(tmp_path: Path, kind: str) -> None:
    store = make_store(tmp_path)
    image = store.find_image(OLD_TXID)
    assert image is not None
    image.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    if kind == "link":
        image.symlink_to(secret)
    else:
        os.mkfifo(image)
    with serve(store) as served:
        answer = get(served, getimage="1", txid=str(OLD_TXID))
    assert answer.status_code == 410
    assert b"secret" not in answer.content
