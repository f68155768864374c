"""The promise that a JournalNode reports in /jmx."""

from __future__ import annotations

import pytest

from journal_node.peer_metrics import _epoch


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"beans": [{"LastPromisedEpoch": 3}]}', 3),
        (b'{"beans": [{"LastPromisedEpoch": 0}]}', 0),
        # from a Hadoop node whose journal was formatted a moment ago
        (b'{"beans": [{"LastPromisedEpoch": -1}]}', None),
        (b'{"beans": [{"LastPromisedEpoch": "3"}]}', None),
        (b'{"beans": [{}]}', None),
        (b'{"beans": []}', None),
        (b'{"beans": 5}', None),
        (b"[]", None),
        (b"<html>", None),
    ],
)
def test_only_valid_promised_epochs_are_read(content: bytes, epoch: int | None) -> None:
    assert _epoch(content) == epoch
