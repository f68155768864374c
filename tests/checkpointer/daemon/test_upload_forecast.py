"""When a NameNode will accept an image, and the alarm of a NameNode that does not answer."""

from __future__ import annotations

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.namenode_settings import NamenodeSettings
from checkpointer.transfer.upload_target import Upload
from hadoop_common.names import ImageKind
from site_config.keys import CHECKPOINT_PERIOD, CHECKPOINT_TXNS
from tests.checkpointer.service_support import Clock, FakeRole, standby_config
from tests.checkpointer.upload_support import OLD, RECENT, TAKEN


def test_second_missing_answer_of_a_namenode_is_an_alarm(role: FakeRole, clock: Clock) -> None:
    """The NameNode is frozen, but the journal can be read, so the daemon is ready."""
    url, config = "http://nn1:9870/jmx?qry=x", standby_config()
    answers: list[ImageAcceptance | TransferError] = [
        TransferError(url, "no answer: timed out", hint="Check that the NameNode is up."),
        TransferCancelledError(url, "the request was cancelled"),
        TransferError(url, "no answer: timed out", hint="Check that the NameNode is up."),
        ImageAcceptance(version="3.4.2", state="active", last_at=None, last_txid=None),
    ]

    def ask(address: str, **_: object) -> ImageAcceptance:
        answer = answers.pop(0)
        if isinstance(answer, TransferError):
            raise answer
        return answer

    # the clock of the host is set back again and again
    forecast = UploadForecast(config, ask=ask, clock=clock, wall=lambda: -clock.now)
    service = CheckpointService(role, config, clock=clock, wall=clock.wall, forecast=forecast)
    alarm = "http://nn1:9870 does not report its state: no answer: timed out"
    for raised in ([], [], [alarm], []):
        service.jobs()[0].run()
        clock.now += config.poll_interval
        status = service.status()
        assert (status["alarms"], status["ready"]) == (raised, True)
        assert status["nextSteps"] == dict.fromkeys(raised, "Check that the NameNode is up.")


def test_upload_forecast_uses_the_last_response() -> None:
    wall = Clock()
    wall.now = 1000.0
    answers: dict[str, ImageAcceptance | None] = {
        "http://a": ImageAcceptance("3.4.1", "active", 990.0, 100),
        "http://b": ImageAcceptance("2.7.3", "active", 990.0, 100),
        "http://c": None,
    }

    def ask(address: str, **_: object) -> ImageAcceptance:
        found = answers[address]
        if found is None:
            raise TransferError(address, "no answer")
        return found

    # an image is accepted after three quarters of the period of 100 s
    subject = UploadForecast(standby_config(), ask=ask, wall=wall)
    assert subject.expected_refusals(101) == []
    subject.update(list(answers), lambda: False)
    assert [subject.takes_from(each) for each in answers] == [1065.0, None, None]
    (sentence,) = subject.expected_refusals(101)
    assert sentence.startswith("http://a (Hadoop 3.4.1) will refuse the image at txid 101 as too recent")
    assert subject.expected_refusals(150) == []
    subject.note_upload(Upload("http://a", TAKEN, txid=150))
    assert subject.takes_from("http://a") == 1075.0
    # the NameNode's keys decide; our keys do not matter
    subject.note_upload(Upload("http://a", OLD, refusal=RECENT))
    assert subject.takes_from("http://a") == 1000.0 + 2305
    subject.note_upload(Upload("http://a", TAKEN, txid=160, kind=ImageKind.ROLLBACK))
    assert subject.takes_from("http://a") == 1000.0 + 2305
    wall.now += 2305
    assert subject.takes_from("http://a") is None
    answers["http://a"] = None
    subject.update(list(answers), lambda: False)
    assert subject.expected_refusals(101) == []


@pytest.mark.parametrize(
    ("theirs", "takes_from", "refused_below"),
    [
        ({CHECKPOINT_PERIOD.name: "2h", CHECKPOINT_TXNS.name: " 0x10 "}, 990.0 + 5400, 116),
        # our period is 100 s, our number of transactions 50
        ({CHECKPOINT_PERIOD.name: "soon"}, 1065.0, 150),
        ({}, 1065.0, 150),
    ],
)
def test_upload_forecast_uses_the_keys_of_the_namenode(
    theirs: dict[str, str], takes_from: float, refused_below: int
) -> None:
    wall = Clock()
    wall.now = 1000.0
    subject = UploadForecast(
        standby_config(),
        ask=lambda address, **_: ImageAcceptance("3.4.1", "active", 990.0, 100),
        ask_settings=lambda address, **_: NamenodeSettings("3.4.1", theirs),
        wall=wall,
    )
    subject.update(["http://a"], lambda: False)
    assert subject.settings_fault(lambda: False) == ""
    assert subject.takes_from("http://a") == takes_from
    assert subject.expected_refusals(refused_below) == []
    (sentence,) = subject.expected_refusals(refused_below - 1)
    assert f"or {refused_below - 100} transactions" in sentence


def test_upload_forecast_has_times_by_the_clock_of_this_host(caplog: pytest.LogCaptureFixture) -> None:
    """Measurements of one difference vary slightly; the time of an image does not."""
    wall = Clock()
    wall.now = 1000.0
    leads = [7200.0, 7201.5, 7199.0, 30.0]

    def ask(address: str, **_: object) -> ImageAcceptance:
        return ImageAcceptance("3.4.1", "active", 990.0 + 7200.0, 100, clock_ahead=leads.pop(0))

    subject = UploadForecast(standby_config(), ask=ask, wall=wall)
    while len(leads) > 1:
        subject.update(["http://a"], lambda: False)
        assert subject.last_image_at() == subject.reported_at("http://a") == 990.0
        assert subject.takes_from("http://a") == 1065.0
    assert [each.message for each in caplog.records] == [
        "the clock of http://a is 2 h 0 min ahead of this host's clock"
    ]
    # the clock of this host is corrected
    wall.now += 7200.0
    subject.update(["http://a"], lambda: False)
    assert subject.last_image_at() == 990.0 + 7200.0


def test_only_the_image_of_the_active_namenode_counts() -> None:
    """A standby makes its own images, and an observer may have an image that the active NameNode lacks."""
    reports = {
        "http://a": ImageAcceptance("3.4.1", "active", 990.0, 100),
        "http://b": ImageAcceptance("3.4.1", "observer", 998.0, 120),
        "http://c": ImageAcceptance("3.4.1", "standby", 999.0, 130),
    }
    subject = UploadForecast(standby_config(), ask=lambda address, **_: reports[address])
    assert (subject.last_image_at(), subject.observers()) == (None, frozenset())
    subject.update(list(reports), lambda: False)
    assert (subject.last_image_at(), subject.observers()) == (990.0, {"http://b"})
    assert subject.inactive() == {"http://b", "http://c"}
    subject.note_upload(Upload("http://c", "SUCCESS", txid=140))
    assert subject.inactive() == {"http://b"}
