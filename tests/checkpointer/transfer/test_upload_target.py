"""Whether an image is due at a NameNode: refusals, pauses and rollback images."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkpointer.transfer.uploader as uploader_module
from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import never
from checkpointer.transfer.upload_target import STANDBY, UploadTarget
from hadoop_common.names import ImageKind, image_name
from tests.checkpointer.service_support import Clock
from tests.checkpointer.upload_support import namenodes, offered, peer, uploader
from tests.servlets.support import INFO, NEW_TXID


def test_rollback_image_is_tracked_separately(tmp_path: Path, image: Path) -> None:
    with namenodes(tmp_path, 1) as (served,):
        subject = uploader(served.url)
        assert offered(subject, image, kind=ImageKind.ROLLBACK)[served.url].kind is ImageKind.ROLLBACK
        assert served.store.find_image(NEW_TXID) == served.store.directories[0] / image_name(NEW_TXID, rollback=True)
        assert subject.targets[0].settled == {ImageKind.ROLLBACK: NEW_TXID}
        assert offered(subject, image)[served.url].result == "SUCCESS"
        assert offered(subject, image, kind=ImageKind.ROLLBACK) == {}


def test_refused_image_does_not_become_the_held_one() -> None:
    times = {"at": 1.0, "now": 1.0, "quiet_period": 9.0}
    first = UploadTarget("a").answered(5, ImageKind.IMAGE, UploadResult.SUCCESS, **times)
    refused = first.answered(7, ImageKind.IMAGE, UploadResult.OLD_TRANSACTION_ID_FAILURE, **times, refusal="too recent")
    assert (first.held, refused.txid, refused.held) == (5, 7, 5)
    assert refused.holds(9, ImageKind.ROLLBACK).held == 5
    assert refused.holds(9, ImageKind.IMAGE).held == 9


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


def test_pause_after_faults_grows_up_to_a_maximum(image: Path) -> None:
    clock = Clock()
    subject = uploader("http://127.0.0.1:1", clock=clock)
    pauses = []
    for _ in range(6):
        offered(subject, image)
        pauses.append(subject.targets[0].not_before - clock.now)
        clock.now = subject.targets[0].not_before
    assert pauses == pytest.approx([9.0, 18.0, 36.0, 72.0, 90.0, 90.0])


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
