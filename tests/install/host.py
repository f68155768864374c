"""A simulated host for docs/install.md in a test's folder: the page's commands run with paths below that folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Self

from tests.depth import deep

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "install.md"
_BLOCK = re.compile(r"^<!-- newcomer(?:: (\w+))? -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OURS = re.compile(r"_?_?(editable_*)?_*hdfs_checkpointer.*")
_SITE = Path(sysconfig.get_path("purelib"))
_NOT_COPIED = shutil.ignore_patterns("__pycache__", ".*", "dist", "build", "tests", "bench")


def blocks() -> list[tuple[str, str]]:
    """Return the commands of the page in order, each with its mark: "", upgrade or downgrade."""
    return [(match[1] or "", match[2]) for match in _BLOCK.finditer(PAGE.read_text())]


def build_wheel(folder: Path) -> Path:
    """Run `make wheel` in a copy of the source; return its `dist`."""
    source = folder / "source"
    shutil.copytree(REPOSITORY, source, ignore=_NOT_COPIED)
    (source / ".venv").symlink_to(REPOSITORY / ".venv")
    subprocess.run(["make", "-C", source, "-o", "setup", "wheel"], check=True, capture_output=True)
    return source / "dist"


def build_wheelhouse(dist: Path) -> Path:
    """Run `make wheelhouse` for this Python next to the wheel in `dist`; return its folder."""
    target = f"TARGET_PYTHON={sys.executable}"
    subprocess.run(
        ["make", "-C", dist.parent, "-o", "setup", "-o", "wheel", "wheelhouse", target], check=True, capture_output=True
    )
    return dist / "wheelhouse"


def with_version(wheel: Path, version: str, folder: Path) -> Path:
    """Change the version of a wheel."""
    name, old, *tags = wheel.name.split("-")
    new = folder / "-".join([name, version, *tags])
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(new, "w") as target:
        for member in source.infolist():
            content = source.read(member)
            if member.filename.endswith(".dist-info/METADATA"):
                content = content.replace(f"\nVersion: {old}\n".encode(), f"\nVersion: {version}\n".encode(), 1)
            if member.filename.endswith(".dist-info/RECORD"):
                content = content.replace(f"{name}-{old}.".encode(), f"{name}-{version}.".encode())
                # the digest of the changed file
                content = re.sub(rb"(?m)^(.*METADATA),sha256=.*$", rb"\1,,", content)
            target.writestr(member.filename.replace(f"{name}-{old}.", f"{name}-{version}."), content)
    return new


class Host:
    """A folder that represents a host; a context manager that stops all running services at the end.

    In the quick tier, the host uses the libraries of the tests' environment; in the deep tier, pip installs them from
    the wheelhouse. The host uses the compiled kernels of the tests.

    Attributes:
        root: folder that represents /.
        words: words to replace in commands.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.words: dict[str, str] = {}
        self._shims = root / "shims"
        self._shims.mkdir(parents=True)
        self._shim("systemctl", f'exec {sys.executable} {Path(__file__).with_name("systemctl.py")} {root} "$@"')
        self._shim("runuser", 'shift 3; exec "$@"')
        self._shim("systemd-sysusers", f'test -f "{root}/etc/sysusers.d/$1"')
        self._shim("python3", f'exec {sys.executable} "$@"' if deep() else self._quick_python())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.root.glob("run/*.pid"):
            os.kill(int(file.read_text()), signal.SIGKILL)

    def run(self, commands: str) -> str:
        """Run commands in a shell that stops at the first error; return their output.

        Raises:
            AssertionError: a command failed.
        """
        text = re.sub(r"(?<![\w./])/(?=(opt|etc|var|usr/local)/)", f"{self.root}/", commands)
        for word, value in self.words.items():
            text = text.replace(word, value)
        path = os.pathsep.join([str(self._shims), str(self.root / "usr/local/bin"), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run(
            ["bash", "-euc", text], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self._logs()}"
        return done.stdout

    def keep_kernels(self) -> None:
        """Make the services use the compiled kernels of the tests."""
        # imported here, so that pytest does not load Numba when it collects tests
        from numba.core.caching import _CacheLocator

        cache = self.root / "var/cache/hdfs-checkpointer"
        (site,) = (self.root / "opt/hdfs-checkpointer").glob("lib/*/site-packages")
        for folder in {path.parent for path in REPOSITORY.glob("*/**/__pycache__/*.nbi")}:
            installed = site / folder.parent.relative_to(REPOSITORY)
            if installed.is_dir():
                place = cache / _CacheLocator.get_suitable_cache_subpath(str(installed / "kernel.py"))
                place.mkdir(parents=True, exist_ok=True)
                for file in folder.glob("*.nb[ic]"):
                    (place / file.name).symlink_to(file)

    def _quick_python(self) -> str:
        """Return a Python that builds environments with the libraries of this Python, but without the checkpointer."""
        libraries = self.root / "libraries"
        libraries.mkdir()
        for path in _SITE.iterdir():
            if not _OURS.fullmatch(path.name) and path.suffix != ".pth":
                (libraries / path.name).symlink_to(path)
        return f"""
[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"
{sys.executable} -m venv --without-pip "$3"
echo {libraries} > "$(echo "$3"/lib/python*/site-packages)"/libraries.pth
printf '#!/bin/sh\\nexec %s/bin/python -m pip "$@"\\n' "$3" > "$3"/bin/pip
chmod +x "$3"/bin/pip"""

    def _shim(self, name: str, line: str) -> None:
        path = self._shims / name
        path.write_text(f"#!/bin/sh\nset -e\n{line}\n")
        path.chmod(0o755)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.root.glob("run/*.log"))
