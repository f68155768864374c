"""Two versions of the program in a test's folder, which run with the libraries of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.install.host import REPOSITORY, build_wheel, with_version
from tests.tools.tags import newest_tag

NEWER = "99.0"
_FROM = "CHECKPOINTER_TEST_UPGRADE_FROM"
"""Variable with the commit of the older version; by default, the newest tag; without a tag, the tree itself."""


class Versions:
    """Commands that run the `old` and the `new` version; if there is no tag, both are the same code with two version
    numbers.

    Attributes:
        folders: folders of the two versions, the older first.
    """

    def __init__(self, folder: Path) -> None:
        (wheel,) = build_wheel(folder / "new").glob("*.whl")
        commit = os.environ.get(_FROM) or newest_tag(REPOSITORY)
        older = _wheel_of(commit, folder / "old") if commit else wheel
        self.folders = folder / "programs/old", folder / "programs/new"
        for each, target in zip((older, with_version(wheel, NEWER, folder)), self.folders, strict=True):
            with zipfile.ZipFile(each) as archive:
                archive.extractall(target)
        self.old, self.new = map(program_in, self.folders)


def program_in(folder: Path, kernels: Path | None = None) -> tuple[str, ...]:
    """Return the command that runs the version in `folder`.

    Args:
        kernels: cache of compiled kernels; without a cache, kernels run in their Python forms.
    """
    if kernels is None:
        settings = ["CHECKPOINTER_KERNELS=plain"]
    else:
        settings = ["CHECKPOINTER_KERNELS=compiled", f"NUMBA_CACHE_DIR={kernels}"]
    # the processes that a daemon starts must not import the working directory either
    return ("env", f"PYTHONPATH={folder}", "PYTHONSAFEPATH=1", *settings, sys.executable, "-m", "checkpointer")


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
