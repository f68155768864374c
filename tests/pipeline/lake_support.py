"""Support for tests of the lake: segments of known days, and the rows as a reader of Delta sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from journal import ops
from journal.operation import EditOp
from pipeline.sources.fsimage import FsImageDataSource
from tests.engine.op_makers import mkdir
from tests.journal.journal_support import numbered
from tests.pipeline.edits_support import write_segment
from tests.pipeline.lake_child import InProcess
from tests.recorded_cases import RECORDED

if TYPE_CHECKING:
    pass

DAY = 86_400_000
MIDNIGHT = 19_700 * DAY  # 2023-12-09
CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"
NO_SPARK: Any = InProcess()


def image_rows(folder: str, table: str = "inodes") -> list[dict[str, Any]]:
    source = FsImageDataSource({"path": str(CASE / folder), "table": table})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def lake_rows(lake: str, txid: int, table: str = "inodes") -> list[dict[str, Any]]:
    """Return rows as a reader of Delta sees them, without the columns of the partition."""
    rows = DeltaTable(f"{lake}/{table}").to_pyarrow_table(filters=[("txid", "=", txid)]).to_pylist()
    return [{name: value for name, value in row.items() if name not in ("cluster", "txid")} for row in rows]


class KilledError(BaseException):
    """A simulated SIGKILL: only the work of other processes continues after it."""


def segment(folder: Path, first: int, *times: int) -> Path:
    made: list[EditOp] = [ops.StartLogSegmentOp()]
    made += [mkdir(f"/d{first + index}", 1, time) for index, time in enumerate(times, 1)]
    return write_segment(folder, numbered([*made, ops.EndLogSegmentOp()], first))


def state(lake: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path(lake).rglob("*") if path.is_file()}


def days(lake: str, cluster: str = "default") -> dict[str, list[int]]:
    """Return txids by day, as a reader of Delta sees them."""
    found: dict[str, list[int]] = {}
    for row in DeltaTable(f"{lake}/edits").to_pyarrow_table().to_pylist():
        if row["cluster"] == cluster:
            found.setdefault(str(row["day"]), []).append(row["txid"])
    return {day: sorted(txids) for day, txids in found.items()}
