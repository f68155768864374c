"""Hadoop 2.7.3's own jars, and our program over them: fetched and compiled once, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = [
    "HADOOP",
    "MissingHadoopError",
    "class_path",
    "compile_tools",
    "fetch_jars",
    "jars_are_whole",
    "java_program",
    "required",
]

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
_SOURCE = _HERE / "java" / "HadoopTools.java"
_REQUIREMENT = _ROOT / "requirements" / "hadoop.txt"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HADOOP = _CACHE / "hdfs-checkpointer-tests" / "hadoop-2.7.3"
"""Holds `jars` and compiled classes."""
_SETUP = "run `make interop-setup`"


class MissingHadoopError(Exception):
    """Hadoop cannot be run here; the message is one sentence that says why."""


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


def jars_are_whole() -> bool:
    """Whether every jar is there with the content it must have."""
    return all(_sha256(HADOOP / "jars" / name) == digest for name, digest in _wanted().items())


def fetch_jars() -> None:
    """Download the source archive that carries the jars and unpack those that are wanted.

    pip takes it from its configured index and compares its hash; a stand-in for setuptools keeps pip from
    running the archive's setup.py, which it would do only to learn the name and version.

    Raises:
        MissingHadoopError: pip failed, or a jar is not the one it must be.
    """
    HADOOP.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=HADOOP) as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        command += ["--require-hashes", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
        environment = {**os.environ, "PYTHONPATH": str(_HERE / "metadata_only"), "TMPDIR": work}
        done = subprocess.run(
            [*command, "-r", str(_REQUIREMENT), "-d", work],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise MissingHadoopError(
                f"pip could not download the archive with Hadoop's jars ({reason}); {_SETUP} again"
            )
        (archive,) = Path(work).glob("*.tar.gz")
        _unpack(archive, HADOOP / "jars")


def compile_tools() -> Path:
    """Folder with the compiled tests/interop/java, made at the first call for this source.

    Raises:
        MissingHadoopError: the jars or the compiler are missing, or it refuses the source.
    """
    if not jars_are_whole():
        raise MissingHadoopError(f"Hadoop's jars are not in {HADOOP}; {_SETUP}")
    classes = HADOOP / f"classes-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(prefix="compile-", dir=HADOOP) as work:
            fresh = Path(work) / "classes"
            command = [str(java_program("javac")), "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(fresh)]
            done = subprocess.run([*command, "-cp", _jars(), str(_SOURCE)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise MissingHadoopError(f"javac refuses {_SOURCE.name}: {done.stderr}")
            _move(fresh, classes)
    return classes


def class_path() -> str:
    """What `java -cp` needs.

    Raises:
        MissingHadoopError: as `compile_tools`.
    """
    return os.pathsep.join([str(compile_tools()), str(_SOURCE.parent), _jars()])


def _wanted() -> dict[str, str]:
    """Jar to SHA-256 (hexadecimal)."""
    lines = (_HERE / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _jars() -> str:
    return os.pathsep.join(str(HADOOP / "jars" / name) for name in _wanted())


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unpack(archive: Path, target: Path) -> None:
    """Put the wanted jars of `archive` into `target`, each whole or not at all."""
    target.mkdir(exist_ok=True)
    wanted = _wanted()
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
    if not jars_are_whole():
        raise MissingHadoopError(f"the jars in {archive.name} are not the ones that {_HERE.name}/jars.sha256 lists")


def _move(fresh: Path, target: Path) -> None:
    """Rename a folder, unless another process was faster."""
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():
            raise
