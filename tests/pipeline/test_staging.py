"""Files on another file system are found, fetched, or refused with one sentence."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hadoop_common.names import image_name, md5_name, segment_name
from pipeline import read_image
from pipeline.errors import PipelineError, PipelineSetupError, SourceFileError
from pipeline.source_files import SourceFile, SourceKind, choose, local_files
from pipeline.staging import ADDRESS, Stager, _socket_folder, files_for_tasks, resolve
from tests.journal.bookkeeper_cluster import Cluster
from tests.journal.bookkeeper_recordings import ROOT
from tests.recorded_cases import RECORDED, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_the_newest_image_of_a_directory_is_chosen() -> None:
    names = ["fsimage_0000000000000000009", "fsimage_0000000000000000010", "fsimage_rollback_0000000000000000011"]
    others = ["fsimage_0000000000000000010.md5", "fsimage.ckpt_0000000000000000012", "VERSION", "seen_txid"]
    assert choose(names + others, SourceKind.IMAGE) == ["fsimage_0000000000000000010"]
    assert choose(others, SourceKind.IMAGE) == []


def test_the_socket_directory_has_a_short_enough_path(tmp_path: Path) -> None:
    long = tmp_path / "long" / ("x" * 100)
    long.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = _socket_folder(str(long), short)
        assert folder.parent == Path(short)
        assert folder.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
    with pytest.raises(PipelineSetupError, match="cannot create a socket"):
        _socket_folder(str(long))


def test_segments_are_ordered_by_txid() -> None:
    names = ["edits_inprogress_0000000000000000021", "edits_0000000000000000011-0000000000000000020", "edits_1-10"]
    assert choose(names, SourceKind.EDITS) == ["edits_1-10", "edits_0000000000000000011-0000000000000000020"]
    assert choose(names, SourceKind.OPEN_EDITS)[-1] == "edits_inprogress_0000000000000000021"


def test_a_storage_directory_stands_for_its_current_directory(tmp_path: Path) -> None:
    image = tmp_path / "current" / image_name(7)
    image.parent.mkdir()
    image.write_bytes(b"")
    (tmp_path / image_name(9)).write_bytes(b"")
    assert [file.on_driver() for file in local_files(str(tmp_path), SourceKind.IMAGE)] == [image]
    assert [file.in_task() for file in local_files(f"file://{tmp_path}", SourceKind.IMAGE)] == [image]


def test_a_question_mark_in_a_uri_is_a_pattern(tmp_path: Path) -> None:
    images = [tmp_path / name / image_name(7) for name in ("nn", "nn1", "nn2")]
    for image in images:
        image.parent.mkdir()
        image.write_bytes(b"")
    assert [file.on_driver() for file in local_files(f"file://{tmp_path}/nn?", SourceKind.IMAGE)] == images[1:]


def test_the_error_names_a_deleted_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, str(tmp_path / "socket"))
    with pytest.raises(PipelineError, match="socket: No such file") as caught:
        resolve("hdfs://nn/image", SourceKind.IMAGE)
    assert caught.value.hint


@pytest.mark.parametrize("uri", ["{}/absent", "{}"])
def test_the_error_for_missing_files_names_the_path(tmp_path: Path, uri: str) -> None:
    where = uri.format(tmp_path)
    with pytest.raises(SourceFileError, match=str(tmp_path)) as caught:
        local_files(where, SourceKind.IMAGE)
    assert caught.value.hint


def storage(case: str, folder: Path) -> tuple[str, Path]:
    """Return the Hadoop URI of a storage directory, and its image on this disk; each test uses another case."""
    original = Case(RECORDED / "hadoop-2.7.3" / case).image("before")
    (folder / "current").mkdir(parents=True)
    image = folder / "current" / original.name
    shutil.copyfile(original, image)
    shutil.copyfile(original.with_name(md5_name(original.name)), image.with_name(md5_name(image.name)))
    return f"viewfs://files{folder}", image


def test_an_image_on_another_file_system_has_the_rows_of_a_local_one(spark: SparkSession, tmp_path: Path) -> None:
    uri, image = storage("basic-files", tmp_path / "nn")
    local = read_image(spark, str(image)).orderBy("id").collect()
    assert read_image(spark, uri).orderBy("id").collect() == local
    assert len(local) > 1


def test_two_files_with_one_name_are_not_confused(spark: SparkSession, tmp_path: Path) -> None:
    uri, image = storage("renames", tmp_path / "nn")
    other = tmp_path / "other"
    other.mkdir()
    shutil.copyfile(image, other / image.name)
    stager = Stager(spark.sparkContext)
    stager.stage(uri, SourceKind.IMAGE)
    with pytest.raises(SourceFileError, match="already read"):
        stager.stage(f"viewfs://files{other}", SourceKind.IMAGE)


def test_all_inputs_of_a_report_share_one_stager(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Stager] = []

    def stage(self: Stager, *_: object) -> list[SourceFile]:
        used.append(self)
        return []

    monkeypatch.setattr(Stager, "stage", stage)
    context: Any = object()
    for folder in ("new", "old"):
        files_for_tasks(context, f"hdfs://nn/{folder}", SourceKind.IMAGE)
    assert used[0] is used[1]


def test_a_replaced_file_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri, image = storage("quotas-storage-policy", tmp_path / "nn")
    stager = Stager(spark.sparkContext)
    assert stager.stage(uri, SourceKind.IMAGE) == stager.stage(uri, SourceKind.IMAGE)
    image.write_bytes(image.read_bytes() + b"x")
    with pytest.raises(SourceFileError, match="has changed"):
        stager.stage(uri, SourceKind.IMAGE)


def test_a_deleted_file_does_not_fail_later_queries(spark: SparkSession, tmp_path: Path) -> None:
    uri, image = storage("symlinks", tmp_path / "nn")
    (sent,) = Stager(spark.sparkContext).stage(uri, SourceKind.IMAGE)
    content = image.read_bytes()
    shutil.rmtree(image.parent)
    task = spark.sparkContext.parallelize([sent], 1).map(lambda file: file.in_task().read_bytes())
    assert task.collect() == [content]


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("viewfs://files{}/absent", "does not exist"),
        ("viewfs://files{}", "no fsimage in"),
        ("nosuch://host/x", "cannot be read"),
    ],
)
def test_a_failed_fetch_is_reported_in_one_sentence(spark: SparkSession, tmp_path: Path, uri: str, text: str) -> None:
    with pytest.raises(SourceFileError, match=text) as caught:
        Stager(spark.sparkContext).stage(uri.format(tmp_path), SourceKind.IMAGE)
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_edits_of_a_bookkeeper_journal_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edits that NameNodes left are read as rows; a second read fetches nothing, and no writer is fenced."""
    with Cluster(tmp_path) as cluster:
        cluster.serve(monkeypatch)
        cluster.load_recorded("7-graceful-failover")
        before = {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()}
        stager = Stager(spark.sparkContext)
        finalized = stager.stage(cluster.uri, SourceKind.EDITS)
        assert [Path(file.path).name for file in finalized] == [
            segment_name(*bounds) for bounds in ((1, 77), (78, 83), (84, 85))
        ]
        local = ROOT / "bkjm-ledgers" / segment_name(1, 77)
        assert Path(finalized[0].path).read_bytes() == local.read_bytes()
        assert len(stager.stage(cluster.uri, SourceKind.OPEN_EDITS)) == 4
        rows = spark.read.format("hdfs_edits").load(cluster.uri)
        assert sorted(row.txid for row in rows.select("txid").collect()) == list(range(1, 86))
        assert {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()} == before
