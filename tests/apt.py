"""Installs Debian packages for tests, if the user has root rights without a password."""

from __future__ import annotations

import os
import shutil
import subprocess


def apt_command() -> list[str] | None:
    """Return the apt-get command with the rights to install; None if this user has no rights."""
    apt = shutil.which("apt-get")
    if apt is None:
        return None
    if os.geteuid() == 0:
        return [apt]
    sudo = shutil.which("sudo")
    if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode:
        return None
    return [sudo, "-n", apt]


def apt_install(apt: list[str], *packages: str) -> None:
    """Install the first available package; the caller checks the result."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "-q", "update"], env=environment, stdout=subprocess.DEVNULL, check=False)
    for package in packages:
        install = [*apt, "-qq", "-y", "--no-install-recommends", "install", package]
        if subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0:
            break
