"""The accessibility checker axe-core from npm, which tests load into a page; only its main file is used."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

_VERSION = "4.14.1"
_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_FILE = Path("~/.cache/hdfs-checkpointer-tests").expanduser() / f"axe-core-{_VERSION}" / "axe.min.js"


class MissingAxeError(Exception):
    """The lack of a usable axe-core; the message gives the reason in one sentence."""


def axe() -> str:
    """Return the script, from the cache or from npm.

    Raises:
        MissingAxeError: the script is missing and npm cannot fetch it.
    """
    if not _FILE.is_file():
        _fetch()
    text = _FILE.read_bytes()
    if hashlib.sha256(text).hexdigest() != _SHA256:
        raise MissingAxeError(f"{_FILE} is not axe-core {_VERSION}")
    return text.decode()


def _fetch() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise MissingAxeError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [npm, "pack", "--silent", f"axe-core@{_VERSION}"], cwd=folder, capture_output=True, check=False, timeout=300
        )
        packed = Path(folder) / f"axe-core-{_VERSION}.tgz"
        if ran.returncode or not packed.is_file():
            raise MissingAxeError(f"npm cannot fetch axe-core: {ran.stderr.decode(errors='replace').strip()[:200]}")
        with tarfile.open(packed) as archive:
            content = archive.extractfile("package/axe.min.js")
            assert content is not None
            _FILE.parent.mkdir(parents=True, exist_ok=True)
            _FILE.write_bytes(content.read())
