"""Hadoop's jars are fetched; damaged or missing jars are detected, named in one sentence and fetched again."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.interop.hadoop_home import HADOOP_RELEASES, NEWEST, java_program, release_of, skip_without
from tests.interop.hadoop_jars import JarSet, Maven, MissingHadoopError, PipArchive, unpack
from tests.required import VARIABLE

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}


@dataclass(eq=False)
class Source:
    """A source that keeps damaged jars, as Maven does."""

    kept: dict[str, bytes]
    size: str = "2 jars"
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def fetch(self, names: Sequence[str], folder: Path, *, again: bool) -> None:
        self.calls.append(tuple(names))
        for name, content in (CONTENT if again else self.kept).items():
            (folder / name).write_bytes(content)


@pytest.fixture
def jars(tmp_path: Path) -> JarSet:
    """Return two small jars that are not fetched yet."""
    digests = tuple((name, hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items())
    return JarSet("Hadoop 1", tmp_path / "cache" / "jars", digests, Source(CONTENT))


def test_jars_are_fetched_once(jars: JarSet) -> None:
    assert jars.wrong() == list(CONTENT)
    assert jars.ensure()
    assert {path.name: path.read_bytes() for path in jars.folder.iterdir()} == CONTENT
    assert not jars.ensure()


def test_only_a_damaged_jar_is_fetched_again(jars: JarSet, capsys: pytest.CaptureFixture[str]) -> None:
    jars.ensure()
    (jars.folder / "a-1.jar").write_bytes(b"firsT")
    assert jars.ensure()
    assert isinstance(jars.source, Source)
    assert jars.source.calls[1:] == [("a-1.jar",)]
    assert "fetching a-1.jar of Hadoop 1 again: missing or damaged" in capsys.readouterr().out
    assert jars.wrong() == []


def test_jars_from_an_incomplete_download_are_not_reused(jars: JarSet, capsys: pytest.CaptureFixture[str]) -> None:
    source = Source({**CONTENT, "b-2.jar": b"sec"})
    assert replace(jars, source=source).ensure()
    assert source.calls == [("a-1.jar", "b-2.jar"), ("b-2.jar",)]
    assert "b-2.jar of Hadoop 1 was damaged or missing after the download" in capsys.readouterr().out
    assert jars.wrong() == []


def test_jars_damaged_after_two_downloads_are_refused(jars: JarSet) -> None:
    grown = replace(jars, digests=(*jars.digests, ("c-3.jar", hashlib.sha256(b"third").hexdigest())))
    with pytest.raises(
        MissingHadoopError, match=r"^c-3.jar of Hadoop 1 was damaged or missing after the download, twice"
    ):
        grown.ensure()


def test_jars_of_an_installed_package_are_not_fetched(jars: JarSet) -> None:
    with pytest.raises(MissingHadoopError, match=r"a-1.jar, b-2.jar in .* are missing or damaged: run `make setup`"):
        replace(jars, source=None).ensure()


def test_only_the_wanted_jars_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "source.tar.gz"
    with tarfile.open(path, "w:gz") as out:
        for name, data in {**CONTENT, "other.jar": b"x"}.items():
            member = tarfile.TarInfo(f"source/deps/jars/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    (tmp_path / "jars").mkdir()
    unpack(path, list(CONTENT), tmp_path / "jars")
    assert {path.name: path.read_bytes() for path in (tmp_path / "jars").iterdir()} == CONTENT


def test_a_failed_download_reports_the_reason_and_leaves_no_files(
    jars: JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "hadoop.txt").write_text(f"pyspark==2.4.8 --hash=sha256:{'0' * 64}\n")
    source = PipArchive(tmp_path / "hadoop.txt", "220 MB")
    with pytest.raises(MissingHadoopError, match=r"pip could not download .* \(ERROR: No matching distribution"):
        replace(jars, source=source).ensure()
    assert list(jars.folder.parent.rglob("*")) == [jars.folder]


def test_missing_maven_is_reported_in_a_sentence(jars: JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    message = "^Maven, which fetches g:a:1, is not installed: install the package maven, then run `make interop-setup`$"
    with pytest.raises(MissingHadoopError, match=message):
        replace(jars, source=Maven(("g:a:1",), "1 MB")).ensure()


def test_a_missing_jdk_is_reported_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        MissingHadoopError, match=r"^javac of a JDK .* is not installed: install the package openjdk-17"
    ):
        java_program("javac")


def test_tests_without_their_jars_are_skipped_unless_required(jars: JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    release = replace(NEWEST, jars=jars)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^a-1.jar of Hadoop 1 is missing or damaged; run `make interop"):
        skip_without(release)
    monkeypatch.setenv(VARIABLE, "strace hadoop-3.5.0")
    with pytest.raises(pytest.fail.Exception, match=f"{VARIABLE} lists hadoop-3.5.0"):
        skip_without(release)


def test_releases_are_selected_by_version() -> None:
    assert [release_of(version).name for version in HADOOP_RELEASES] == [f"hadoop-{each}" for each in HADOOP_RELEASES]
    with pytest.raises(SystemExit, match=r"the tests support 2\.7\.3, 3\.3\.6, 3\.4\.2, 3\.5\.0$"):
        release_of("3.5.1")
