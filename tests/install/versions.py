"""Two versions of the program in a test's folder, run with the libraries of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.install.host import REPOSITORY, build_wheel, with_version

NEWER = "99.0"
_FROM = "CHECKPOINTER_TEST_UPGRADE_FROM"
"""Environment variable with the commit of the older version; without it, the newest tag, or the tree without a tag."""


class Versions:
    """The `old` and the `new` version: commands that run them, and what each calls itself."""

    def __init__(self, folder: Path) -> None:
        (wheel,) = build_wheel(folder / "new").glob("*.whl")
        commit = os.environ.get(_FROM) or _newest_tag()
        older = _wheel_of(commit, folder / "old") if commit else wheel
        self.old = _unpacked(older, folder / "programs/old")
        self.new = _unpacked(with_version(wheel, NEWER, folder), folder / "programs/new")


def _newest_tag() -> str:
    command = ["git", "-C", REPOSITORY, "describe", "--tags", "--abbrev=0", "--match", "v*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _wheel_of(commit: str, folder: Path) -> Path:
    source = folder / "source"
    source.mkdir(parents=True)
    with (folder / "source.tar").open("w+b") as archive:
        subprocess.run(["git", "-C", REPOSITORY, "archive", commit], stdout=archive, check=True)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(source, filter="data")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpacked(wheel: Path, folder: Path) -> tuple[str, ...]:
    """Return the command that runs a wheel in kernels' Python forms, for which nothing is compiled."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    settings = (f"PYTHONPATH={folder}", "CHECKPOINTER_KERNELS=plain")
    return ("env", *settings, sys.executable, "-P", "-m", "checkpointer")
