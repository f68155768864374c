"""Hadoop's releases for tests: jars, features, and our compiled programs that use the jars.

`SERVER` is the release whose servers this run of the tests starts: the release that CHECKPOINTER_TEST_HADOOP names,
else 3.5.0. `make interop RELEASE=3.4.2` sets it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.interop.hadoop_jars import (
    SETUP,
    JarSet,
    JarSource,
    Maven,
    MissingHadoopError,
    PipArchive,
    listed_jars,
    pyspark_jars,
)
from tests.required import skip

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
_JAVA = _HERE / "java"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hdfs-checkpointer-tests"
_VARIABLE = "CHECKPOINTER_TEST_HADOOP"


def skip_without(release: HadoopRelease) -> None:
    """If the release cannot be run, skip the test; if the release is required, fail the test."""
    try:
        release.class_path()
    except MissingHadoopError as error:
        skip(release.name, str(error))


def java_program(name: str) -> Path:
    """Return `java` or `javac` of JAVA_HOME, else of the search path.

    Raises:
        MissingHadoopError: the program is missing.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise MissingHadoopError(
            f"{name} of a JDK (Java 8 to 21) is not installed: "
            f"install the package openjdk-17-jdk-headless, then {SETUP}"
        )
    return Path(found)


@functools.cache
def java_version(java: Path) -> str:
    """Return the output of `java -version`, without JAVA_TOOL_OPTIONS, which Java would repeat."""
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run([str(java), "-version"], env=environment, capture_output=True, text=True, check=False)
    return done.stderr


@dataclass(frozen=True)
class HadoopRelease:
    """A release: its jars, our programs for the release, and the differences of its servers from other releases.

    Attributes:
        name: name of its folder in the cache and in CHECKPOINTER_TEST_REQUIRES, such as `hadoop-3.5.0`.
        jars: the class path.
        sources: files below tests/interop/java.
        layout: layout version of the images and edits that its servers write.
        recorded: the folder in tests/recorded whose cases its servers read.
    """

    version: str
    name: str
    jars: JarSet
    sources: tuple[str, ...]
    layout: int
    recorded: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as a tuple of numbers, for comparisons."""
        return tuple(map(int, self.version.split(".")))

    @property
    def is_3(self) -> bool:
        """Whether the release belongs to Hadoop 3."""
        return self.numbers >= (3,)

    @property
    def refuses_young_images(self) -> bool:
        """Whether a NameNode answers 409 to an image that arrives before 3/4 of the NameNode's period (HDFS-12979)."""
        return self.numbers >= (3, 3)

    @property
    def observers_refuse_controllers(self) -> bool:
        """Whether an observer refuses requests of failover controllers (HDFS-14961)."""
        return self.numbers >= (3, 3)

    @property
    def journal_keeps_layout(self) -> bool:
        """Whether a JournalNode writes the namespace's layout into VERSION; Hadoop 3.3 writes the JournalNode's
        layout.
        """
        return not (3,) < self.numbers < (3, 4)

    @property
    def journal_tells_namespace(self) -> bool:
        """Whether a JournalNode answers other JournalNodes that ask for its storage info."""
        return self.numbers >= (3, 5)

    @property
    def registers_at_stub(self) -> bool:
        """Whether its BackupNode registers at our stub, which announces the builds of Hadoop 2.7.3 and 3.4.1."""
        return not self.is_3

    @property
    def has_data_nodes(self) -> bool:
        """Whether its jars are sufficient for a DataNode; the jars of Hadoop 2.7.3, from pip, do not contain Netty."""
        return self.is_3

    @property
    def home(self) -> Path:
        """The folder with jars, compiled classes and the archive of classes."""
        return CACHE / self.name

    def compile_tools(self) -> Path:
        """Return the folder with our compiled programs; the first call compiles them.

        Raises:
            MissingHadoopError: the jars or the compiler are missing, or the compiler refuses a source.
        """
        if wrong := self.jars.wrong():
            raise MissingHadoopError(f"{wrong[0]} of {self.jars.title} is missing or damaged; {SETUP}{self._choice()}")
        self.home.mkdir(parents=True, exist_ok=True)
        sources = [_JAVA / name for name in self.sources]
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
        classes = self.home / f"classes-{digest[:16]}"
        if not classes.is_dir():
            with tempfile.TemporaryDirectory(prefix="compile-", dir=self.home) as work:
                fresh = Path(work) / "classes"
                command = [str(java_program("javac")), "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(fresh)]
                command += ["-cp", self.jars.path(), *map(str, sources)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise MissingHadoopError(f"javac refuses {', '.join(self.sources)}: {done.stderr}")
                _move(fresh, classes)
        return classes

    def class_path(self, *folders: Path) -> str:
        """Return the class path; it includes log4j.properties, unless one of `folders` contains this file.

        The jars are first, so that an archive of their classes serves every folder.

        Raises:
            MissingHadoopError: see `compile_tools`.
        """
        return os.pathsep.join([self.jars.path(), *map(str, folders), str(self._tools()), str(_JAVA)])

    def class_archive(self) -> Path:
        """Return the path of the archive of loaded classes; see `class_archive.py`.

        Raises:
            MissingHadoopError: there is no Java.
        """
        digest = hashlib.sha256("\n".join([java_version(java_program("java")), self.jars.path()]).encode())
        return self.home / f"{digest.hexdigest()[:16]}.jsa"

    @functools.lru_cache(maxsize=8)  # noqa: B019 - a release is a constant
    def _tools(self) -> Path:
        return self.compile_tools()

    def _choice(self) -> str:
        return "" if self in (*SET_UP, CLIENT) else f" RELEASE={self.version}"


def _move(fresh: Path, target: Path) -> None:
    """Rename a folder, unless another process did so before."""
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():
            raise


_CLIENT_SOURCES = ("HadoopClient.java", "NamespaceWalk.java", "NamespaceLoad.java")
_SERVER_SOURCES = (
    "HadoopTools.java",
    "HadoopMerge.java",
    "RandomAttributes.java",
    "RandomNames.java",
    "RandomRecorder.java",
    "RandomWork.java",
    "SimulatedDataNode.java",
    "SimulatedWriter.java",
    *_CLIENT_SOURCES,
)


def _servers(version: str, source: JarSource, layout: int, recorded: str, *shims: str) -> HadoopRelease:
    """Return servers, tools and client of a release."""
    name = f"hadoop-{version}"
    jars = JarSet(f"Hadoop {version}", CACHE / name / "jars", listed_jars(f"jars-{version}"), source)
    return HadoopRelease(version, name, jars, (*_SERVER_SOURCES, *shims), layout, recorded)


def _by_maven(version: str, layout: int) -> HadoopRelease:
    packages = tuple(
        f"org.apache.hadoop:{name}:{version}" for name in ("hadoop-hdfs", "hadoop-common", "hadoop-hdfs-client")
    )
    return _servers(version, Maven(packages, "65 MB"), layout, "hadoop-3.4.1", "generation3/Shims.java")


HADOOP_RELEASES = {
    each.version: each
    for each in (
        _servers(
            "2.7.3",
            PipArchive(_ROOT / "requirements" / "hadoop.txt", "220 MB"),
            -63,
            "hadoop-2.7.3",
            "generation2/Shims.java",
            "MediaTypes.java",
        ),
        _by_maven("3.3.6", -66),
        _by_maven("3.4.2", -67),
        _by_maven("3.5.0", -67),
    )
}
"""The releases whose servers tests start, by version, oldest first."""


def release_of(version: str) -> HadoopRelease:
    """Return the release of a version; an unknown version ends the test run with one sentence."""
    if version not in HADOOP_RELEASES:
        raise SystemExit(f"{_VARIABLE}={version}: the tests support {', '.join(HADOOP_RELEASES)}")
    return HADOOP_RELEASES[version]


OLDEST, NEWEST = HADOOP_RELEASES["2.7.3"], HADOOP_RELEASES["3.5.0"]
SERVER = release_of(os.environ.get(_VARIABLE) or NEWEST.version)
"""The release whose servers, tools and client the tests start unless a test names another release."""
CLIENT = HadoopRelease(
    "3.5.0",
    "hadoop-client-3.5.0",
    JarSet("the client of Hadoop 3.5.0", pyspark_jars(), listed_jars("client-jars-3.5.0"), None),
    ("AdminCalls.java", *_CLIENT_SOURCES, "shaded/MediaTypes.java"),
    -67,
    "hadoop-3.4.1",
)
"""The client inside PySpark, without servers."""
SET_UP = (NEWEST, OLDEST)
"""The releases that `make interop-setup` fetches by default."""
