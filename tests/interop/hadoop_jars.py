"""Sources of Hadoop's jars: Maven's packages, the archive of an old PySpark, or the installed PySpark.

The jars are stored in the user's cache. Each jar is compared with its SHA-256 before it is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_HERE = Path(__file__).resolve().parent
_NAMED = 3
"""Number of damaged jars that a message names."""
SETUP = "run `make interop-setup`"


class MissingHadoopError(Exception):
    """The lack of a usable Hadoop; the message gives the reason and the package to install in one sentence."""


class JarSource(Protocol):
    @property
    def size(self) -> str:
        """Size of the download, for the message to the user."""

    def fetch(self, names: Sequence[str], folder: Path, *, again: bool) -> None:
        """Put the requested jars that the source provides into `folder`, without checking their content.

        Args:
            folder: existing folder, on the same file system as its siblings.
            again: whether an earlier call fetched wrong jars, so that this call must not use the files of that call.

        Raises:
            MissingHadoopError: nothing can be fetched.
        """


@dataclass(frozen=True)
class JarSet:
    """The jars of one class path, in its order.

    Attributes:
        title: the product, as in "Hadoop 3.5.0".
        folder: folder of the jars.
        digests: file names and SHA-256.
        source: None if an installed package contains the jars.
    """

    title: str
    folder: Path
    digests: tuple[tuple[str, str], ...]
    source: JarSource | None

    def wrong(self) -> list[str]:
        """Return the names of the jars that are missing or have different content."""
        return [name for name, digest in self.digests if _sha256(self.folder / name) != digest]

    def ensure(self) -> bool:
        """Fetch missing and damaged jars, twice if the first download is damaged; return whether any jar was fetched.

        Raises:
            MissingHadoopError: a jar cannot be fetched, or has a wrong digest.
        """
        wrong = self.wrong()
        if not wrong:
            return False
        if self.source is None:
            raise MissingHadoopError(f"{_listed(wrong)} in {self.folder} are missing or damaged: run `make setup`")
        if len(wrong) < len(self.digests):
            print(f"interop: fetching {_listed(wrong)} of {self.title} again: missing or damaged", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        for again in (False, True):
            with tempfile.TemporaryDirectory(prefix="fetch-", dir=self.folder.parent) as work:
                self.source.fetch(wrong, Path(work), again=again)
                for name in wrong:
                    if (fetched := Path(work) / name).exists():
                        fetched.replace(self.folder / name)
            wrong = self.wrong()
            if not wrong:
                return True
            print(f"interop: {_listed(wrong)} of {self.title} was damaged or missing after the download", flush=True)
        raise MissingHadoopError(
            f"{_listed(wrong)} of {self.title} was damaged or missing after the download, twice; {SETUP} again"
        )

    def path(self) -> str:
        """Return the jars as a class path."""
        return os.pathsep.join(str(self.folder / name) for name, _ in self.digests)


def listed_jars(name: str) -> tuple[tuple[str, str], ...]:
    """Return names and digests from a list next to this module, in its order."""
    lines = (_HERE / f"{name}.sha256").read_text().splitlines()
    return tuple((name, digest) for digest, name in (line.split() for line in lines))


@dataclass(frozen=True)
class Maven:
    """Maven packages, with their dependencies.

    Attributes:
        packages: `group:name:version`.
    """

    packages: tuple[str, ...]
    size: str

    def fetch(self, names: Sequence[str], folder: Path, *, again: bool) -> None:
        """Fetch as `JarSource` describes; with `again`, ignore Maven's folder."""
        program = shutil.which("mvn")
        if program is None:
            raise MissingHadoopError(
                f"Maven, which fetches {self.packages[0]}, is not installed: install the package maven, then {SETUP}"
            )
        with tempfile.TemporaryDirectory(prefix="maven-", dir=folder.parent) as work:
            pom = Path(work) / "pom.xml"
            pom.write_text(_pom(self.packages), encoding="utf-8")
            command = [program, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={work}/jars"]
            if again:
                command.append(f"-Dmaven.repo.local={work}/repository")
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode:
                reported = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("[ERROR]")]
                reason = reported[0].removeprefix("[ERROR] ") if reported else "no reason given"
                raise MissingHadoopError(f"Maven could not fetch {self.packages[0]} ({reason}); {SETUP} again")
            for name in names:
                if (jar := Path(work) / "jars" / name).exists():
                    jar.replace(folder / name)


@dataclass(frozen=True)
class PipArchive:
    """A source archive from pip's index that contains the jars.

    Attributes:
        requirements: pip's file that names the archive and its hash.
    """

    requirements: Path
    size: str

    def fetch(self, names: Sequence[str], folder: Path, *, again: bool) -> None:
        """Fetch as `JarSource` describes; pip compares the archive's hash.

        A replacement of setuptools prevents pip from running the archive's setup.py, which pip would do only to read
        the name and version.
        """
        with tempfile.TemporaryDirectory(prefix="download-", dir=folder.parent) as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--no-cache-dir", "--require-hashes", "--no-deps", "--no-binary", ":all:"]
            command += ["--no-build-isolation", "--use-pep517", "-r", str(self.requirements), "-d", work]
            environment = {**os.environ, "PYTHONPATH": str(_HERE / "metadata_only"), "TMPDIR": work}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise MissingHadoopError(
                    f"pip could not download the archive with Hadoop's jars ({reason}); {SETUP} again"
                )
            (archive,) = Path(work).glob("*.tar.gz")
            unpack(archive, names, folder)


def unpack(archive: Path, names: Sequence[str], folder: Path) -> None:
    """Put the files with these names, from any folder in `archive`, into `folder`."""
    wanted = set(names)
    with tarfile.open(archive) as content:
        for member in content:
            name = Path(member.name).name
            if name in wanted and member.isfile():
                stream = content.extractfile(member)
                assert stream is not None
                with (folder / name).open("wb") as out:
                    shutil.copyfileobj(stream, out)


def pyspark_jars() -> Path:
    """Return the folder of the installed PySpark's jars."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "jars"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _pom(packages: Sequence[str]) -> str:
    parts = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in (package.split(":") for package in packages)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tests</groupId><artifactId>interop</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{parts}</dependencies></project>\n"
    )


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
