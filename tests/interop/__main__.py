"""`python -m tests.interop`: set up what the interop tests need, a JDK and Hadoop's jars."""

from __future__ import annotations

import sys

from tests.apt import apt_command, apt_install
from tests.interop import class_archive
from tests.interop.hadoop_home import RELEASES, SERVER, MissingHadoopError, java_program, required

_JDK = ("openjdk-17-jdk-headless", "default-jdk-headless")


def main() -> int:
    """Exit 1 where something is missing that cannot be had and the tests are required, else 0."""
    try:
        _ensure_jdk()
        for release in RELEASES:
            if not release.jars_are_whole():
                if release.archive is not None:
                    size = f"{release.archive[1]} MB, once"
                    print(f"interop: downloading Hadoop {release.version} ({size}) to {release.home}", flush=True)
                release.fetch_jars()
            release.compile_tools()
        class_archive.make(SERVER)
    except MissingHadoopError as error:
        print(f"interop: {error}", file=sys.stderr)
        if required():
            return 1
        print("interop: the tests against a real Hadoop will be skipped", file=sys.stderr)
        return 0
    for release in RELEASES:
        print(f"interop: ready, Hadoop {release.version} in {release.home}")
    return 0


def _ensure_jdk() -> None:
    """Install a JDK with apt where there is none, this is allowed without a question and apt exists."""
    try:
        java_program("javac")
        return
    except MissingHadoopError:
        apt = apt_command()
        if apt is None:
            raise
    print(f"interop: no JDK here, installing {_JDK[0]} with apt", flush=True)
    apt_install(apt, *_JDK)
    java_program("javac")


if __name__ == "__main__":
    sys.exit(main())
