"""An archive of the classes of Hadoop's servers and clients, which halves the time their JVMs need to start.

Java calls this class data sharing: `-Xshare:dump` of the classes that a cluster loaded once.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.clients import ClientJvm
from tests.interop.cluster import BackupNode, JournalNode, NameNode, SecondaryNameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import HadoopRelease, java_program
from tests.interop.hadoop_process import HadoopDiedError, has_modules

_FOR_EVERY_JVM = "JAVA_TOOL_OPTIONS"


def make(release: HadoopRelease) -> None:
    """Make the archive if it is missing. Only print a failure, because the tests also run without an archive."""
    archive = release.class_archive()
    java = java_program("java")
    if archive.exists() or not has_modules(java):
        return
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="archive-", dir=release.home) as work:
        folder = Path(work)
        try:
            with _class_lists(folder):
                _use_everything(folder, release)
        except (HadoopDiedError, AssertionError) as error:
            print(f"interop: no archive of classes: {error}")
            return
        names = {line: None for path in sorted(folder.glob("*.classes")) for line in _names(path)}
        (folder / "all").write_text("\n".join(names) + "\n")
        fresh = folder / "fresh"
        command = [str(java), "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={folder / 'all'}"]
        command += [f"-XX:SharedArchiveFile={fresh}", "-cp", release.jars.path()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"interop: no archive of classes: {(done.stdout + done.stderr)[-500:]}")
            return
        fresh.replace(archive)
    print(f"interop: {len(names)} classes archived in {time.monotonic() - started:.1f} s")


@contextmanager
def _class_lists(folder: Path) -> Iterator[None]:
    """Make every JVM that starts in the context write a list of its classes to `folder`."""
    before = os.environ.get(_FOR_EVERY_JVM)
    os.environ[_FOR_EVERY_JVM] = f"-XX:DumpLoadedClassList={folder}/%p.classes"
    try:
        yield
    finally:
        del os.environ[_FOR_EVERY_JVM]
        if before is not None:
            os.environ[_FOR_EVERY_JVM] = before


def _use_everything(folder: Path, release: HadoopRelease) -> None:
    """Run each server and each tool briefly."""
    conf = HadoopConf(folder / "cluster", release=release)
    with ClientJvm(folder, release) as jvm:
        client = jvm.of(conf)
        with JournalNode(conf), NameNode(conf):
            client.load(50)
            client.namespace()
            for words in (("-ls", "-R", "/"), ("-touchz", "/x"), ("-chmod", "700", "/x"), ("-rm", "-skipTrash", "/x")):
                client.shell(*words).checked()
            client.admin("-rollEdits").checked()
            with BackupNode(conf):
                SecondaryNameNode(conf).checkpoint()


def _names(path: Path) -> list[str]:
    """Return the lines of a list, without comments and without classes outside the class path."""
    return [line for line in path.read_text().splitlines() if not line.startswith("#") and "source:" not in line]
