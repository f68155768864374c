from __future__ import annotations

import pytest

from hadoop_common.errors import HdfsError
from servlets.application import create_application
from servlets.status import ProbeResult, TriggerResult, TriggerState, status_blueprint


class Daemon:
    """Callbacks whose results a test can set."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, bool]] = []
        self.cancelled: list[tuple[str, float]] = []
        self.result: TriggerResult | Exception = TriggerResult(TriggerState.DONE, "saved txid 9", {"txid": 9})
        self.is_ready = ProbeResult(ok=True, message="in sync to txid 9", details={"txid": 9})

    def trigger(self, *, force: bool, wait: bool) -> TriggerResult:
        self.calls.append((force, wait))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def cancel(self, reason: str, *, prevent_for: float) -> None:
        self.cancelled.append((reason, prevent_for))

    def client(self):
        blueprint = status_blueprint(
            status=lambda: {"role": "secondary", "txid": 9},
            checkpoint=self.trigger,
            cancel=self.cancel,
            save_aside=lambda: self.result,
            live=lambda: ProbeResult(ok=True, message="running"),
            ready=lambda: self.is_ready,
        )
        return create_application(blueprint).test_client()


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def test_status_as_json(daemon):
    answer = daemon.client().get("/status")
    assert answer.status_code == 200
    assert answer.json == {"role": "secondary", "txid": 9}


@pytest.mark.parametrize(
    ("query", "call"), [("", (False, True)), ("?force=true", (True, True)), ("?force=0&wait=No", (False, False))]
)
def test_flags_of_a_checkpoint_request(daemon, query, call):
    answer = daemon.client().post("/checkpoint" + query)
    assert answer.status_code == 200
    assert answer.json == {"state": "done", "message": "saved txid 9", "txid": 9}
    assert daemon.calls == [call]


@pytest.mark.parametrize("query", ["?force", "?force=maybe", "?wait=%00"])
def test_malformed_flags_are_refused(daemon, query):
    answer = daemon.client().post("/checkpoint" + query)
    assert answer.status_code == 400
    assert "expected true or false" in answer.json["message"]
    assert daemon.calls == []


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (TriggerState.DONE, 200),
        (TriggerState.SKIPPED, 200),
        (TriggerState.STARTED, 202),
        (TriggerState.BUSY, 409),
        (TriggerState.FAILED, 500),
        (TriggerState.UNAVAILABLE, 503),
    ],
)
def test_every_outcome_has_its_http_status(daemon, state, status):
    daemon.result = TriggerResult(state, "a sentence")
    answer = daemon.client().post("/checkpoint")
    assert answer.status_code == status
    assert answer.json == {"state": state.value, "message": "a sentence"}


def test_outcomes_use_the_expected_http_statuses():
    assert {state.status.value for state in TriggerState} == {200, 202, 409, 500, 503}


def test_a_typed_error_is_reported_with_its_hint(daemon):
    daemon.result = HdfsError("the image is cut", hint="Fetch it again.")
    answer = daemon.client().post("/checkpoint")
    assert answer.status_code == 500
    assert answer.json == {"state": "failed", "message": "the image is cut", "hint": "Fetch it again."}


def test_an_unexpected_error_is_only_logged(daemon, caplog):
    daemon.result = RuntimeError("secret detail")
    answer = daemon.client().post("/checkpoint")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


def test_liveness_and_readiness_probes(daemon):
    client = daemon.client()
    assert client.get("/health/live").status_code == 200
    assert client.get("/health/ready").json == {"state": "ok", "message": "in sync to txid 9", "txid": 9}
    daemon.is_ready = ProbeResult(ok=False, message="no checkpoint for 3 periods")
    answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json["message"] == "no checkpoint for 3 periods"


def test_a_checkpoint_needs_post(daemon):
    answer = daemon.client().get("/checkpoint")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
    assert daemon.calls == []


def test_unknown_path_is_one_sentence(daemon):
    answer = daemon.client().get("/nothing")
    assert answer.status_code == 404
    assert answer.content_type.startswith("text/plain")
    assert answer.text.count("\n") == 1


@pytest.mark.parametrize(
    ("query", "call"),
    [
        ("", ("an operator cancelled it", 120.0)),
        ("?reason=network+maintenance&minutes=30", ("network maintenance", 1800.0)),
        ("?minutes=0", ("an operator cancelled it", 0.0)),
        ("?minutes=0.5&reason=" + "x" * 1000, ("x" * 200, 30.0)),
        ("?reason=two%0Alines%20%20apart", ("two lines apart", 120.0)),
    ],
)
def test_cancel_with_reason_and_duration(daemon, query, call):
    answer = daemon.client().post("/cancel" + query)
    assert (answer.status_code, answer.json["state"]) == (200, "done")
    assert (answer.json["reason"], answer.json["seconds"]) == call
    assert (call[0] in answer.json["message"]) == (call[1] > 0)
    assert daemon.cancelled == [call]


@pytest.mark.parametrize("minutes", ["", "soon", "-1", "nan", "inf", "1441", "1_0x"])
def test_cancel_refuses_invalid_durations(daemon, minutes):
    answer = daemon.client().post("/cancel", query_string={"minutes": minutes})
    assert answer.status_code == 400
    assert "minutes" in answer.json["message"]
    assert daemon.cancelled == []


def test_cancel_requires_post(daemon):
    assert daemon.client().get("/cancel").status_code == 405
    assert daemon.cancelled == []
