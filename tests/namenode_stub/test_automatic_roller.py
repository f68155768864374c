"""The edit log is rolled when a segment is large or old."""

from __future__ import annotations

from pathlib import Path

from namenode_stub.node import NameNodeStub
from tests.namenode_stub.stub_support import formatted, wait_until


def test_the_log_is_rolled_automatically(tmp_path: Path) -> None:
    with NameNodeStub(formatted(tmp_path, roll_transactions=3, roll_period=0.2)) as stub:
        for number in range(5):
            stub.namespace.mkdirs(f"/{number}")
        wait_until("a roll", lambda: stub.namespace.transactions.log.segment_first_txid > 1)
