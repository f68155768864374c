"""Hadoop's own jars, and our programs over them: fetched and compiled once, kept in the user's cache folder."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
_JAVA = _HERE / "java"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hdfs-checkpointer-tests"
_SETUP = "run `make interop-setup`"


class MissingHadoopError(Exception):
    """Hadoop cannot be run here; the message is one sentence that says why."""


def skip_without(release: HadoopRelease) -> None:
    """Skip the test, or fail it where Hadoop is required, unless `release` can be run."""
    try:
        release.class_path()
    except MissingHadoopError as error:
        if required():
            raise
        pytest.skip(str(error))


def required() -> bool:
    """Whether tests without Hadoop are an error: in CI, or where the caller says so."""
    return bool(os.environ.get("CI")) or os.environ.get("HDFS_CHECKPOINTER_REQUIRE_INTEROP") == "1"


def java_program(name: str) -> Path:
    """`java` or `javac`, of JAVA_HOME or else of the search path.

    Raises:
        MissingHadoopError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise MissingHadoopError(f"{name} of a JDK (Java 8 to 21) is not installed; {_SETUP}")
    return Path(found)


@functools.cache
def java_version(java: Path) -> str:
    """What `java -version` says."""
    return subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr


@dataclass(frozen=True)
class HadoopRelease:
    """One release: the jars it needs (file to SHA-256), where they come from, our programs for it.

    Attributes:
        home: folder with the compiled classes.
        jar_folder: where the jars are.
        archive: pip's requirements file that names the archive with the jars and its hash, and its size in MB;
            None where an installed package has them.
        sources: files below tests/interop/java.
    """

    version: str
    home: Path
    jar_folder: Path
    archive: tuple[Path, int] | None
    jars: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]

    def jars_are_whole(self) -> bool:
        """Whether every jar is there with the content it must have."""
        return all(_sha256(self.jar_folder / name) == digest for name, digest in self.jars)

    def fetch_jars(self) -> None:
        """Download the source archive that carries the jars and unpack those that are wanted.

        pip takes it from its configured index and compares its hash; a stand-in for setuptools keeps pip from
        running the archive's setup.py, which it would do only to learn the name and version.

        Raises:
            MissingHadoopError: pip failed, or a jar is not the one it must be.
        """
        for outdated in self.home.glob("*.jsa"):
            outdated.unlink()
        if self.archive is None:
            raise MissingHadoopError(f"the jars in {self.jar_folder} are not those of Hadoop {self.version}")
        self.home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=self.home) as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--no-cache-dir", "--require-hashes", "--no-deps", "--no-binary", ":all:"]
            command += ["--no-build-isolation", "--use-pep517", "-r", str(self.archive[0]), "-d", work]
            environment = {**os.environ, "PYTHONPATH": str(_HERE / "metadata_only"), "TMPDIR": work}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise MissingHadoopError(
                    f"pip could not download the archive with Hadoop's jars ({reason}); {_SETUP} again"
                )
            (archive,) = Path(work).glob("*.tar.gz")
            self.unpack(archive)

    def unpack(self, archive: Path) -> None:
        """Put the wanted jars of `archive` into the home folder, each whole or not at all.

        Raises:
            MissingHadoopError: one is not there or is not the one it must be.
        """
        target = self.jar_folder
        target.mkdir(exist_ok=True)
        wanted = dict(self.jars)
        with tarfile.open(archive) as content:
            for member in content:
                name = Path(member.name).name
                if name in wanted and member.isfile():
                    stream = content.extractfile(member)
                    assert stream is not None
                    fresh = archive.parent / name
                    with fresh.open("wb") as out:
                        shutil.copyfileobj(stream, out)
                    fresh.replace(target / name)
        if not self.jars_are_whole():
            raise MissingHadoopError(f"the jars in {archive.name} are not the ones listed for Hadoop {self.version}")

    def compile_tools(self) -> Path:
        """Folder with our compiled programs, made at the first call for these sources.

        Raises:
            MissingHadoopError: the jars or the compiler are missing, or it refuses a source.
        """
        if not self.jars_are_whole():
            raise MissingHadoopError(f"Hadoop's jars are not in {self.jar_folder}; {_SETUP}")
        self.home.mkdir(parents=True, exist_ok=True)
        sources = [_JAVA / name for name in self.sources]
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
        classes = self.home / f"classes-{digest[:16]}"
        if not classes.is_dir():
            with tempfile.TemporaryDirectory(prefix="compile-", dir=self.home) as work:
                fresh = Path(work) / "classes"
                command = [str(java_program("javac")), "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(fresh)]
                command += ["-cp", self.jar_path(), *map(str, sources)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise MissingHadoopError(f"javac refuses {', '.join(self.sources)}: {done.stderr}")
                _move(fresh, classes)
        return classes

    def class_path(self, *folders: Path) -> str:
        """What `java -cp` needs; log4j.properties is on it, unless one of `folders` has its own.

        The jars come first, and no file of a folder is in one: so an archive of their classes serves every folder.

        Raises:
            MissingHadoopError: as `compile_tools`.
        """
        return os.pathsep.join([self.jar_path(), *map(str, folders), str(self._tools()), str(_JAVA)])

    def class_archive(self) -> Path:
        """Where the classes lie that a JVM takes as they are instead of loading them; see `class_archive.py`.

        Raises:
            MissingHadoopError: there is no Java.
        """
        digest = hashlib.sha256("\n".join([java_version(java_program("java")), self.jar_path()]).encode())
        return self.home / f"{digest.hexdigest()[:16]}.jsa"

    @functools.lru_cache(maxsize=8)  # noqa: B019 - a release is a constant
    def _tools(self) -> Path:
        return self.compile_tools()

    def jar_path(self) -> str:
        return os.pathsep.join(str(self.jar_folder / name) for name, _ in self.jars)


def _jars(version: str) -> tuple[tuple[str, str], ...]:
    lines = (_HERE / f"jars-{version}.sha256").read_text().splitlines()
    return tuple((name, digest) for digest, name in (line.split() for line in lines))


def _home(version: str) -> Path:
    return _CACHE / f"hadoop-{version}"


def _pyspark_jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "jars"


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _move(fresh: Path, target: Path) -> None:
    """Rename a folder, unless another process was faster."""
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():
            raise


_CLIENT_SOURCES = ("HadoopClient.java", "NamespaceWalk.java", "NamespaceLoad.java")
_RECORDER_SOURCES = (
    "RandomAttributes.java",
    "RandomNames.java",
    "RandomRecorder.java",
    "RandomWork.java",
    "SimulatedDataNode.java",
    "SimulatedWriter.java",
)
SERVER = HadoopRelease(
    "2.7.3",
    _home("2.7.3"),
    _home("2.7.3") / "jars",
    (_ROOT / "requirements" / "hadoop.txt", 220),
    _jars("2.7.3"),
    ("HadoopTools.java", "HadoopMerge.java", *_RECORDER_SOURCES, *_CLIENT_SOURCES, "MediaTypes.java"),
)
"""Servers, tools and client of the release that the product writes images for."""
CLIENT = HadoopRelease(
    "3.5.0",
    _home("3.5.0"),
    _pyspark_jars(),
    None,
    _jars("3.5.0"),
    ("AdminCalls.java", *_CLIENT_SOURCES, "shaded/MediaTypes.java"),
)
"""A client alone, of a much later release: the one inside PySpark."""
RELEASES = (SERVER, CLIENT)
