"""Damaged or missing jars of Hadoop are detected, named in one sentence and fetched again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.interop.hadoop_home import HADOOP_RELEASES, NEWEST, release_of, skip_without
from tests.interop.hadoop_jars import JarSet, MissingHadoopError
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


def test_only_a_damaged_jar_is_fetched_again(jars: JarSet, capsys: pytest.CaptureFixture[str]) -> None:
    jars.ensure()
    (jars.folder / "a-1.jar").write_bytes(b"firsT")
    assert jars.ensure()
    assert isinstance(jars.source, Source)
    assert jars.source.calls[1:] == [("a-1.jar",)]
    assert "fetching a-1.jar of Hadoop 1 again: missing or damaged" in capsys.readouterr().out
    assert jars.wrong() == []


def test_jars_damaged_after_two_downloads_are_refused(jars: JarSet) -> None:
    grown = replace(jars, digests=(*jars.digests, ("c-3.jar", hashlib.sha256(b"third").hexdigest())))
    with pytest.raises(
        MissingHadoopError, match=r"^c-3.jar of Hadoop 1 was damaged or missing after the download, twice"
    ):
        grown.ensure()


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
