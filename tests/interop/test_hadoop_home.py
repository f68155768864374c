"""Fetching Hadoop's jars: what is damaged or missing is noticed, and said in one sentence."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.interop.hadoop_home import SERVER, HadoopRelease, MissingHadoopError, java_program, required

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}


@pytest.fixture
def release(tmp_path: Path) -> HadoopRelease:
    """A release of two small jars that are not there yet."""
    jars = tuple((name, hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items())
    home = tmp_path / "cache" / "hadoop"
    return replace(SERVER, home=home, jar_folder=home / "jars", jars=jars)


def archive(folder: Path, content: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    path = folder / "source.tar.gz"
    with tarfile.open(path, "w:gz") as out:
        for name, data in content.items():
            member = tarfile.TarInfo(f"source/deps/jars/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def test_only_the_wanted_jars_are_unpacked(release: HadoopRelease) -> None:
    assert not release.jars_are_whole()
    release.unpack(archive(release.home, {**CONTENT, "other.jar": b"x"}))
    assert {path.name: path.read_bytes() for path in (release.home / "jars").iterdir()} == CONTENT
    assert release.jars_are_whole()
    (release.home / "jars" / "a-1.jar").write_bytes(b"firsT")
    assert not release.jars_are_whole()


def test_jars_that_an_older_list_did_not_have_are_missed(release: HadoopRelease) -> None:
    release.unpack(archive(release.home, CONTENT))
    grown = replace(release, jars=(*release.jars, ("c-3.jar", hashlib.sha256(b"third").hexdigest())))
    assert not grown.jars_are_whole()


def test_another_jar_of_the_name_is_refused(release: HadoopRelease) -> None:
    with pytest.raises(MissingHadoopError, match="are not the ones"):
        release.unpack(archive(release.home, {**CONTENT, "a-1.jar": b"other"}))


def test_a_failed_download_gives_the_reason_and_leaves_nothing(
    release: HadoopRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(release.home))
    with pytest.raises(MissingHadoopError, match=r"pip could not download .* \(ERROR: No matching distribution"):
        release.fetch_jars()
    assert list(release.home.iterdir()) == []


def test_a_missing_jdk_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingHadoopError, match=r"javac of a JDK .* is not installed"):
        java_program("javac")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, False), ({"CI": "true"}, True), ({"HDFS_CHECKPOINTER_REQUIRE_INTEROP": "1"}, True)],
)
def test_ci_requires_hadoop(variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "HDFS_CHECKPOINTER_REQUIRE_INTEROP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert required() == expected
