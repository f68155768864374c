"""Log lines of a checkpoint."""

from __future__ import annotations

import json

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.transfer.upload_target import Upload
from hadoop_common.errors import StorageError
from hadoop_common.json_log import JsonFormatter
from servlets.status import TriggerState
from tests.checkpointer.service_support import TRANSACTIONS, FakeRole


def test_log_lines_have_fields_for_collectors(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = TRANSACTIONS
    role.uploads = [
        Upload("http://nn1:9870", "SUCCESS", "", 2.5, 4096, TRANSACTIONS),
        Upload("http://nn2:9870", "failed", "it was interrupted", 0.5, 100, TRANSACTIONS),
    ]
    assert service.poll().state is TriggerState.DONE
    role.fault = StorageError("no disk")
    role.journal += TRANSACTIONS
    assert service.poll().state is TriggerState.FAILED
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    saved = next(line for line in lines if line["message"].startswith("checkpoint at txid"))
    assert (saved["txid"], saved["phase"], saved["reason"], saved["seconds"]) == (TRANSACTIONS, "save", "txns", 6.0)
    assert {"bytes", "transactions", "inodes"} <= saved.keys()
    taken, failed = (line for line in lines if line["message"].startswith("upload to"))
    assert (taken["target"], taken["result"], taken["seconds"], taken["bytes"], taken["phase"]) == (
        "http://nn1:9870",
        "SUCCESS",
        2.5,
        4096,
        "upload",
    )
    assert (failed["level"], failed["target"], failed["txid"]) == ("ERROR", "http://nn2:9870", TRANSACTIONS)
    broken = next(line for line in lines if line["message"].startswith("checkpoint failed"))
    assert broken["exitCode"] == 6
