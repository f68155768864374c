"""Datagrams of `Notifier`, read from a real socket."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.sd_notify import Notifier, watchdog_interval


class Listener:
    """The socket of systemd, which receives the datagrams."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(10)

    def receive(self) -> dict[str, str]:
        lines = self.socket.recv(65536).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(params=["path", "abstract"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Listener, str]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"\0checkpointer-{uuid.uuid4()}"
    listener = Listener(name)
    yield listener, name.replace("\0", "@")
    listener.socket.close()


def test_notification_of_each_service_state(system: tuple[Listener, str]) -> None:
    listener, address = system
    notifier = Notifier(address, monotonic_usec=lambda: 1234)
    assert notifier.enabled
    sent = [
        (notifier.ready("serving"), {"READY": "1", "STATUS": "serving"}),
        (notifier.reloading(), {"RELOADING": "1", "MONOTONIC_USEC": "1234"}),
        (notifier.ready(), {"READY": "1"}),
        (notifier.status("image 42,\nup to date"), {"STATUS": "image 42, up to date"}),
        (notifier.watchdog(), {"WATCHDOG": "1"}),
        (notifier.stopping("told to"), {"STOPPING": "1", "STATUS": "told to"}),
    ]
    for reported, expected in sent:
        assert reported
        assert listener.receive() == expected


def test_reload_reports_the_monotonic_clock(tmp_path: Path) -> None:
    listener = Listener(str(tmp_path / "notify"))
    Notifier(str(tmp_path / "notify")).reloading("again")
    assert int(listener.receive()["MONOTONIC_USEC"]) > 0
    listener.socket.close()


def test_notifier_is_disabled_without_systemd() -> None:
    notifier = Notifier("")
    assert not notifier.enabled
    assert not notifier.ready()


@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:1234", "relative", "/" + "x" * 200])
def test_missing_listener_is_logged_but_not_an_error(address: str, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(address)
    with caplog.at_level(logging.DEBUG):
        assert not notifier.ready()
        assert not notifier.watchdog()
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
    assert address in caplog.text


def test_notifications_resume_when_the_listener_returns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(str(tmp_path / "notify"))
    assert not notifier.watchdog()
    listener = Listener(str(tmp_path / "notify"))
    assert notifier.watchdog()
    listener.socket.close()
    assert not notifier.watchdog()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


@given(st.text(max_size=200))
def test_status_of_any_text_is_one_line(text: str) -> None:
    name = f"\0checkpointer-{uuid.uuid4()}"
    listener = Listener(name)
    try:
        assert Notifier(name.replace("\0", "@", 1)).status(text.encode("utf-8", "replace").decode())
        assert list(listener.receive()) == ["STATUS"]
    finally:
        listener.socket.close()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_watchdog_interval_from_the_environment(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(environment, os.getpid()) == seconds
