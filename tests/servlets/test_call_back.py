"""Legacy uploads, the side that is asked: what it checks, where it connects to, what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from hadoop_common.errors import HdfsError
from servlets.application import create_application
from servlets.image_receiver import ImageReceiver, ReceivedFile
from servlets.image_transfer import TransferOptions, image_transfer_blueprint
from servlets.parameters import parse_call_back
from servlets.reservations import UploadReservations
from servlets.transfer_counter import TransferCounter
from tests.servlets.support import (
    INFO,
    NEW_IMAGE,
    NEW_TXID,
    OLD_IMAGE,
    OLD_TXID,
    OTHER_INFO,
    SEGMENT,
    TemporaryStore,
    leftovers,
    make_store,
    names,
    serve,
)

IMAGE = NEW_IMAGE.read_bytes()


@dataclass
class Fetch:
    """An `ImageFetcher` that takes the recorded image from the disk, and notes how it was called."""

    calls: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    fault: Exception | None = None

    def __call__(self, base_url, txid, storage_info, directories, **options) -> ReceivedFile:
        self.calls.append((base_url, txid, options))
        with ImageReceiver(directories, txid) as receiver:
            options["throttle"].acquire(len(IMAGE))
            receiver.write(IMAGE)
            if self.fault is not None:
                raise self.fault
            return receiver.commit(size=len(IMAGE), md5=None)


@dataclass
class Asked:
    store: TemporaryStore
    fetch: Fetch | None
    reservations: UploadReservations = field(default_factory=UploadReservations)
    counter: TransferCounter = field(default_factory=TransferCounter)
    options: TransferOptions | None = None

    def get(self, remote: str = "192.0.2.7", **change: str | None):
        query = {
            "putimage": "1",
            "txid": str(NEW_TXID),
            "port": "50090",
            "storageInfo": INFO.colon_string(),
            **change,
        }
        blueprint = image_transfer_blueprint(
            self.store,
            fetch=self.fetch,
            reservations=self.reservations,
            counter=self.counter,
            options=self.options,
        )
        return (
            create_application(blueprint)
            .test_client()
            .get(
                "/getimage",
                query_string={name: value for name, value in query.items() if value is not None},
                environ_base={"REMOTE_ADDR": remote},
            )
        )


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(make_store(tmp_path), Fetch())


def assert_nothing_happened(asked: Asked, *, fetched: bool = False) -> None:
    assert asked.fetch is None or bool(asked.fetch.calls) is fetched
    assert asked.reservations.held == ()
    assert leftovers(asked.store) == []
    assert asked.store.received == []


def test_the_image_is_fetched_stored_and_told(asked):
    answer = asked.get()
    assert answer.status_code == 200
    assert answer.headers["Content-Length"] == str(len(answer.data)), "old clients demand it"
    assert asked.store.received[0][:2] == (NEW_TXID, "IMAGE")
    for directory in asked.store.directories:
        assert (directory / NEW_IMAGE.name).read_bytes() == IMAGE
    assert asked.reservations.held == ()
    assert asked.counter.received == len(IMAGE)


@pytest.mark.parametrize(
    ("remote", "machine", "url"),
    [
        ("192.0.2.7", None, "http://192.0.2.7:50090"),
        ("2001:db8::7", None, "http://[2001:db8::7]:50090"),
        ("192.0.2.7", "snn.example.org", "http://snn.example.org:50090"),
        ("192.0.2.7", "2001:db8::8", "http://[2001:db8::8]:50090"),
    ],
)
def test_it_calls_back_who_asks_or_who_is_named(asked, remote, machine, url):
    asked.get(remote, machine=machine)
    assert asked.fetch.calls[0][:2] == (url, NEW_TXID)


def test_free_space_and_options_reach_the_fetcher(asked):
    asked.options = TransferOptions(require_digest=False)
    asked.get()
    options = asked.fetch.calls[0][2]
    assert options["require_digest"] is False
    assert options["max_size"] > len(IMAGE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"txid": None}, "txid is missing"),
        ({"txid": "latest"}, "expected a decimal number"),
        ({"txid": "-1"}, "txid"),
        ({"port": None}, "port is missing"),
        ({"port": "0"}, "1 to 65535"),
        ({"port": "65536"}, "1 to 65535"),
        ({"port": "80x"}, "decimal number"),
        ({"storageInfo": None}, "storageInfo is missing"),
        ({"machine": ""}, "expected a host name"),
        ({"machine": "a/b"}, "expected a host name"),
        ({"machine": "user@host"}, "expected a host name"),
        ({"machine": "host:80"}, "expected a host name"),
        ({"machine": "h\r\nX: y"}, "expected a host name"),
        ({"machine": "a?b"}, "expected a host name"),
        ({"machine": "a#b"}, "expected a host name"),
        ({"machine": "ä"}, "expected a host name"),
        ({"machine": "x" * 254}, "expected a host name"),
        ({"getimage": "1"}, "both"),
        ({"getedit": "1"}, "both"),
    ],
)
def test_bad_requests(asked, change, said):
    answer = asked.get(**change)
    assert answer.status_code == 410
    assert said in answer.text
    assert "\n" not in answer.text.strip()
    assert_nothing_happened(asked)


def test_other_cluster(asked):
    assert asked.get(storageInfo=OTHER_INFO.colon_string()).status_code == 403
    assert_nothing_happened(asked)


def test_not_ready_comes_before_all_else(asked, monkeypatch):
    def unformatted():
        raise HdfsError("no directory is formatted")

    monkeypatch.setattr(asked.store, "storage_info", unformatted)
    assert asked.get(port=None).status_code == 403


def test_not_active(asked):
    asked.store.active = False
    assert asked.get().status_code == 417
    assert_nothing_happened(asked)


def test_image_that_is_there(asked):
    assert asked.get(txid=str(OLD_TXID)).status_code == 409
    assert_nothing_happened(asked)


def test_too_recent(asked):
    asked.store.rejection = "the newest image is 5 s old"
    assert asked.get().status_code == 409
    assert_nothing_happened(asked)


def test_upload_in_progress_by_either_protocol(asked):
    with asked.reservations.reserve(NEW_TXID):
        assert asked.get().status_code == 409
    assert asked.get().status_code == 200


@pytest.mark.parametrize("fault", [HdfsError("no answer"), OSError("disk"), RuntimeError("bug")])
def test_fetch_that_fails(asked, fault):
    asked.fetch.fault = fault
    assert asked.get().status_code == 410
    assert_nothing_happened(asked, fetched=True)
    asked.fetch.fault = None
    assert asked.get().status_code == 200


def test_without_a_fetcher_the_client_is_told_what_to_do(asked):
    asked.fetch = None
    answer = asked.get()
    assert answer.status_code == 410
    assert "PUT /imagetransfer" in answer.text
    assert_nothing_happened(asked)


def test_no_directory(asked):
    asked.store.directories = []
    assert asked.get().status_code == 410
    assert_nothing_happened(asked)


def test_head_changes_nothing(tmp_path):
    fetch = Fetch()
    with serve(make_store(tmp_path), fetch=fetch) as served:
        query = {"putimage": "1", "txid": str(NEW_TXID), "port": "1", "storageInfo": INFO.colon_string()}
        assert requests.head(served.url + "/getimage", params=query, timeout=20).status_code == 410
    assert fetch.calls == []


def test_older_forms_of_get(tmp_path):
    with serve(make_store(tmp_path)) as served:
        image = requests.get(served.url + "/getimage", params={"getimage": "1", "txid": str(OLD_TXID)}, timeout=20)
        assert image.content == OLD_IMAGE.read_bytes()
        assert image.headers["X-Image-Edits-Name"] == OLD_IMAGE.name
        edits = {"getedit": "1", "startTxId": "52", "endTxId": "289"}
        assert requests.get(served.url + "/getimage", params=edits, timeout=20).content == SEGMENT.read_bytes()
        assert requests.put(served.url + "/getimage", data=b"x", timeout=20).status_code == 405


def test_a_stored_image_lies_in_all_directories(asked):
    asked.get()
    assert names(asked.store.directories[0]) == names(asked.store.directories[1])


def test_machine_may_be_a_short_name():
    query = {"txid": "1", "port": "80", "machine": "h", "storageInfo": "x"}
    assert parse_call_back(query).machine == "h"
