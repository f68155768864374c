"""Images in the lake: retention, kills, and two processes that append at the same time."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from hadoop_common.names import FETCHED_VERSION_SUFFIX
from hadoop_common.storage_info import StorageInfo, format_version
from pipeline.errors import LakeError, SourceFileError
from pipeline.lake import (
    ImageOptions,
    append_edits,
    append_image,
    find_lake_image,
    images_in_lake,
    lake_contents,
    parse_lake_uri,
    read_lake_images,
    retain_images,
    vacuum,
)
from pipeline.lake.delta import LakeTable
from pipeline.lake.growth import _lengths, _summed
from pipeline.lake.inputs import LakeImage
from pipeline.lake.lake import image_table, images_table, namespace_of
from pipeline.lake.set_back import check_image
from pipeline.lake.upkeep import remove_orphans
from pipeline.reports.inputs import open_image
from tests.cli_runner import run_cli
from tests.pipeline.lake_support import CASE, MIDNIGHT, KilledError, image_rows, lake_rows, segment, state

if TYPE_CHECKING:
    pass

NAMESPACE = 1579654704
INODES = ImageOptions(tables=("inodes",))


def test_the_configured_number_of_images_is_retained(no_spark: Any, tmp_path: Path, lake: str) -> None:
    images = tmp_path / "images"
    images.mkdir()
    sources = [CASE / "before" / "fsimage_0000000000000000092", CASE / "after" / "fsimage_0000000000000000292"]
    for number, source in enumerate(sources):
        shutil.copy(source, images)
        os.utime(images / source.name, (1000 + number, 1000 + number))
        done = append_image(no_spark, str(images), f"file://{lake}", ImageOptions(cluster="c", tables=("snapshots",)))
        assert done is not None
        assert done.txid == (92, 292)[number]
    before = state(lake)
    assert append_image(no_spark, str(images / sources[0].name), lake) is None
    assert state(lake) == before
    counts = [len(image_rows(name)) for name in ("before", "after")]
    assert [(each.rows, each.time.timestamp()) for each in lake_contents(lake).images] == [
        (counts[0], 1000),
        (counts[1], 1001),
    ]
    at = {"": 292, "@92": 92, f"@{datetime.fromtimestamp(1000.5, UTC).isoformat()}": 92, "@c": 292, "@c@92": 92}
    for suffix, txid in at.items():
        uri = parse_lake_uri(lake + suffix)
        assert uri is not None
        assert find_lake_image(uri).txid == txid, suffix
    with pytest.raises(SourceFileError, match="no image 7"):
        find_lake_image(parse_lake_uri(f"{lake}@7"))  # type: ignore[arg-type]
    assert retain_images(lake, 1, "c") == [92]
    assert retain_images(lake, 1, "c") == []
    assert [image.txid for image in images_in_lake(lake)] == [292]
    assert vacuum(lake, 0) > 0
    for table in ("inodes", "snapshots"):
        assert lake_rows(lake, 292, table) == image_rows("after", table)
        assert lake_rows(lake, 92, table) == []
    assert not list((Path(lake) / "inodes").glob("*/txid=92/*"))
    with pytest.raises(SourceFileError, match="fsimage"):
        append_image(no_spark, lake, lake)
    os.utime(images / sources[0].name, (1002, 1002))
    with pytest.raises(LakeError, match=r"newer than image 292 .* was set back") as refused:
        append_image(no_spark, str(images / sources[0].name), lake)
    assert f"set the original time: `touch -d TIME {images / sources[0].name}`" in refused.value.hint
    with pytest.raises(LakeError, match="or one of the two times is wrong") as refused:
        append_image(no_spark, str(images / sources[0].name), lake, ImageOptions(time=1_002_000))
    assert "touch" not in refused.value.hint
    remote = LakeImage(92, "hdfs://nn/fsimage_92", 1_002_000, "c")
    with pytest.raises(LakeError) as refused:
        check_image(remote, images_in_lake(lake), is_time_of_file=True)
    assert "append a local copy that has the original time (`touch -d TIME COPY`)" in refused.value.hint


def test_a_killed_retention_leaves_no_image_without_files(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "after"):
        append_image(no_spark, str(CASE / name), lake, ImageOptions(cluster="c", tables=()))
    real = LakeTable.replace

    def replace_rows(self: LakeTable, *arguments: Any) -> None:
        if self.name != "images":
            raise KilledError
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "replace", replace_rows)
    with pytest.raises(KilledError):
        retain_images(lake, 1, "c")
    monkeypatch.setattr(LakeTable, "replace", real)
    assert [image.txid for image in images_in_lake(lake)] == [292]
    remove_orphans(lake)
    assert len(lake_rows(lake, 92)) > 0
    remove_orphans(lake, 0)
    assert lake_rows(lake, 92) == []
    assert lake_rows(lake, 292) == image_rows("after")


def test_retention_repeats_after_a_replacement_by_another_process(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "after"):
        for cluster in ("a", "b"):
            append_image(no_spark, str(CASE / name), lake, ImageOptions(cluster=cluster, tables=()))
    real, others = LakeTable.replace, [True]

    def replace(self: LakeTable, *arguments: Any) -> None:
        if self.name == "inodes" and others and others.pop():
            others.append(False)
            assert retain_images(lake, 1, "b") == [92]
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "replace", replace)
    assert retain_images(lake, 1, "a") == [92]
    assert [(image.cluster, image.txid) for image in lake_contents(lake).images] == [("a", 292), ("b", 292)]
    assert lake_rows(lake, 92) == []


def test_growth_of_impossible_lengths_saturates() -> None:
    lengths = _lengths(pa.chunked_array([[1 << 62, (1 << 63) - 2, -1, None, 5]]))
    assert lengths.to_pylist() == [0, 0, 0, 0, 5]
    rows = pa.table({"owner": ["a"] * 2, "files": [1, 1], "directories": [0, 0], "bytes": [1 << 62] * 2})
    assert _summed(rows, ["owner"]).to_pylist() == [
        {"owner": "a", "files": 2, "directories": 0, "bytes": (1 << 63) - 1}
    ]


def test_an_append_of_an_image_killed_at_any_step_is_repeated(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, left = str(CASE / "before"), [-1]
    real = LakeTable.commit

    def commit(self: LakeTable, *arguments: Any) -> None:
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "commit", commit)
    options = ImageOptions(tables=("snapshots",))
    for step in range(3):  # snapshots, inodes, images
        root = f"{lake}{step}"
        left[0] = step
        with pytest.raises(KilledError):
            append_image(no_spark, image, root, options)
        assert images_in_lake(root) == []
        left[0] = -1
        done = append_image(no_spark, image, root, options)
        assert done is not None
        assert image_table(root, "inodes").read(["id"]).num_rows == done.rows
        assert append_image(no_spark, image, root, options) is None


def test_two_processes_append_the_same_image_once(no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image, real = str(CASE / "before"), LakeTable.commit
    options = ImageOptions(tables=())
    outcomes = []

    def commit(self: LakeTable, *arguments: Any) -> None:
        monkeypatch.setattr(LakeTable, "commit", real)
        outcomes.append(append_image(no_spark, image, lake, options))
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "commit", commit)
    assert append_image(no_spark, image, lake, options) is None
    (other,) = outcomes
    assert other is not None
    assert image_table(lake, "inodes").read(["id"]).num_rows == other.rows
    assert images_table(lake).read(["txid"]).num_rows == 1


def test_a_past_state_is_appended_from_an_archive(
    no_spark: Any, tmp_path: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cli.lake_append_command.context_for", lambda *_, **__: nullcontext(no_spark))
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, _storage_directory(tmp_path))
    past = ("--archive", tmp_path / "archive", "--table", "inodes")
    for txid in ("292", "100"):
        done = run_cli("lake", "append", *past, "--as-of", txid, lake)
        assert done.code == 0, done
    assert [image.txid for image in images_in_lake(lake)] == [100, 292]
    assert images_in_lake(lake)[0].time < images_in_lake(lake)[1].time
    assert [row["path"] for row in lake_rows(lake, 292)] == [row["path"] for row in image_rows("after")]
    reported = run_cli("lake", "append", "--archive", tmp_path / "archive", lake)
    assert (reported.code, "--as-of" in reported.err) == (2, True)


def test_a_repeated_run_appends_no_edits_to_another_cluster(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cli.lake_append_command.context_for", lambda *_, **__: nullcontext(no_spark))
    for lines in (
        ["image 292 of default appended", "transactions 93 .. 292 appended"],
        ["no new image", "no new transactions"],
    ):
        done = run_cli(
            "lake", "append", "--image", CASE / "after", "--edits", CASE / "before", "--table", "inodes", lake
        )
        assert (done.code, done.out.splitlines()) == (0, lines)


def test_an_image_without_a_version_file_joins_the_only_cluster_of_the_edits(no_spark: Any, lake: str) -> None:
    append_edits(no_spark, str(CASE / "before"), lake, "c")
    done = append_image(no_spark, str(CASE / "after"), lake, INODES)
    assert done is not None
    assert done.cluster == "c"


def test_an_image_of_another_namespace_does_not_join_the_only_cluster(no_spark: Any, tmp_path: Path, lake: str) -> None:
    append_edits(no_spark, str(segment(tmp_path, 1, MIDNIGHT)), lake, "other.7000000")
    with pytest.raises(LakeError, match=rf"namespace {NAMESPACE}, but the cluster other\.7000000 .* namespace 7000000"):
        append_image(no_spark, str(CASE / "after"), lake, INODES)
    assert not images_in_lake(lake)
    done = append_image(no_spark, str(CASE / "after"), lake, ImageOptions("other", ("inodes",)))
    assert done is not None


def test_edits_of_another_namespace_are_refused(no_spark: Any, lake: str) -> None:
    with pytest.raises(LakeError, match=rf"namespace {NAMESPACE}, but the cluster other\.7000000 .* namespace 7000000"):
        append_edits(no_spark, str(CASE / "before"), lake, "other.7000000")
    assert lake_contents(lake).edits == {}


def test_a_chosen_name_with_a_number_contains_no_namespace_id(no_spark: Any, lake: str) -> None:
    for name in ("prod.2", "CID-prod.2026", "prod.20261201", "prod.202612", "CID-x.123456789.20261201", "x.2147483648"):
        assert namespace_of(name) == ""
    assert [namespace_of(name) for name in ("CID-x.2147483647", "x.20261301")] == ["2147483647", "20261301"]
    for name in ("prod.2", "prod.20261201"):
        done = append_image(no_spark, str(CASE / "after"), lake, ImageOptions(name, ("inodes",)))
        assert done is not None
        assert done.cluster == name


@pytest.mark.parametrize("table", ["blocks", "nodes"])
def test_a_table_that_no_image_has_is_not_empty_but_an_error(no_spark: Any, lake: str, table: str) -> None:
    append_image(no_spark, str(CASE / "after"), lake, INODES)
    with pytest.raises(LakeError, match=f"has the table {table}, but only inodes"):
        read_lake_images(no_spark, lake, table)


def test_a_fetched_image_belongs_to_the_cluster_of_its_version_file(no_spark: Any, tmp_path: Path, lake: str) -> None:
    first, second = (_fetched(tmp_path / cluster, cluster) for cluster in ("cluster1", "CID-2"))
    for image, root, cluster in ((first, lake, f"cluster1.{NAMESPACE}"), (second, lake, f"CID-2.{NAMESPACE}")):
        done = append_image(no_spark, str(image), root, INODES)
        assert done is not None
        assert done.cluster == cluster
    assert open_image(no_spark, str(first)).cluster == "cluster1"
    for chosen in ("default", "prod"):
        append_image(no_spark, str(CASE / "before"), str(tmp_path / chosen), ImageOptions(chosen, ("inodes",)))
        done = append_image(no_spark, str(first), str(tmp_path / chosen), INODES)
        assert done is not None
        assert done.cluster == chosen


def _fetched(folder: Path, cluster: str) -> Path:
    """Make a folder of `fetch-image` with one image."""
    folder.mkdir()
    image = Path(shutil.copy(CASE / "after" / "fsimage_0000000000000000292", folder))
    version = format_version(StorageInfo(-67, NAMESPACE, 1, cluster, "BP-1"), datetime.fromtimestamp(1, UTC))
    image.with_name(image.name + FETCHED_VERSION_SUFFIX).write_bytes(version)
    return folder


def _storage_directory(tmp_path: Path) -> Path:
    shutil.copytree(CASE / "before", tmp_path / "nn" / "current")
    return tmp_path / "nn"
