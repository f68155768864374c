"""One image for many NameNodes: pending targets, parallel transfers, separate faults; real sockets on both sides."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkpointer.transfer.uploader as uploader_module
from checkpointer.transfer import UploadResult
from checkpointer.transfer.upload_target import STANDBY, UploadTarget
from engine.errors import CheckpointCancelledError
from engine.settings import ReplayRules
from hadoop_common.names import ImageKind, image_name
from hadoop_common.throttle import Throttle
from image_format.errors import MissingDigestError
from image_format.md5_file import md5_path, write_md5_file
from tests.checkpointer.service_support import Clock
from tests.checkpointer.upload_support import BIG, POLICY, never, offered, peer, refusal, uploader
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, OTHER_INFO, Served, leftovers, make_store, serve


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / NEW_IMAGE.name
    shutil.copyfile(NEW_IMAGE, path)
    write_md5_file(path, hashlib.md5(path.read_bytes()).digest())
    return path


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Content that is too large for any socket's buffers and is never checked."""
    path = tmp_path / image_name(NEW_TXID)
    with path.open("wb") as out:
        out.truncate(BIG)
    write_md5_file(path, bytes(16))
    return path


@contextmanager
def namenodes(root: Path, count: int) -> Iterator[list[Served]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serve(make_store(root / f"nn{n}", 1))) for n in range(count)]


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


def test_rollback_image_is_tracked_separately(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 1) as (served,):
        subject = uploader(served.url)
        assert offered(subject, image, kind=ImageKind.ROLLBACK)[served.url].kind is ImageKind.ROLLBACK
        assert served.store.find_image(NEW_TXID) == served.store.directories[0] / image_name(NEW_TXID, rollback=True)
        assert subject.targets[0].settled == {ImageKind.ROLLBACK: NEW_TXID}
        assert offered(subject, image)[served.url].result == "SUCCESS"
        assert offered(subject, image, kind=ImageKind.ROLLBACK) == {}


# ---- responses and faults ----------------------------------------------------------------------------------


def test_refused_image_does_not_become_the_held_one() -> None:
    times = {"at": 1.0, "now": 1.0, "quiet_period": 9.0}
    first = UploadTarget("a").answered(5, ImageKind.IMAGE, UploadResult.SUCCESS, **times)
    refused = first.answered(7, ImageKind.IMAGE, UploadResult.OLD_TRANSACTION_ID_FAILURE, **times, refusal="too recent")
    assert (first.held, refused.txid, refused.held) == (5, 7, 5)
    assert refused.holds(9, ImageKind.ROLLBACK).held == 5
    assert refused.holds(9, ImageKind.IMAGE).held == 9


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


@pytest.mark.parametrize(
    ("message", "pending"),
    [
        (
            "Another checkpointer is already in the process of uploading a checkpoint made up to transaction ID 200",
            True,
        ),
        (f"another checkpointer already uploaded an checkpoint for txid {NEW_TXID}", False),
    ],
)
def test_refused_rollback_image_is_offered_until_the_namenode_has_it(image: Path, message: str, pending: bool) -> None:
    """No other rollback image follows, and without a rollback image, the rolling upgrade waits forever."""
    answer = f"HTTP/1.1 409 {message}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    with peer(answer) as url:
        clock = Clock()
        subject = uploader(url, clock=clock)
        assert offered(subject, image, kind=ImageKind.ROLLBACK)[url].refusal == ("" if not pending else message)
        assert offered(subject, image, kind=ImageKind.ROLLBACK) == {}
        # an ordinary image that is offered in the meantime does not replace the rollback image
        assert offered(subject, image)[url].result == "OLD_TRANSACTION_ID_FAILURE"
        clock.now += 300
        again = offered(subject, image, kind=ImageKind.ROLLBACK)
        assert {each.refusal for each in again.values()} == ({message} if pending else set())
        assert subject.targets[0].has(NEW_TXID, ImageKind.ROLLBACK) is not pending


def test_newest_image_is_offered_while_the_rollback_image_fails(image: Path) -> None:
    clock = Clock()
    subject = uploader("http://127.0.0.1:1", clock=clock)
    for _ in range(4):
        assert offered(subject, image, kind=ImageKind.ROLLBACK)
        clock.now = subject.targets[0].not_before
        assert offered(subject, image, kind=ImageKind.ROLLBACK) == {}
        assert offered(subject, image)
        clock.now = max(subject.targets[0].not_before, subject.targets[0].rollback_after)


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


def test_pause_after_faults_grows_up_to_a_maximum(image: Path) -> None:
    clock = Clock()
    subject = uploader("http://127.0.0.1:1", clock=clock)
    pauses = []
    for _ in range(6):
        offered(subject, image)
        pauses.append(subject.targets[0].not_before - clock.now)
        clock.now = subject.targets[0].not_before
    assert pauses == pytest.approx([9.0, 18.0, 36.0, 72.0, 90.0, 90.0])


# ---- the quiet period --------------------------------------------------------------------------------------


def answers(monkeypatch: pytest.MonkeyPatch, *results: UploadResult) -> list[int]:
    left, txids = list(results), []

    def answer(_address: str, _path: Path, _md5: str, txid: int, *_: object, **__: object) -> UploadResult:
        txids.append(txid)
        return left.pop(0)

    monkeypatch.setattr(uploader_module, "upload_image", answer)
    return txids


def test_refused_target_gets_no_image_during_the_quiet_period(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    subject = uploader("http://nn1:1", clock=clock)
    old, taken = UploadResult.OLD_TRANSACTION_ID_FAILURE, UploadResult.SUCCESS
    txids = answers(monkeypatch, taken, old, taken, taken)

    def offer(txid: int, at: float) -> None:
        clock.now = at
        list(subject.offer(image, txid, INFO, never))

    offer(10, 0.0)
    offer(20, 100.0)
    # the image offered at 100.0 was rejected, so the last accepted image is the image offered at 0.0
    offer(30, 149.0)
    assert (txids, subject.targets[0].primary) == ([10, 20], False)
    offer(30, 150.0)
    assert (txids, subject.targets[0].primary) == ([10, 20, 30], True)
    offer(40, 151.0)
    assert txids == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("target", "kind", "now", "force", "due"),
    [
        (UploadTarget("a"), ImageKind.IMAGE, 0.0, False, True),
        (UploadTarget("a", {ImageKind.IMAGE: 5}), ImageKind.IMAGE, 0.0, True, False),
        (UploadTarget("a", {ImageKind.IMAGE: 5}), ImageKind.ROLLBACK, 0.0, False, True),
        (UploadTarget("a", not_before=10.0), ImageKind.IMAGE, 9.0, False, False),
        (UploadTarget("a", not_before=10.0), ImageKind.IMAGE, 9.0, True, True),
        (UploadTarget("a", primary=False, uploaded=1.0), ImageKind.IMAGE, 50.0, False, False),
        (UploadTarget("a", primary=False, uploaded=1.0), ImageKind.IMAGE, 101.0, False, True),
        (UploadTarget("a", primary=False, uploaded=1.0), ImageKind.ROLLBACK, 50.0, False, True),
        (UploadTarget("a", primary=False), ImageKind.IMAGE, 0.0, False, True),
    ],
)
def test_targets_that_are_due(target: UploadTarget, kind: ImageKind, now: float, force: bool, due: bool) -> None:
    assert target.due(5, kind, now, quiet_period=100.0, force=force) is due


# ---- an inactive NameNode ----------------------------------------------------------------------------------


def test_standby_gets_no_image_and_is_queried_again(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 2) as (active, other):
        takes = {active.url: True, other.url: False}
        sending: list[bool] = []

        def began() -> None:
            sending.append(subject.targets[1].sent is not None)

        subject = uploader(active.url, other.url, accepts_images=lambda address: takes[address])
        assert offered(subject, image, began=began).keys() == {active.url}
        assert other.store.received == []
        assert [target.result for target in subject.targets] == ["SUCCESS", STANDBY]
        assert offered(subject, image, began=began) == {}
        # nothing is sent to a standby
        assert sending == [False]
        takes[other.url] = True
        assert offered(subject, image, began=began)[other.url].result == "SUCCESS"
        assert sending == [False, True]


def test_image_refused_by_a_new_standby_is_offered_once_it_is_active(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, states = [UploadResult.NOT_ACTIVE_NAMENODE_FAILURE, UploadResult.SUCCESS], [True, False, False, True]
    monkeypatch.setattr(uploader_module, "upload_image", lambda *_, **__: answers.pop(0))
    subject = uploader("http://nn1", accepts_images=lambda address: states.pop(0))
    assert offered(subject, image) == {}
    assert (subject.targets[0].result, subject.targets[0].primary, states) == (STANDBY, True, [True])
    assert offered(subject, image)["http://nn1"].result == "SUCCESS"


def test_target_with_unknown_state_is_offered_the_image(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 1) as (served,):
        subject = uploader(served.url, accepts_images=lambda address: None)
        assert offered(subject, image)[served.url].result == "SUCCESS"


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
