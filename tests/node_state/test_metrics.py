from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hadoop_common.throttle import Throttle
from hadoop_common.transfer_counter import TransferCounter
from node_state.metrics import MetricsSnapshot, metrics_blueprint
from node_state.state import CheckpointRecord, JournalNodeState, NodeState, RoleDetails, TargetState
from servlets.application import create_application

STATE = NodeState(
    role="standby",
    image_txid=100,
    journal_txid=130,
    transactions_behind=30,
    alarms=("the disk is full",),
    storage={"/data/1": "in use", "/data/2": "No space left on device"},
    checkpoint_at=4000.0,
    seconds_since_checkpoint=1000.0,
    failures_in_row=2,
    targets=(
        TargetState(address="nn1:9870", txid=100, result="SUCCESS", at=4990.0),
        TargetState(address="nn2:9870", failures=2, primary=False),
    ),
    record=CheckpointRecord(
        phase="save",
        checkpoints=3,
        failures=1,
        saved_at=4000.0,
        image_bytes=12345,
        last_seconds={"load": 1.0, "replay": 2.0, "save": 3.0, "upload": 0.5},
        latency_seconds=6.5,
        uploads=4,
        upload_failures=2,
        last_error_at=3000.0,
    ),
    details=RoleDetails(tailing_lag_seconds=7.5, tailing_lag_transactions=11),
)


def scrape(snapshot: MetricsSnapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    client = create_application(metrics_blueprint(lambda: snapshot)).test_client()
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name.removeprefix("hdfs_checkpointer_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def snapshot(state: NodeState = STATE) -> MetricsSnapshot:
    counter = TransferCounter()
    counter.add_sent(70)
    counter.add_received(9)
    return MetricsSnapshot(state=state, now=5000.0, version="1.2.3", started_at=900.0, counter=counter)


def test_every_value_of_the_status_is_exported():
    values = scrape(snapshot())
    assert values["info", (("role", "standby"), ("version", "1.2.3"))] == 1
    expected = {
        "up": 1,
        "ready": 1,
        "start_time_seconds": 900,
        "checkpoint_age_seconds": 1000,
        "last_checkpoint_timestamp_seconds": 4000,
        "checkpoint_txid": 100,
        "journal_txid": 130,
        "transactions_since_checkpoint": 30,
        "image_size_bytes": 12345,
        "checkpoints_total": 3,
        "last_checkpoint_latency_seconds": 6.5,
        "checkpoint_failures_total": 1,
        "uploads_total": 4,
        "upload_failures_total": 2,
        "alarms": 1,
        "consecutive_failures": 2,
        "last_error_timestamp_seconds": 3000,
        "tailing_lag_seconds": 7.5,
        "tailing_lag_transactions": 11,
    }
    assert {name: values[name, ()] for name in expected} == expected
    for phase, seconds in (STATE.record.last_seconds or {}).items():
        assert values["last_checkpoint_duration_seconds", (("phase", phase),)] == seconds
    assert values["transfer_bytes_total", (("direction", "sent"),)] == 70
    assert values["transfer_bytes_total", (("direction", "received"),)] == 9
    assert values["phase", (("phase", "save"),)] == 1
    assert values["phase", (("phase", "idle"),)] == 0
    assert values["storage_directory_up", (("directory", "/data/2"),)] == 0


def test_metrics_of_each_target():
    values = scrape(snapshot())
    first, second = (("target", "nn1:9870"),), (("target", "nn2:9870"),)
    assert values["upload_result", (("result", "SUCCESS"), *first)] == 1
    assert values["upload_result", (("result", "failed"), *first)] == 0
    assert values["upload_result", (("result", "never"), *second)] == 1
    assert values["upload_age_seconds", first] == 10
    assert ("upload_age_seconds", second) not in values
    assert values["upload_txid", first] == 100
    assert ("upload_txid", second) not in values
    assert values["upload_consecutive_failures", second] == 2
    assert values["upload_primary", first] == 1
    assert values["upload_primary", second] == 0


def test_metrics_of_each_journal_node():
    nodes = (
        JournalNodeState(address="jn1:8485", answers=True, lag_transactions=0),
        JournalNodeState(address="jn2:8485", answers=False, lag_transactions=7),
        JournalNodeState(address="jn3:8485"),
    )
    details = RoleDetails(source_txid=130, applied_txid=128, active_txid=-1, journal_nodes=nodes)
    values = scrape(snapshot(replace(STATE, details=details)))
    assert (values["source_txid", ()], values["applied_txid", ()]) == (130, 128)
    assert ("active_txid", ()) not in values
    first, second, third = ((("node", node.address),) for node in nodes)
    assert (values["journal_node_up", first], values["journal_node_up", second]) == (1, 0)
    assert values["journal_node_lag_transactions", second] == 7
    assert ("journal_node_up", third) not in values


def test_checkpoint_txid_is_absent_without_an_image():
    values = scrape(snapshot(replace(STATE, image_txid=-1, record=CheckpointRecord())))
    assert ("checkpoint_txid", ()) not in values


def test_unknown_value_has_a_help_text_but_no_sample():
    answer = create_application(
        metrics_blueprint(lambda: snapshot(NodeState(role="backup", ready=False)))
    ).test_client()
    text = answer.get("/metrics").text
    assert "# HELP hdfs_checkpointer_checkpoint_txid " in text
    assert "\nhdfs_checkpointer_checkpoint_txid " not in text
    assert "\nhdfs_checkpointer_ready 0.0" in text


def test_metrics_of_an_unreadable_status():
    values = scrape(snapshot(NodeState(role="standby", error="away", ready=False)))
    assert ("journal_txid", ()) not in values
    assert values["ready", ()] == 0


def test_metric_names_follow_the_conventions():
    text = create_application(metrics_blueprint(snapshot)).test_client().get("/metrics").text
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("hdfs_checkpointer")
        assert family.documentation.endswith(".")
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)


def test_labels_accept_any_text():
    odd = 'a"b\\c\nd'
    values = scrape(snapshot(NodeState(role="r", targets=(TargetState(address=odd, result="strange"),) * 2)))
    assert values["upload_result", (("result", "strange"), ("target", odd))] == 1


def test_openmetrics_format_on_request():
    client = create_application(metrics_blueprint(snapshot)).test_client()
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_snapshot_is_taken_once_per_scrape():
    taken = []

    def take() -> MetricsSnapshot:
        taken.append(1)
        return snapshot()

    client = create_application(metrics_blueprint(take)).test_client()
    assert taken == [], "not when the daemon is put together"
    client.get("/metrics")
    assert taken == [1]


def test_two_daemons_in_one_process_have_separate_metrics():
    first = create_application(metrics_blueprint(snapshot)).test_client()
    second = create_application(metrics_blueprint(lambda: snapshot(replace(STATE, image_txid=7)))).test_client()
    assert "checkpoint_txid 100.0" in first.get("/metrics").text
    assert "checkpoint_txid 7.0" in second.get("/metrics").text


def test_transfer_counter_is_thread_safe():
    counter = TransferCounter()
    throttle = Throttle(0, count=counter.add_sent)
    threads = [threading.Thread(target=lambda: [throttle.acquire(3) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counter.sent, counter.received) == (12_000, 0)


@pytest.mark.parametrize("rate", [0, 1000])
def test_throttle_counts_bytes_with_and_without_a_limit(rate):
    counter = TransferCounter()
    Throttle(rate, clock=lambda: 0.0, count=counter.add_received).acquire(100, lambda: True)
    assert counter.received == 100
