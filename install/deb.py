"""Builder of the Debian package from a wheelhouse: `PYTHON -m install.deb WHEELHOUSE OUT`, with the target's PYTHON.

    /opt/hdfs-checkpointer     a virtual environment of the distribution's Python: program, libraries, documents
    /usr, /etc                 files for systemd, man and the shells, from the same wheel

The package's installation compiles and fetches nothing; dpkg manages every file. The build needs only dpkg-deb and the
standard library. With SOURCE_DATE_EPOCH set, the same wheelhouse, Python and dpkg produce the same bytes in any folder.
"""

from __future__ import annotations

import compileall
import gzip
import os
import py_compile
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

_NAME = "hdfs-checkpointer"
_HOME = Path("/opt") / _NAME
_MODE = 0o755
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: The hdfs-checkpointer developers <hdfs-checkpointer@localhost>
Installed-Size: {size}
Depends: python3 (>= {python}), python3 (<< {next_python}), systemd-standalone-sysusers | systemd, procps{libraries}
Section: admin
Priority: optional
Description: Lean checkpointer for HDFS
 Merges the image and the edit log of an HDFS NameNode without a
 second NameNode: as a secondary, standby or backup node, and offline.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    systemd-sysusers hdfs-checkpointer.conf
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        # after an upgrade, restart the services that are running
        [ -z "$2" ] || systemctl try-restart 'checkpointer@*.service' \
            checkpointer-journalnode.service checkpointer-zkfc.service
        # so that the first checkpoint of a large namespace does not wait for the compiler
        systemd-run --quiet --collect --no-block --unit=checkpointer-compile --uid=hdfs --gid=hadoop --nice=19 \
            --property=CPUWeight=1 --property=CacheDirectory=hdfs-checkpointer \
            --setenv=NUMBA_CACHE_DIR=/var/cache/hdfs-checkpointer \
            /opt/hdfs-checkpointer/bin/checkpointer compile || true
    fi
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    # only `stop` accepts patterns
    systemctl stop 'checkpointer@*.service' checkpointer-journalnode.service checkpointer-zkfc.service \
        checkpointer-archive-drill.timer checkpointer-archive-drill.service
    systemctl disable checkpointer@secondary checkpointer@standby checkpointer@backup \
        checkpointer-journalnode checkpointer-zkfc checkpointer-archive-drill.timer
fi
if [ "$1" = remove ]; then
    # kernels that root's commands compiled, and their lock files: dpkg does not know them
    find /opt/hdfs-checkpointer -path '*/__pycache__/*' ! -name '*.pyc' -delete 2>/dev/null || true
fi
"""
_POSTRM = """\
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
# Images and edits in /var/lib are never removed.
[ "$1" != purge ] || rm -rf /var/cache/hdfs-checkpointer
"""
_SCRIPT = """\
#!{home}/bin/python
import sys

from {module} import {function}

sys.exit({function}())
"""
# extras that are included if the wheelhouse contains their package, and the Debian libraries that they require
_EXTRAS = {"kerberos": "gssapi", "tls": "cryptography"}
_LIBRARIES = {"kerberos": "libgssapi-krb5-2"}
# copies from the wheel's share directory to Debian's directories, which dpkg manages
_COPIES = {
    "hdfs-checkpointer/systemd/checkpointer@.service": "usr/lib/systemd/system/checkpointer@.service",
    "hdfs-checkpointer/systemd/checkpointer-journalnode.service": (
        "usr/lib/systemd/system/checkpointer-journalnode.service"
    ),
    "hdfs-checkpointer/systemd/checkpointer-zkfc.service": "usr/lib/systemd/system/checkpointer-zkfc.service",
    "hdfs-checkpointer/systemd/checkpointer-archive-drill.service": (
        "usr/lib/systemd/system/checkpointer-archive-drill.service"
    ),
    "hdfs-checkpointer/systemd/checkpointer-archive-drill.timer": (
        "usr/lib/systemd/system/checkpointer-archive-drill.timer"
    ),
    "hdfs-checkpointer/sysusers.conf": "usr/lib/sysusers.d/hdfs-checkpointer.conf",
    "hdfs-checkpointer/logging.toml": "etc/hdfs-checkpointer/logging.toml",
}
# links into the package's directory
_LINKS = {
    "bin/checkpointer": "usr/bin/checkpointer",
    "share/doc/hdfs-checkpointer": "usr/share/doc/hdfs-checkpointer/docs",
    "share/hdfs-checkpointer": "usr/share/doc/hdfs-checkpointer/config",
    "share/bash-completion/completions/checkpointer": "usr/share/bash-completion/completions/checkpointer",
    "share/zsh/vendor-completions/_checkpointer": "usr/share/zsh/vendor-completions/_checkpointer",
    "share/fish/vendor_completions.d/checkpointer.fish": "usr/share/fish/vendor_completions.d/checkpointer.fish",
}


def build(wheelhouse: Path, out: Path) -> Path:
    """Build the package, which requires only Python on the host; return its path in `out`.

    Raises:
        subprocess.CalledProcessError: pip or dpkg-deb failed; the program's message is on stderr.
        OSError: a file cannot be written.
    """
    os.umask(0o022)
    root = out / "deb-root"
    shutil.rmtree(root, ignore_errors=True)
    home = root / _HOME.relative_to("/")
    extras = [extra for extra, package in _EXTRAS.items() if any(wheelhouse.glob(f"{package}-*.whl"))]
    version = _install(wheelhouse, home, extras)
    for source, target in _COPIES.items():
        _parent(root / target)
        shutil.copyfile(home / "share" / source, root / target)
    for source, target in _LINKS.items():
        _parent(root / target).symlink_to(_HOME / source)
    _man_pages(home / "share" / "man", root / "usr/share/man")
    documents = root / "usr/share/doc" / _NAME
    (licence,) = home.glob(f"lib/*/site-packages/{_NAME.replace('-', '_')}-*.dist-info/licenses/LICENSE")
    shutil.copyfile(licence, documents / "copyright")
    _control(root, version, extras)
    package = out / f"{_NAME}_{version}_{_architecture()}.deb"
    # with more threads, the compressed bytes differ
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", "-Zxz", "-z1", root, package],
        env={**os.environ, "DPKG_DEB_THREADS_MAX": "1"},
        check=True,
    )
    shutil.rmtree(root)
    return package


def _install(wheelhouse: Path, home: Path, extras: list[str]) -> str:
    """Create the environment with the program and `extras`; all paths refer to `_HOME`. Return the version."""
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin/python"
    # `sys.executable` may be a link whose name differs from the interpreter's, such as python3 for python3.11
    real = Path(sys.executable).resolve()
    for link in (home / "bin").glob("python*"):
        link.unlink()
    for name in (real.name, "python3", "python"):
        (home / "bin" / name).symlink_to(real if name == real.name else real.name)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-compile",
        "--no-index",
    ]
    found: list[str | Path] = ["--find-links", wheelhouse, "--constraint", wheelhouse / "constraints.txt"]
    subprocess.run([*pip, *found, f"{_NAME}[{','.join(extras)}]"], check=True)
    (home / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    (metadata,) = home.glob(f"lib/*/site-packages/{_NAME.replace('-', '_')}-*.dist-info")
    _scripts(home / "bin", PathDistribution(metadata))
    shutil.rmtree(home / "include", ignore_errors=True)
    # remove pip's lists of files, because dpkg has its own lists, and pip's digests are of scripts with another path
    for record in home.glob("lib/*/site-packages/*.dist-info/RECORD"):
        record.unlink()
    # only root can write to this directory, so without these files, Python would compile the modules at each start
    compileall.compile_dir(
        home / "lib",
        quiet=1,
        stripdir=str(home),
        prependdir=str(_HOME),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return metadata.name.removesuffix(".dist-info").rpartition("-")[2]


def _scripts(folder: Path, program: PathDistribution) -> None:
    """Replace pip's scripts, which contain the path of the build, with scripts that contain the installed path."""
    for script in folder.iterdir():
        if not script.is_symlink():
            script.unlink()
    for point in program.entry_points.select(group="console_scripts"):
        script = folder / point.name
        script.write_text(_SCRIPT.format(home=_HOME, module=point.module, function=point.attr))
        script.chmod(_MODE)


def _man_pages(source: Path, target: Path) -> None:
    for page in source.rglob("*.1"):
        compressed = _parent(target / page.relative_to(source)).with_suffix(".1.gz")
        compressed.write_bytes(gzip.compress(page.read_bytes(), mtime=0))


def _control(root: Path, version: str, extras: list[str]) -> None:
    major, minor = sys.version_info[:2]
    control = root / "DEBIAN"
    control.mkdir()
    size = sum(path.lstat().st_size for path in _files(root))
    fields = _CONTROL.format(
        name=_NAME,
        version=version,
        architecture=_architecture(),
        size=size // 1024,
        python=f"{major}.{minor}",
        next_python=f"{major}.{minor + 1}",
        libraries="".join(f", {_LIBRARIES[extra]}" for extra in extras if extra in _LIBRARIES),
    )
    (control / "control").write_text(fields)
    (control / "conffiles").write_text("/etc/hdfs-checkpointer/logging.toml\n")
    for name, text in {"postinst": POSTINST, "prerm": PRERM, "postrm": _POSTRM}.items():
        (control / name).write_text(text)
        (control / name).chmod(_MODE)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _architecture() -> str:
    done = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())}\n")
