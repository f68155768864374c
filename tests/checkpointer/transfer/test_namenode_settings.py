"""The settings of replay: a daemon makes and offers no image if the active NameNode has different settings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, TransferInterruptedError
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.namenode_settings import NamenodeSettings, ask_settings, difference, settings_difference
from engine.settings import ReplayRules
from servlets.status import TriggerState
from tests.checkpointer.service_support import TRANSACTIONS, Clock, FakeRole, clock, role, standby_config
from tests.web_server import QuietHandler, serving

__all__ = ["clock", "role"]

ORDERED = "dfs.namenode.snapshot.deletion.ordered"
OPEN_FILES = "dfs.namenode.snapshot.capture.openfiles"
ACCESS_TIMES = "dfs.namenode.snapshot.skip.capture.accesstime-only-change"
KEYS = {
    "ordered": "deletion.ordered",
    "open_files": "capture.openfiles",
    "access_times": "skip.capture.accesstime-only-change",
}


CONF = json.dumps({"properties": [{"key": ORDERED, "value": " True ", "isFinal": False, "resource": "hdfs-site.xml"}]})


@contextmanager
def namenode(version: str, conf: str, status: int = 200) -> Iterator[str]:
    """Serve a NameNode's version and configuration; like Hadoop's NameNode, the server writes JSON only for this Accept
    header.
    """

    class Handler(QuietHandler):
        def get(self) -> None:
            if self.path.startswith("/jmx"):
                self.answer(200, json.dumps({"beans": [{"SoftwareVersion": version}]}).encode())
            else:
                json_wanted = self.headers["Accept"] == "application/json"
                self.answer(status, conf.encode() if json_wanted else b"<configuration/>")

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def settings(version: str = "3.5.0", **values: str) -> NamenodeSettings:
    defaults = {OPEN_FILES: "false", ACCESS_TIMES: "false"}
    return NamenodeSettings(
        version, defaults | {f"dfs.namenode.snapshot.{KEYS[key]}": each for key, each in values.items()}
    )


def test_configuration_of_a_namenode() -> None:
    with namenode("3.5.0", CONF) as url:
        found = ask_settings(url, timeout=600.0)
    assert found == NamenodeSettings("3.5.0", {ORDERED: " True "})
    assert found.is_on(ORDERED)


@pytest.mark.parametrize("version", ["2.7.3", "2.8.5"])
def test_releases_without_these_settings_are_not_asked(version: str) -> None:
    with namenode(version, "", 500) as url:
        assert ask_settings(url, timeout=600.0) == NamenodeSettings(version, {})


@pytest.mark.parametrize(
    ("conf", "status"),
    [("Unauthorized access", 403), ("<configuration/>", 200), ('{"properties": [{"key": "a"}]}', 200)],
    ids=["refused", "XML", "without a value"],
)
def test_configuration_that_a_namenode_does_not_show_is_unknown(conf: str, status: int) -> None:
    with namenode("3.5.0", conf, status) as url, pytest.raises(TransferError) as caught:
        ask_settings(url, timeout=600.0)
    assert caught.value.status == status


def test_no_image_is_sent_to_a_namenode_that_does_not_answer_for_its_settings(closed_port: int) -> None:
    with namenode("3.5.0", "Unauthorized access", 403) as url:
        assert settings_difference(url, ReplayRules(), timeout=600.0) == ""
    with pytest.raises(TransferInterruptedError, match="no answer"):
        settings_difference(f"http://127.0.0.1:{closed_port}", ReplayRules(), timeout=600.0)


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        (settings(ordered="true"), ReplayRules(ordered_snapshot_deletion=True), ""),
        (settings(ordered="true"), ReplayRules(ordered_snapshot_deletion=None), ""),
        (
            settings(ordered="true"),
            ReplayRules(ordered_snapshot_deletion=False),
            "true on that NameNode, but false on this node",
        ),
        # unset in the defaults of every release
        (settings(), ReplayRules(ordered_snapshot_deletion=True), "false on that NameNode, but true on this node"),
        (settings(open_files="true"), ReplayRules(), "true on that NameNode, but false on this node"),
        (settings(access_times=" TRUE"), ReplayRules(skip_access_time_changes=True), ""),
        (settings("2.10.2", access_times="true"), ReplayRules(), "true on that NameNode, but false on this node"),
        # the release does not have the keys
        (NamenodeSettings("2.7.3", {}), ReplayRules(capture_open_files=True), ""),
        (settings("3.3.6", ordered="true"), ReplayRules(ordered_snapshot_deletion=False), ""),
        (settings("", ordered="true"), ReplayRules(ordered_snapshot_deletion=False), ""),
        (
            settings("3.1.1.7.1.8.0-801", ordered="true"),
            ReplayRules(ordered_snapshot_deletion=True),
            "older-layouts to true if Hadoop 3.1.1.7.1.8.0-801 has ordered deletion",
        ),
        (
            settings("3.1.1.7.1.8.0-801", ordered="true"),
            ReplayRules(ordered_snapshot_deletion=False, ordered_deletion_in_older_layouts=True),
            "true on that NameNode, but false on this node",
        ),
        (
            settings("3.1.1.7.1.8.0-801", ordered="true"),
            ReplayRules(ordered_snapshot_deletion=True, ordered_deletion_in_older_layouts=False),
            "",
        ),
    ],
)
def test_difference_names_the_key_and_both_values(theirs: NamenodeSettings, ours: ReplayRules, found: str) -> None:
    text = difference(theirs, ours)
    assert found in text
    assert bool(text) == bool(found)


def service_of(
    role: FakeRole, clock: Clock, state: str, answers: Iterable[NamenodeSettings | TransferError]
) -> CheckpointService:
    coming = iter(answers)
    known = ImageAcceptance(version="3.5.0", state=state, last_at=None, last_txid=None)

    def ask_settings(*_: object, **__: object) -> NamenodeSettings:
        found = next(coming)
        if isinstance(found, TransferError):
            raise found
        return found

    forecast = UploadForecast(
        standby_config(), ask=lambda address, **_: known, ask_settings=ask_settings, wall=clock.wall
    )
    role.journal = TRANSACTIONS
    return CheckpointService(role, standby_config(), clock=clock, wall=clock.wall, forecast=forecast)


def test_no_image_is_made_with_other_settings_than_those_of_the_active_namenode(role: FakeRole, clock: Clock) -> None:
    silent = TransferError("http://nn", "no answer")
    service = service_of(role, clock, "active", [settings(ordered="true"), silent, silent, settings()])
    result = service.poll()
    assert result.state is TriggerState.FAILED
    assert f"{ORDERED} is true on that NameNode, but false on this node" in result.message
    # the NameNode does not answer, so its last known settings count
    clock.now += 3600
    service.poll()
    assert role.merges == 0
    clock.now += 3600
    service.poll()
    assert role.merges == 0
    clock.now += 3600
    service.poll()
    assert role.merges == 1


def test_settings_that_a_namenode_refuses_to_show_prevent_no_checkpoint(
    role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    refused = TransferError("http://nn", "the request was refused", status=403)
    service = service_of(role, clock, "active", itertools.chain([settings(ordered="true")], itertools.repeat(refused)))
    assert service.poll().state is TriggerState.FAILED
    clock.now += 3600
    assert service.poll().state is TriggerState.DONE
    assert "cannot be compared" in caplog.text


def test_settings_of_a_standby_prevent_no_checkpoint(role: FakeRole, clock: Clock) -> None:
    service = service_of(role, clock, "standby", itertools.repeat(settings(ordered="true")))
    assert (service.poll().state, role.merges) == (TriggerState.DONE, 1)


def test_former_active_that_does_not_answer_is_not_asked_after_a_failover() -> None:
    """The edits are now those of the new active NameNode, so the settings of the former active NameNode do not
    matter.
    """
    states = {"http://a": "active", "http://b": "standby"}
    asked: list[str] = []

    def ask(address: str, **_: object) -> ImageAcceptance:
        if address not in states:
            raise TransferError(address, "no answer")
        return ImageAcceptance(version="3.5.0", state=states[address], last_at=None, last_txid=None)

    def ask_settings(address: str, **_: object) -> NamenodeSettings:
        asked.append(address)
        return settings(ordered="true" if address == "http://a" else "false")

    forecast = UploadForecast(standby_config(), ask=ask, ask_settings=ask_settings)
    forecast.update(["http://a", "http://b"], lambda: False)
    assert forecast.settings_fault(lambda: False).startswith("http://a replays edits with different settings")
    del states["http://a"]
    forecast.update(["http://a", "http://b"], lambda: False)
    # no NameNode is known to be active now
    assert forecast.settings_fault(lambda: False).startswith("http://a replays edits with different settings")
    states["http://b"] = "active"
    forecast.update(["http://a", "http://b"], lambda: False)
    assert forecast.settings_fault(lambda: False) == ""
    assert asked == ["http://a", "http://a", "http://b"]


def test_stop_while_the_settings_are_read_is_no_failure(role: FakeRole, clock: Clock) -> None:
    cancelled = TransferCancelledError("http://nn", "the request was cancelled")
    service = service_of(role, clock, "active", itertools.repeat(cancelled))
    assert service.poll().state is TriggerState.UNAVAILABLE
    assert role.merges == 0
