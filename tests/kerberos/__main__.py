"""`python -m tests.kerberos`: install a KDC (apt) and python-gssapi (pip), which the tests with Kerberos need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.apt import apt_command, apt_install
from tests.kerberos.kdc import missing
from tests.required import required

_PACKAGES = ("krb5-kdc", "krb5-admin-server", "libkrb5-dev", "gcc", "python3-dev")
_REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "kerberos.txt"


def main() -> int:
    """Return 1 if a required part is missing and cannot be installed, else 0."""
    apt = apt_command() if missing() else None
    if apt is not None:
        print(f"kerberos: installing {', '.join(_PACKAGES)} with apt", flush=True)
        for package in _PACKAGES:
            apt_install(apt, package)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # python-gssapi is compiled, which takes a third of the time without optimization
        environment = {**os.environ, "CFLAGS": "-O0 -g0"}
        subprocess.run([*pip, "--require-hashes", "-r", str(_REQUIREMENTS)], env=environment, check=False)
    if lacking := missing():
        print(f"kerberos: there is no {lacking}; the tests with Kerberos will be skipped", file=sys.stderr)
        return int(required("kerberos"))
    print("kerberos: ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
