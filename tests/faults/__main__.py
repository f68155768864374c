"""`python -m tests.faults`: install strace, which the tests with injected errors need."""

from __future__ import annotations

import shutil
import sys

from tests.apt import apt_command, apt_install
from tests.faults.strace import MissingStraceError, strace_program
from tests.required import required


def main() -> int:
    """Return 1 if strace does not work, cannot be installed and the tests are required, else 0."""
    apt = None if shutil.which("strace") else apt_command()
    if apt is not None:
        print("faults: installing strace with apt", flush=True)
        apt_install(apt, "strace")
    try:
        print(f"faults: ready, {strace_program()}")
    except MissingStraceError as error:
        print(f"faults: {error}", file=sys.stderr)
        if required("strace"):
            return 1
        print("faults: the tests with injected errors will be skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
