"""A search for a few kinds of operations finds the same operations as a complete decoding."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from archive import chosen_ops as module
from archive.chosen_ops import chosen_ops
from hadoop_common.names import parse_segment, segment_name
from journal.errors import CorruptOpError
from journal.ops import DeleteOp, RenameOldOp, RenameOp
from journal.segment_file import EditLogSegment, read_ops
from tests.archive.storage import segment
from tests.depth import sample
from tests.engine.op_makers import delete, mkdir
from tests.journal.journal_support import case_id, recorded_segments

KINDS = (RenameOldOp, RenameOp, DeleteOp)


@mock.patch.object(module, "_STEP", 300)
@pytest.mark.parametrize("path", sample(recorded_segments(), 8, "chosen operations"), ids=case_id)
def test_chosen_ops_of_recorded_segments(path: Path) -> None:
    """An operation that is larger than one read is also found."""
    name = parse_segment(path.name)
    assert name is not None
    assert name.last is not None
    recorded = EditLogSegment(name.first, name.last, path)
    for start in (name.first, (name.first + name.last) // 2, name.last):
        expected = [op for op in read_ops(recorded, from_txid=start) if isinstance(op, KINDS)]
        assert list(chosen_ops(recorded, KINDS, start)) == expected


def test_skipped_operations_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    assert segment(tmp_path, 0, mkdir("/d", 16386), delete("/d"), mkdir("/e", 16387), markers=False) == 3
    path = tmp_path / "current" / segment_name(1, 3)
    content = bytearray(path.read_bytes())
    content[content.index(b"/e")] ^= 1
    path.write_bytes(content)
    found = chosen_ops(EditLogSegment(1, 3, path), KINDS, 1)
    assert next(found).txid == 2
    with pytest.raises(CorruptOpError) as caught:
        next(found)
    assert caught.value.txid == 3
