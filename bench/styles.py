"""Names of files, directories, users and groups in a generated namespace."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.kernels.names import DATE, DECIMAL, HASHED, LISTED

TOPS = (
    "apps", "archive", "data", "hbase", "landing", "projects",
    "scratch", "spark-history", "staging", "system", "user", "warehouse",
)  # fmt: skip
"""Directories of the root, in Hadoop's name order."""
_ACCOUNTS = ("hdfs", "hive", "hbase", "spark", "yarn", "etl", "kafka-connect", "oozie", "impala", "airflow")
_FIRST = ("ana", "ben", "chris", "dora", "emil", "fay", "gita", "hugo", "ines", "jun", "kofi", "lena", "mio", "nora")
_LAST = ("adler", "brown", "costa", "dubois", "eriksen", "fischer", "garcia", "haddad", "ito", "jansen", "kim", "lopez")
USERS = (*_ACCOUNTS, *(f"{first}.{last}" for last in _LAST for first in _FIRST))
GROUPS = ("supergroup", "hadoop", "analysts", "research", *(f"team-{number:02d}" for number in range(60)))


@dataclass(frozen=True)
class Style:
    """Names of one kind: prefix, digits, suffix; the name of the first file may have another pattern."""

    kind: int
    digits: int
    before: str
    behind: str = ""
    uuid: bool = False
    marker: str = ""


_DIRECTORIES = (
    Style(DATE, 0, "dt="),
    Style(DATE, 0, "event_date="),
    Style(DECIMAL, 2, "hour="),
    Style(DECIMAL, 4, "application_1700000000000_"),
    Style(DECIMAL, 3, "team"),
    Style(DECIMAL, 4, "customer_orders_enriched_daily_v", ".db"),
    Style(HASHED, 32, ""),
    Style(DECIMAL, 5, "bucket="),
    Style(DECIMAL, 3, "größe-"),
)
_FILES = (
    Style(DECIMAL, 5, "part-m-", marker="_SUCCESS"),
    Style(DECIMAL, 5, "part-r-", marker="_SUCCESS"),
    Style(DECIMAL, 5, "part-", "-c000.snappy.parquet", uuid=True, marker="_SUCCESS"),
    Style(HASHED, 32, ""),
    Style(DECIMAL, 6, "", "_0"),
    Style(DECIMAL, 13, "clickstream_events.partition.7.offset.", ".avro.deflate"),
    Style(DECIMAL, 4, "worker", ".rack-12.example.com_8041"),
    Style(HASHED, 24, "attempt-output-of-a-reducer-with-a-long-name.", ".orc"),
    Style(DECIMAL, 4, "データ-", ".csv.gz"),
)
# the last style is rarely chosen, so it is repeated
_SHORT_FILES = (Style(DECIMAL, 5, "f"),) * 2


@dataclass
class Pool:
    """Concatenated strings for kernels; string 0 is empty."""

    texts: list[bytes] = field(default_factory=lambda: [b""])

    def add(self, *texts: str) -> int:
        """Append strings; return the number of the first."""
        first = len(self.texts)
        self.texts += [text.encode() for text in texts]
        return first

    def arrays(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return all bytes, and the start of each string."""
        bounds = np.zeros(len(self.texts) + 1, np.int64)
        np.cumsum([len(text) for text in self.texts], out=bounds[1:])
        return np.frombuffer(b"".join(self.texts), np.uint8).copy(), bounds


def build_styles(pool: Pool, *, short_names: bool) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return (rows of `TreeArrays.styles`, number for directories, number for files)."""
    files = _SHORT_FILES if short_names else _FILES
    rows = [[LISTED, 0, pool.add(*TOPS), 0, 0, 0]]
    for style in (*_DIRECTORIES, *files):
        marker = pool.add(style.marker) if style.marker else 0
        before, behind = pool.add(style.before), pool.add(style.behind)
        rows.append([style.kind, style.digits, before, behind, int(style.uuid), marker])
    return np.array(rows, np.int64), 1 + len(_DIRECTORIES), len(files)
