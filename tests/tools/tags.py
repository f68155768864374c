"""Tags of releases in a repository."""

from __future__ import annotations

import subprocess
from pathlib import Path


def newest_tag(repository: Path) -> str:
    """Return the newest tag v* before the commit that is checked out; "" if there is no tag or no history."""
    command = ["git", "-C", repository, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def text_at(repository: Path, tag: str, path: str) -> str:
    """Return a file's text in the commit of a tag."""
    command = ["git", "-C", repository, "show", f"{tag}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
