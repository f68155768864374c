"""Every recorded transaction of Hadoop, rewritten by us: Hadoop's own viewer prints the same output as for the
recording.
"""

from __future__ import annotations

import gzip
from contextlib import closing
from pathlib import Path

import pytest

from hadoop_common.storage_info import StorageInfo
from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.file_journal import FileJournal
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_file import list_segments, read_ops
from journal.segment_format import encode_header
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.hadoop_home import SERVER
from tests.recorded_cases import Case, all_cases

pytestmark = [pytest.mark.interop, pytest.mark.recorded]

CASES = [case for case in all_cases() if case.path.parent.name == SERVER.recorded]
# This release reads SET_NS_QUOTA and CLEAR_NS_QUOTA but no longer writes them.
REWRITABLE = [case for case in CASES if case.path.name not in ("obsolete-ops", "upgrade-obsolete-ops")]
LAYOUT = SERVER.layout
INFO = StorageInfo(LAYOUT, 42, 0, "CID-test", "BP-1-127.0.0.1-1")
HEAD, TAIL = "  <RECORD>", "</EDITS>"

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.name)


def segments_of(case: Case) -> list[list[EditOp]]:
    return [list(read_ops(segment)) for segment in list_segments(case.path / "before")]


def records(text: str) -> list[str]:
    """Return the lines of the operations in a viewer's XML."""
    body = text[text.index(HEAD) : text.rindex(TAIL)] if HEAD in text else ""
    return body.splitlines()


def recorded(case: Case) -> list[str]:
    return records(gzip.decompress((case.path / "edits.xml.gz").read_bytes()).decode(errors="surrogateescape"))


def check_readable(case: Case) -> None:
    """Skip a recording whose edits name a storage type that these servers do not support (NVDIMM, since -67)."""
    if LAYOUT == -66 and any("<STORAGETYPE>5</STORAGETYPE>" in line for line in recorded(case)):
        pytest.skip("the edits contain a quota for NVDIMM storage")


def viewed(hadoop: Hadoop, paths: list[Path]) -> list[str]:
    return [line for path in paths for line in records(hadoop.view_edits(path).decode(errors="surrogateescape"))]


@every_case
def test_hadoop_prints_the_segments_of_our_writer(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    check_readable(case)
    segments = segments_of(case)
    journal = FileJournal(tmp_path / "name" / "current")
    journal.format(INFO)
    journal.recover(INFO)
    with closing(journal), EditLogWriter(journal, LAYOUT, segments[0][0].txid) as writer:
        for number, ops in enumerate(segments):
            if number:
                writer.roll()
            for op in ops:
                if not isinstance(op, StartLogSegmentOp | EndLogSegmentOp):
                    writer.write(op)
    assert viewed(hadoop, [segment.path for segment in list_segments(journal.folder)]) == recorded(case)


@pytest.mark.parametrize("case", REWRITABLE, ids=lambda case: case.path.name)
def test_hadoop_decodes_and_reencodes_our_bytes_identically(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    check_readable(case)
    for number, ops in enumerate(segments_of(case)):
        path = tmp_path / f"edits-{number}"
        path.write_bytes(encode_header(LAYOUT) + b"".join(encode_op(op, LAYOUT) for op in ops))
        assert hadoop.view_edits(path, "binary") == path.read_bytes()


def test_a_damaged_segment_is_refused(hadoop: Hadoop, tmp_path: Path) -> None:
    """Hadoop's viewer can serve as the oracle, because it refuses a damaged segment."""
    (ops,) = segments_of(next(case for case in CASES if case.path.name == "renames"))
    content = bytearray(encode_header(LAYOUT) + b"".join(encode_op(op, LAYOUT) for op in ops))
    content[-1] ^= 0xFF
    path = tmp_path / "edits"
    path.write_bytes(content)
    with pytest.raises(HadoopRefusedError):
        hadoop.view_edits(path)
