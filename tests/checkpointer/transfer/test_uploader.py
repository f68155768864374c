"""One image for many NameNodes: pending targets, parallel transfers, separate faults; real sockets on both sides."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkpointer.transfer.uploader as uploader_module
from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import never
from checkpointer.transfer.upload_target import STANDBY, UploadTarget
from engine.errors import CheckpointCancelledError
from engine.settings import ReplayRules
from hadoop_common.names import ImageKind, image_name
from hadoop_common.throttle import Throttle
from image_format.errors import MissingDigestError
from image_format.md5_file import md5_path, write_md5_file
from tests.checkpointer.service_support import Clock
from tests.checkpointer.upload_support import BIG, POLICY, namenodes, offered, peer, refusal, uploader
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, OTHER_INFO, leftovers


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Content that is too large for any socket's buffers and is never checked."""
    path = tmp_path / image_name(NEW_TXID)
    with path.open("wb") as out:
        out.truncate(BIG)
    write_md5_file(path, bytes(16))
    return path


# ---- in parallel -------------------------------------------------------------------------------------------


def test_image_is_uploaded_to_all_targets_in_parallel(tmp_path: Path, image: Path) -> None:
    """Each server waits until all uploads have begun, which would never happen if the uploads ran one after another."""
    with namenodes(tmp_path, 4) as servers:
        meeting = threading.Barrier(4)
        for served in servers:
            served.store.on_rejection = lambda: meeting.wait(600) and None
        counted: list[int] = []
        subject = uploader(*(served.url for served in servers), count=counted.append)
        found = offered(subject, image)
        assert {each.result for each in found.values()} == {"SUCCESS"}
        size = image.stat().st_size
        assert {(each.size, each.txid, each.kind) for each in found.values()} == {(size, NEW_TXID, ImageKind.IMAGE)}
        assert all(each.seconds > 0 for each in found.values())
        assert sum(counted) == 4 * size
        assert [served.store.received[0][0] for served in servers] == [NEW_TXID] * 4
        assert [target.txid for target in subject.targets] == [NEW_TXID] * 4
        assert offered(subject, image) == {}


def test_namenode_with_other_settings_of_replay_receives_no_image(tmp_path: Path, image: Path) -> None:
    other = {"deletion.ordered is true on that NameNode, but false on this node"}

    def differs(address: str, rules: ReplayRules, **options: object) -> str:
        assert rules == POLICY.rules
        return "".join(other) if address == servers[1].url else ""

    confirmed: list[int] = []
    with namenodes(tmp_path, 2) as servers:
        clock = Clock()
        subject = uploader(
            *(served.url for served in servers),
            clock=clock,
            differs=differs,
            confirm=lambda path, txid: confirmed.append(txid),
        )
        found = offered(subject, image)
        assert found[servers[0].url].result == "SUCCESS"
        assert "deletion.ordered is true on that NameNode" in found[servers[1].url].error
        assert servers[1].store.received == []
        # the settings are compared first, so that nothing delays a transfer after the image is confirmed
        assert confirmed == [NEW_TXID]
        # after a correction, the image is offered again
        other.clear()
        clock.now += 100
        assert offered(subject, image)[servers[1].url].result == "SUCCESS"


@pytest.mark.parametrize("parallelism", [1, 2])
def test_number_of_parallel_uploads_is_limited(image: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int) -> None:
    lock = threading.Lock()
    running = most = 0
    full = threading.Event()

    def counting(*_: object, **__: object) -> UploadResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == parallelism:
                full.set()
        assert full.wait(600)
        with lock:
            running -= 1
        return UploadResult.SUCCESS

    monkeypatch.setattr(uploader_module, "upload_image", counting)
    subject = uploader(*(f"http://nn{n}:1" for n in range(5)), policy=replace(POLICY, parallelism=parallelism))
    assert len(offered(subject, image)) == 5
    assert most == parallelism


def test_uploads_share_one_bandwidth_limit(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    throttles: list[Throttle] = []

    def noting(*_: object, throttle: Throttle, **__: object) -> UploadResult:
        throttles.append(throttle)
        return UploadResult.SUCCESS

    monkeypatch.setattr(uploader_module, "upload_image", noting)
    subject = uploader("http://nn1:1", "http://nn2:1", policy=replace(POLICY, bandwidth=1000))
    offered(subject, image)
    subject.policy = replace(POLICY, bandwidth=2000)
    list(subject.offer(image, NEW_TXID + 1, INFO, never))
    assert [throttle.bytes_per_second for throttle in throttles] == [1000, 1000, 2000, 2000]
    assert throttles[0] is throttles[1]
    assert throttles[2] is throttles[3]


@pytest.mark.parametrize(
    ("status", "result", "settled"),
    [(409, "OLD_TRANSACTION_ID_FAILURE", True), (417, "NOT_ACTIVE_NAMENODE_FAILURE", False)],
)
@pytest.mark.parametrize("after", [0, 1 << 20])
def test_early_refusal_stops_the_upload(big: Path, status: int, result: str, settled: bool, after: int) -> None:
    with peer(refusal(status), after=after, hold=threading.Event()) as url:
        subject = uploader(url)
        upload = offered(subject, big)[url]
        assert (upload.result, upload.error) == (result, "")
        assert upload.size < BIG
        assert (subject.targets[0].txid == NEW_TXID) is settled
        assert subject.targets[0].held == -1
        assert not subject.targets[0].primary


@pytest.mark.parametrize("status", [403, 404, 410, 500, 503])
def test_other_http_errors_are_faults(big: Path, status: int) -> None:
    with peer(refusal(status), after=1 << 20) as url:
        clock = Clock()
        subject = uploader(url, clock=clock)
        upload = offered(subject, big)[url]
        assert upload.result == "failed"
        assert f"HTTP {status}" in upload.error
        assert upload.size < BIG
        target = subject.targets[0]
        assert (target.txid, target.failures, target.primary) == (-1, 1, True)
        assert offered(subject, big) == {}
        clock.now = target.not_before
        assert offered(subject, big)[url].result == "failed"
        assert subject.targets[0].failures == 2


@pytest.mark.parametrize("after", [0, 1, 1 << 20])
def test_closed_connection_is_a_fault(big: Path, after: int) -> None:
    with peer(b"", after=after) as url:
        upload = offered(uploader(url), big)[url]
        assert upload.result == "failed"
        assert "was interrupted" in upload.error


def test_server_that_hangs_during_the_body_is_a_fault(big: Path) -> None:
    with peer(b"", after=1 << 20, hold=threading.Event()) as url:
        upload = offered(uploader(url, policy=replace(POLICY, timeout=0.3)), big)[url]
        assert upload.result == "failed"
        assert "no progress" in upload.error
        assert 0 < upload.size < BIG


def test_rejected_images_are_faults(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 1) as (served,):
        subject = uploader(served.url)
        (upload,) = subject.offer(image, NEW_TXID, OTHER_INFO, never, force=True)
        assert "403" in upload.error
        write_md5_file(image, bytes(16))
        assert "MD5" in offered(subject, image, force=True)[served.url].error
        image.write_bytes(NEW_IMAGE.read_bytes()[:-100])
        write_md5_file(image, hashlib.md5(image.read_bytes()).digest())
        assert "410" in offered(subject, image, force=True)[served.url].error
        assert leftovers(served.store) == []
        assert subject.targets[0].failures == 3


def test_fault_of_one_target_does_not_affect_the_others(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 2) as servers:
        subject = uploader(servers[0].url, "http://127.0.0.1:1", servers[1].url)
        results = [each.result for each in offered(subject, image).values()]
        assert sorted(results) == ["SUCCESS", "SUCCESS", "failed"]
        assert [target.failures for target in subject.targets] == [0, 1, 0]


def test_unreadable_image_is_not_a_fault_of_a_target(tmp_path: Path, image: Path) -> None:
    subject = uploader("http://127.0.0.1:1")
    md5_path(image).unlink()
    with pytest.raises(MissingDigestError):
        offered(subject, image)
    write_md5_file(image, bytes(16))
    image.unlink()
    with pytest.raises(FileNotFoundError):
        offered(subject, image)
    assert subject.targets[0].result == "never"


def test_failover_during_an_upload_redirects_the_image(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former active NameNode accepts bytes but never responds; only the change of roles ends the transfer."""
    with namenodes(tmp_path, 1) as (new,), peer(b"", after=1 << 30, hold=threading.Event()) as old_url:
        takes = {old_url: True, new.url: False}
        asked: list[str] = []
        real = uploader_module.upload_image

        def upload(address: str, *arguments: Any, sent: Callable[[int], None], **options: Any) -> UploadResult:
            def telling(count: int) -> None:
                sent(count)
                # the active role moves during the transfer, after the standby was asked
                if address == old_url and len(set(asked)) == 2:
                    takes.update({old_url: False, new.url: True})

            return real(address, *arguments, sent=telling, **options)

        def state(address: str) -> bool:
            asked.append(address)
            return takes[address]

        monkeypatch.setattr(uploader_module, "upload_image", upload)
        subject = uploader(old_url, new.url, accepts_images=state, watch_interval=0.01)

        def wait_for_standby(address: str, *arguments: Any, **options: Any) -> UploadResult:
            if address == old_url:
                wait_until("the standby's answer", lambda: new.url in asked)
            return upload(address, *arguments, **options)

        monkeypatch.setattr(uploader_module, "upload_image", wait_for_standby)
        found = offered(subject, image)
        assert {address: each.result for address, each in found.items()} == {new.url: "SUCCESS"}
        assert [target.result for target in subject.targets] == [STANDBY, "SUCCESS"]
        assert subject.targets[0].failures == 0


# ---- cancellation ------------------------------------------------------------------------------------------


def test_cancellation_ends_all_uploads(big: Path) -> None:
    cancelled = threading.Event()
    with ExitStack() as stack:
        urls = [stack.enter_context(peer(b"", after=1 << 30, hold=threading.Event())) for _ in range(3)]
        subject = uploader(
            *urls, policy=replace(POLICY, parallelism=2, bandwidth=1 << 20), count=lambda _: cancelled.set()
        )
        with pytest.raises(CheckpointCancelledError):
            list(subject.offer(big, NEW_TXID, INFO, cancelled.is_set))
        assert {(target.result, target.failures) for target in subject.targets} == {("never", 0)}


def test_progress_of_an_upload(big: Path) -> None:
    seen: list[UploadTarget] = []

    def cancelled() -> bool:
        seen.append(subject.targets[0])
        return bool(seen[-1].sent)

    with peer(b"", after=1 << 30, hold=threading.Event()) as url:
        subject = uploader(url)
        with pytest.raises(CheckpointCancelledError):
            list(subject.offer(big, NEW_TXID, INFO, cancelled))
    assert 0 < (seen[-1].sent or 0) < BIG
    assert seen[-1].total == BIG
    assert (subject.targets[0].sent, subject.targets[0].total) == (None, None)


def test_closing_the_iterator_ends_running_uploads(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 1) as (served,), peer(b"", after=1 << 30, hold=threading.Event()) as slow:
        subject = uploader(served.url, slow)
        offers = subject.offer(image, NEW_TXID, INFO, never)
        assert next(offers).address == served.url
        offers.close()  # type: ignore[attr-defined]
        assert [target.result for target in subject.targets] == ["SUCCESS", "never"]
