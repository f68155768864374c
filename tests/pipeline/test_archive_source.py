"""Tables and edits of an archive: as of a moment, and errors in one sentence."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from archive.encryption import ArchiveKey
from hadoop_common.errors import HdfsError
from tests.archive.storage import segment, storage
from tests.depth import SEED
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000
FIRST_TIME = 1_700_000_000_000


def archived(folder: Path, count: int, key: Path | None = None) -> tuple[Path, int]:
    """Return an archive of two segments without markers, and its last transaction.

    Transaction `BASE_TXID` + 1 + N makes /dN in hour N.
    """
    nn = storage(folder / "nn")
    ops = [mkdir(f"/d{number}", 16386 + number, FIRST_TIME + number * HOUR) for number in range(count)]
    middle = segment(nn, BASE_TXID, *ops[: count // 2], markers=False)
    last = segment(nn, middle, *ops[count // 2 :], markers=False)
    with open_archive(str(folder / "archive"), key) as archive:
        add_directory(archive, nn)
    return folder / "archive", last


def names(spark: SparkSession, archive: Path, as_of: str, **options: str) -> set[str]:
    reader = spark.read.format("fsimage").options(archive=str(archive), columns="path", **options)
    return {row.path for row in reader.option("as_of", as_of).load().collect()}


def txids(spark: SparkSession, archive: Path, **options: str) -> list[int]:
    reader = spark.read.format("hdfs_edits").options(archive=str(archive), columns="txid", **options)
    return sorted(row.txid for row in reader.load().collect())


def made(count: int) -> set[str]:
    return {"/", *(f"/d{number}" for number in range(count))}


def test_tables_and_edits_as_of_a_moment(spark: SparkSession, tmp_path: Path) -> None:
    root, last = archived(tmp_path, 6)
    assert names(spark, root, str(BASE_TXID + 2)) == made(2)
    assert txids(spark, root, from_txid=str(last - 3)) == list(range(last - 3, last + 1))
    for options, text in (
        ({"archive": str(root), "as_of": "noon"}, "'noon' is not a time"),
        ({"archive": str(root), "as_of": str(last + 1)}, f"cannot restore transaction {last + 1}"),
        ({"archive": str(tmp_path / "nothing")}, "is not an archive"),
        ({"as_of": "5", "path": str(root)}, "as_of without archive"),
        ({"archive": str(root), "path": str(root)}, "both a path and the option archive"),
    ):
        with pytest.raises(HdfsError, match=text) as caught:
            spark.read.format("fsimage").options(**options).load().count()
        assert caught.value.hint
        assert "\n" not in caught.value.message


@pytest.mark.deep
def test_moments_can_be_given_by_transaction_or_time(spark: SparkSession, tmp_path: Path) -> None:
    root, last = archived(tmp_path, 20)
    numbers = random.Random(SEED).sample(range(20), 6)
    for number in numbers:
        at = datetime.fromtimestamp((FIRST_TIME + number * HOUR) / 1000 + 60, UTC).isoformat()
        assert names(spark, root, at) == names(spark, root, str(BASE_TXID + 1 + number)) == made(number + 1)
    newest = spark.read.format("fsimage").options(archive=str(root), table="inodes").load()
    assert newest.count() == 21
    assert txids(spark, root) == list(range(BASE_TXID + 1, last + 1))


@pytest.mark.deep
def test_branches_gaps_and_encryption_keys(spark: SparkSession, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    ArchiveKey.load(key)
    root, last = archived(tmp_path, 6, key)
    # the NameNode was set back into the middle of the second segment
    back = tmp_path / "back"
    nn = storage(back)
    ops = [mkdir(f"/d{number}", 16386 + number, FIRST_TIME + number * HOUR) for number in range(6)]
    middle = segment(nn, BASE_TXID, *ops[:3], markers=False)
    segment(nn, middle, *ops[3:5], mkdir("/other", 17000, FIRST_TIME + 9 * HOUR), markers=False)
    with open_archive(str(root), key) as archive:
        added = add_directory(archive, nn)
    assert added.forked
    options = {"key_file": str(key)}
    with pytest.raises(HdfsError, match="has several histories"):
        names(spark, root, str(last), **options)
    assert names(spark, root, str(last), branch="main", **options) == made(6)
    assert names(spark, root, str(last), branch=added.branch, **options) == made(5) | {"/other"}
    for branch in ("main", added.branch):
        assert txids(spark, root, branch=branch, **options) == list(range(BASE_TXID + 1, last + 1))
    with pytest.raises(HdfsError, match="is encrypted"):
        names(spark, root, str(last), branch="main")
    with pytest.raises(HdfsError, match="has none of the requested transactions"):
        txids(spark, root, branch="main", from_txid=str(last + 1), **options)


SESSION = """
import sys
from pathlib import Path
from pyspark import SparkFiles
from pipeline.session import build_session
with build_session(master="local[1]", small=True, conf={"spark.local.dir": sys.argv[2]}) as spark:
    spark.read.format("fsimage").option("archive", sys.argv[1]).load().count()
    assert list(Path(SparkFiles.getRootDirectory(), "archives").rglob("*fsimage_*"))
"""


@pytest.mark.deep
def test_a_finished_session_leaves_no_files(tmp_path: Path) -> None:
    root, _ = archived(tmp_path, 4)
    local = tmp_path / "local"
    local.mkdir()
    subprocess.run([sys.executable, "-c", SESSION, str(root), str(local)], check=True)
    assert list(local.rglob("*fsimage_*")) == []
