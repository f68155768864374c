"""Failing merges on Spark: their errors, and the content of the directory afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from engine.errors import CheckpointCancelledError
from engine.observer import SilentObserver
from hadoop_common.errors import HdfsError, StorageError
from image_format.errors import DigestMismatchError, ImageFormatError
from image_format.md5_file import md5_of_file
from journal.errors import CorruptOpError, JournalError
from site_config.engine_settings import SparkSettings
from tests.cli_runner import fingerprint
from tests.pipeline.merge_child import STEPS
from tests.pipeline.merge_support import ON_SPARK, merge_on_spark
from tests.pipeline.mortal_daemon import DEATH
from tests.pipeline.quick_java import quick_java
from tests.recorded_cases import RECORDED, Case
from tests.site_files import write_site

CASE = Case(RECORDED / "hadoop-3.4.1" / "renames")
_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 600.0
pytestmark = [pytest.mark.recorded, pytest.mark.usefixtures("spark")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return CASE.copy_to(tmp_path / "nn").parent


def damaged(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def segment(folder: Path) -> Path:
    return max((folder / "current").glob("edits_*-*"), key=lambda path: path.stat().st_size)


def test_a_damaged_segment_is_reported_in_one_line(folder: Path) -> None:
    path = segment(folder)
    damaged(path, path.stat().st_size // 2)
    before = fingerprint(folder)
    with pytest.raises(JournalError) as caught:
        merge_on_spark(folder)
    assert isinstance(caught.value, CorruptOpError)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert fingerprint(folder) == before


def test_a_damaged_image_is_refused(folder: Path) -> None:
    image = next((folder / "current").glob("fsimage_" + "?" * 19))
    damaged(image, image.stat().st_size // 2)
    before = fingerprint(folder)
    with pytest.raises(ImageFormatError) as caught:
        merge_on_spark(folder)
    assert isinstance(caught.value, DigestMismatchError)
    assert fingerprint(folder) == before


class _Cancelling(SilentObserver):
    """Observer that cancels as soon as a phase begins."""

    def __init__(self, phase: str) -> None:
        self._wanted, self._reached = phase, False

    def phase(self, name: str, total: int | None) -> None:
        self._reached = self._reached or name == self._wanted

    def cancelled(self) -> bool:
        return self._reached


@pytest.mark.parametrize("phase", ["load", "replay", "save"])
@pytest.mark.parameters(1)
def test_a_cancelled_merge_leaves_no_files(folder: Path, phase: str) -> None:
    before = fingerprint(folder)
    with pytest.raises(CheckpointCancelledError):
        merge_on_spark(folder, observer=_Cancelling(phase))
    assert fingerprint(folder) == before


def test_files_of_a_killed_merge_are_removed(folder: Path) -> None:
    parts = folder / "checkpoint-parts"
    parts.mkdir()
    (parts / "old").write_bytes(b"part")
    made = merge_on_spark(folder)
    assert CASE.differences(made.saved.paths[0]) == []
    assert not parts.exists()


def test_an_unwritable_directory_is_a_one_line_error(folder: Path) -> None:
    (folder / "checkpoint-parts").write_text("a file in its place")
    with pytest.raises(HdfsError, match="checkpoint-parts") as caught:
        merge_on_spark(folder)
    assert "\n" not in str(caught.value)


def test_parts_are_sent_through_spark_without_shared_storage(folder: Path, tmp_path: Path) -> None:
    shared = merge_on_spark(CASE.copy_to(tmp_path / "other").parent)
    settings = SparkSettings(partitions=3, shared_storage=False)
    made = merge_on_spark(folder, type(ON_SPARK)(ON_SPARK.choice, spark=settings))
    assert md5_of_file(made.saved.paths[0]) == md5_of_file(shared.saved.paths[0])


def test_an_error_of_a_task_keeps_its_type_and_fields(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pipeline.merge.checkpoint.work_folder", lambda _: nullcontext(tmp_path / "missing"))
    before = fingerprint(folder)
    with pytest.raises(StorageError, match=r"cannot write .*missing") as caught:
        merge_on_spark(folder)
    assert "shared-storage" in caught.value.hint
    assert fingerprint(folder) == before


def environment(scratch: Path, **more: str) -> dict[str, str]:
    scratch.mkdir()
    ours = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "PYTHONPATH": str(_ROOT), **quick_java()}
    return {**os.environ, **ours, **more}


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_a_merge_after_a_killed_driver_is_correct(folder: Path, tmp_path: Path, step: str) -> None:
    before = {path.name for path in (folder / "current").iterdir()}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.merge_child", str(folder), step],
        env=environment(tmp_path / "scratch"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, message = child.communicate(timeout=_SECONDS)
    assert child.returncode == -signal.SIGKILL, message.decode()
    left = {path.name for path in (folder / "current").iterdir()} - before
    assert not [name for name in left if name.startswith("fsimage_") and not name.endswith(".md5")]
    assert (folder / "checkpoint-parts").is_dir()
    made = merge_on_spark(folder)
    (image,) = made.saved.paths
    assert CASE.differences(image) == []
    after = {path.name for path in (folder / "current").iterdir()}
    assert after - before == {image.name, f"{image.name}.md5"}
    assert not (folder / "checkpoint-parts").exists()


@pytest.mark.deep
def test_a_worker_killed_during_a_part_fails_only_one_attempt(folder: Path, tmp_path: Path) -> None:
    values = {"partitions": "3", "conf.spark.python.daemon.module": "tests.pipeline.mortal_daemon"}
    site = write_site(tmp_path / "conf", {f"checkpoint.engine.spark.{key}": text for key, text in values.items()})
    death = tmp_path / "death"
    words = ["merge", str(folder), "--engine", "spark", "--master", "local[2,3]", "--conf", str(site), "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "checkpointer", *words],
        env=environment(tmp_path / "scratch", **{DEATH: str(death)}),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert death.exists()
    assert CASE.differences(Path(json.loads(ended.stdout)["image"])) == []
    assert not (folder / "checkpoint-parts").exists()
