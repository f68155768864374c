"""After every end of an upload, its reservation is released and no unfinished file remains."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hadoop_common.errors import HdfsError
from hadoop_common.names import ImageKind, image_name
from servlets.application import create_application
from servlets.image_admission import UploadReservations
from servlets.image_transfer_servlet import image_transfer_blueprint
from servlets.received_files import ImageReceiver
from tests.depth import examples
from tests.servlets.support import NEW_IMAGE, NEW_TXID, OLD_TXID, TemporaryStore, fill, leftovers, make_store, put_query

IMAGE = NEW_IMAGE.read_bytes()
STEPS = ["storage_info", "is_active", "checkpoint_rejection", "image_directories", "image_received"]
FAULTS = [RuntimeError("bug"), OSError("disk"), HdfsError("away"), KeyError("key")]


@dataclass
class FaultyStore(TemporaryStore):
    """A store that raises `fault` at the `after`th call of `step`."""

    step: str = ""
    after: int = 0
    fault: Exception | None = None

    def _reached(self, name: str) -> None:
        if name == self.step and self.fault is not None:
            self.after -= 1
            if self.after < 0:
                raise self.fault

    def storage_info(self):
        self._reached("storage_info")
        return super().storage_info()

    def is_active(self):
        self._reached("is_active")
        return super().is_active()

    def checkpoint_rejection(self, txid, kind):
        self._reached("checkpoint_rejection")
        return super().checkpoint_rejection(txid, kind)

    def image_directories(self):
        self._reached("image_directories")
        return super().image_directories()

    def image_received(self, txid, kind, md5, size):
        self._reached("image_received")
        super().image_received(txid, kind, md5, size)


@examples(120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    step=st.sampled_from(["", *STEPS]),
    after=st.integers(0, 3),
    fault=st.sampled_from(FAULTS),
    active=st.booleans() | st.just(True),
    rejection=st.sampled_from([None, None, None, "too recent"]),
    txid=st.sampled_from([NEW_TXID, NEW_TXID, OLD_TXID, 7]),
    kind=st.sampled_from(ImageKind),
    body=st.sampled_from([IMAGE, IMAGE, IMAGE[:-1], IMAGE + b"x", b"", b"no image"]),
    digest=st.sampled_from([hashlib.md5(IMAGE).hexdigest(), "0" * 32, "nonsense", None]),
)
def test_a_reservation_is_released_after_every_upload(
    tmp_path_factory, step, after, fault, active, rejection, txid, kind, body, digest
):
    directories = make_store(tmp_path_factory.mktemp("upload"), count=1).directories
    store = FaultyStore(directories, active=active, rejection=rejection, step=step, after=after, fault=fault)
    reservations = UploadReservations()
    blueprint = image_transfer_blueprint(store, reservations=reservations)
    client = create_application(blueprint).test_client()
    headers = {} if digest is None else {"X-MD5-Digest": digest}
    query = put_query(len(IMAGE), txid, imageFile=kind.value)
    answer = client.put("/imagetransfer", query_string=query, headers=headers, data=body)
    assert answer.status_code in (200, 403, 409, 410, 417)
    assert reservations.held == ()
    assert leftovers(store) == []
    stored = (directories[0] / image_name(txid, kind.rollback)).exists()
    assert stored or answer.status_code != 200


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(ImageKind), st.booleans()), max_size=12))
def test_reservations_agree_with_a_model(steps):
    """A step starts an upload or ends the oldest upload; for each kind, only uploads newer than all uploads in progress
    are accepted.
    """
    reservations = UploadReservations()
    running: list[tuple[tuple[int, ImageKind], contextlib.ExitStack]] = []
    for txid, kind, ends in steps:
        if ends and running:
            running.pop(0)[1].close()
            continue
        wanted = all(txid > held for (held, held_kind), _ in running if held_kind is kind)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(reservations.reserve(txid, kind))
            except HdfsError:
                assert not wanted
                continue
            assert wanted
            running.append(((txid, kind), stack.pop_all()))
        assert reservations.held == tuple(sorted(held for held, _ in running))
    for _, stack in running:
        stack.close()
    assert reservations.held == ()


@pytest.mark.parametrize("running", ImageKind)
def test_images_of_both_kinds_can_be_uploaded_at_once(tmp_path: Path, running: ImageKind):
    other = ImageKind.IMAGE if running.rollback else ImageKind.ROLLBACK
    store = make_store(tmp_path)
    reservations = UploadReservations()
    client = create_application(image_transfer_blueprint(store, reservations=reservations)).test_client()

    def put(kind: ImageKind):
        query = put_query(len(IMAGE), imageFile=kind.value)
        headers = {"X-MD5-Digest": hashlib.md5(IMAGE).hexdigest()}
        return client.put("/imagetransfer", query_string=query, headers=headers, data=IMAGE)

    with (
        reservations.reserve(NEW_TXID, running),
        ImageReceiver(store.image_directories(), NEW_TXID, rollback=running.rollback) as receiver,
    ):
        fill(receiver, IMAGE[:1000])
        assert put(running).status_code == 409
        assert put(other).status_code == 200
        fill(receiver, IMAGE[1000:])
        receiver.commit(size=len(IMAGE), md5=hashlib.md5(IMAGE).hexdigest())
    for directory in store.directories:
        for kind in ImageKind:
            assert (directory / image_name(NEW_TXID, kind.rollback)).read_bytes() == IMAGE
