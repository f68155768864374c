"""Builder of a release: `python -m install.release KEY TARGET_PYTHON EXTRAS` writes dist/release-VERSION.

    packages     wheel and constraints, source archive, archive of the wheelhouse, Debian package
    about them   the bill of materials, SHA256SUMS and its signature

The build uses an export of HEAD, so that it does not include ignored and uncommitted files. The same commit, Python,
gcc and dpkg produce the same bytes in any folder. Files have the time of the commit, and `_ENVIRONMENT` fixes
everything else that tools read from their environment. Only the signature differs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from install.sbom import bill_of_materials

UNSIGNED: Final = "none"
SUMS: Final = "SHA256SUMS"
_REPOSITORY: Final = Path(__file__).parents[1]
_NAME: Final = "hdfs_checkpointer"
_ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0"}
_OF_MAKE: Final = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")
_PLATFORM: Final = (
    "import sys, sysconfig as s; print(f'cp{sys.version_info[0]}{sys.version_info[1]}-{s.get_platform()}')"
)


class ReleaseError(Exception):
    """A release that cannot be built; the message ends with the next step."""


def release(repository: Path, key: str, python: str, extras: str) -> Path:
    """Build the release of the checked-out commit; return its folder.

    Args:
        repository: the checkout.
        key: the signing key, in a form that GnuPG accepts; `UNSIGNED` for an unsigned release.
        python: the Python for which the packages are built.
        extras: names of extras, separated by spaces, whose libraries are included.

    Raises:
        ReleaseError: the tree differs from the commit, the release exists, the key cannot sign, or a step failed.
        OSError: a file cannot be written.
    """
    _require_clean(repository)
    version = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    out = repository / "dist" / f"release-{version}"
    if out.exists():
        raise ReleaseError(f"{out} exists; next: move it elsewhere, or raise the version in pyproject.toml")
    _require_key(key)
    python = _absolute(python)
    wheelhouse = f"{_NAME}-{version}-wheelhouse-{_output(python, '-c', _PLATFORM)}.tar"
    os.umask(0o022)
    epoch = int(_output("git", "-C", str(repository), "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory(prefix="release-") as work:
        source = Path(work) / "source"
        _export(repository, source)
        _build(source, repository / ".venv", epoch, [f"TARGET_PYTHON={python}", f"EXTRAS={extras}"])
        dist = source / "dist"
        pack(dist / "wheelhouse", dist / wheelhouse, epoch)
        (dist / f"{_NAME}-{version}.cdx.json").write_text(bill_of_materials(dist / "wheelhouse", _NAME, epoch))
        making = out.with_name(f"{out.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        for path in dist.iterdir():
            if path.is_file():
                shutil.copyfile(path, making / path.name)
    write_sums(making)
    sign(making / SUMS, key)
    making.rename(out)
    return out


def _require_clean(repository: Path) -> None:
    changed = _output("git", "-C", str(repository), "status", "--porcelain")
    if changed:
        raise ReleaseError(f"the tree differs from the commit; next: commit or remove these files:\n{changed}")


def _require_key(key: str) -> None:
    if not key:
        raise ReleaseError(
            f"no key to sign with; next: make release KEY=FINGERPRINT, or KEY={UNSIGNED} to release unsigned"
        )
    if key != UNSIGNED:
        with tempfile.TemporaryDirectory(prefix="release-") as work:
            probe = Path(work) / "probe"
            probe.touch()
            sign(probe, key)


def _absolute(python: str) -> str:
    """Return the absolute path of a Python, because the build calls it from another folder."""
    found = shutil.which(python)
    if found is None:
        raise ReleaseError(f"{python} cannot be run; next: make release TARGET_PYTHON=/path/to/python3")
    # do not resolve links, because the path of its `python` identifies a virtual environment
    return str(Path(found).absolute())


def _export(repository: Path, source: Path) -> None:
    archive = source.with_suffix(".tar")
    _output("git", "-C", str(repository), "archive", "--format=tar", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as tar:
        tar.extractall(source, filter="data")


def _build(source: Path, venv: Path, epoch: int, words: list[str]) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    environment = {**inherited, **_ENVIRONMENT, "SOURCE_DATE_EPOCH": str(epoch)}
    make = ("make", "-o", "setup", f"VENV={venv}", *words, "sdist", "deb")
    for command in ((str(venv / "bin/python"), "hatch_build.py"), make):
        # stdout is reserved for the path of the release
        ran = subprocess.run(command, cwd=source, env=environment, check=False, stdout=sys.stderr)
        if ran.returncode != 0:
            raise ReleaseError(f"{shlex.join(command)} failed; next: correct the faults in the messages above")


def pack(folder: Path, archive: Path, epoch: int) -> None:
    """Write the files of `folder` to a tar archive that depends only on their names and contents."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            member = tarfile.TarInfo(f"{folder.name}/{path.name}")
            member.size, member.mtime = path.stat().st_size, epoch
            with path.open("rb") as content:
                tar.addfile(member, content)


def write_sums(out: Path) -> None:
    """Write the digests of all files in the format of `sha256sum --check`."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines))


def sign(sums: Path, key: str) -> None:
    """Write a detached signature to SUMS.asc, next to the file; warn if the key is `UNSIGNED`."""
    if key == UNSIGNED:
        sys.stderr.write(f"this release is NOT SIGNED: nobody can verify who built it (KEY={UNSIGNED})\n")
        return
    command = ("gpg", "--local-user", key, "--armor", "--output", f"{sums}.asc", "--detach-sign", str(sums))
    _output(*command, next_step="gpg --list-secret-keys")


def _output(*command: str, next_step: str = "") -> str:
    """Run a command and return its standard output.

    Raises:
        ReleaseError: the command failed; the error contains its messages, and `next_step` or the command as the hint.
    """
    try:
        ran = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    except OSError as fault:
        raise ReleaseError(f"{command[0]} cannot be run: {fault.strerror}; next: install {command[0]}") from fault
    if ran.returncode != 0:
        reason = ran.stderr.strip() or f"exit code {ran.returncode}"
        raise ReleaseError(f"{command[0]} failed: {reason}\nnext: {next_step or shlex.join(command)}")
    return ran.stdout.strip()


if __name__ == "__main__":
    try:
        made = release(_REPOSITORY, *sys.argv[1:4])
    except ReleaseError as refused:
        sys.exit(f"release: {refused}")
    except OSError as fault:
        sys.exit(f"release: {fault}; next: correct the cause and run make release again")
    sys.stdout.write(f"{made}\n")
