"""`python -m tests.interop [VERSION ...]`: install a JDK, Maven and the jars of releases for the interop tests.

Without versions, the command installs the releases of the quick tier.
"""

from __future__ import annotations

import shutil
import sys

from tests.apt import apt_command, apt_install
from tests.interop import class_archive
from tests.interop.hadoop_home import CLIENT, SET_UP, HadoopRelease, java_program, release_of
from tests.interop.hadoop_jars import Maven, MissingHadoopError
from tests.required import required

_JDK = ("openjdk-17-jdk-headless", "default-jdk-headless")


def main(*versions: str) -> int:
    """Return 1 if a required part is missing and cannot be installed, else 0."""
    code = 0
    for release in (*(map(release_of, versions) if versions else SET_UP), CLIENT):
        try:
            _set_up(release)
            print(f"interop: ready, {release.jars.title} in {release.home}")
        except MissingHadoopError as error:
            print(f"interop: {error}", file=sys.stderr)
            if required(release.name):
                code = 1
            else:
                print(f"interop: the tests against {release.jars.title} will be skipped", file=sys.stderr)
    return code


def _set_up(release: HadoopRelease) -> None:
    """Install, fetch and compile the missing parts.

    Raises:
        MissingHadoopError: a part cannot be fetched or compiled.
    """
    _ensure("javac", *_JDK)
    source = release.jars.source
    if source is not None and release.jars.wrong():
        if isinstance(source, Maven):
            _ensure("mvn", "maven")
        print(f"interop: downloading {release.jars.title} ({source.size}, once) to {release.home}", flush=True)
        release.jars.ensure()
        for outdated in release.home.glob("*.jsa"):
            outdated.unlink()
    release.compile_tools()
    if source is not None:
        class_archive.make(release)


def _ensure(program: str, *packages: str) -> None:
    """Install a missing program with apt, if apt exists and needs no input."""
    apt = None if shutil.which(program) else apt_command()
    if apt is not None:
        print(f"interop: no {program} here, installing {packages[0]} with apt", flush=True)
        apt_install(apt, *packages)
    if program == "javac":
        java_program(program)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
