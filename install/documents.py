"""Installed documents: `docs/`, SECURITY.md and CHANGELOG.md in one directory, with links adapted.

This module uses only the standard library, because it is part of the build.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

FOLDER = "share/doc/hdfs-checkpointer"
CONFIG = "share/hdfs-checkpointer"
_TOP = ("SECURITY.md", "CHANGELOG.md")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def write_documents(root: Path, folder: Path) -> None:
    """Empty `folder`, and write the documents of the source tree `root` to it.

    Raises:
        OSError: a file cannot be read or written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for source, name in _documents(root).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(_with_links(source.read_text(), source.parent, name, root))
        else:
            shutil.copyfile(source, target)


def _documents(root: Path) -> dict[Path, str]:
    """Return the installed name of each source file."""
    docs = root / "docs"
    inner = {path: path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*")) if path.is_file()}
    return {**inner, **{root / name: name for name in _TOP}}


def _with_links(text: str, folder: Path, name: str, root: Path) -> str:
    """Adapt the links of the document `name` from `folder`; turn links to files that are not installed into text."""
    documents = _documents(root)

    def link(match: re.Match[str]) -> str:
        picture, words, address = match.groups()
        path, mark, anchor = address.partition("#")
        if not path or "://" in path:
            return match[0]
        target = Path(os.path.normpath(folder / path))
        if target in documents:
            found = f"/{FOLDER}/{documents[target]}"
        elif any(each.is_relative_to(target) for each in documents):
            found = f"/{FOLDER}/{target.relative_to(root / 'docs').as_posix()}"
        elif target.is_relative_to(root / "config"):
            found = f"/{CONFIG}/{target.relative_to(root / 'config').as_posix()}"
        else:
            return words
        return f"{picture}[{words}]({os.path.relpath(found, PurePosixPath('/', FOLDER, name).parent)}{mark}{anchor})"

    return _LINK.sub(link, text)
