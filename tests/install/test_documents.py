"""The links of the installed documents lead to installed documents."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

from install.documents import CONFIG, FOLDER, write_documents
from site_config import failover_keys, keys
from site_config import journal_node_keys as node
from tests.install.host import REPOSITORY

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Return the anchors of the headings as GitHub makes them; a repeated heading receives a number."""
    found: set[str] = set()
    for heading in _HEADING.findall(_CODE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = "".join(c for c in words.lower() if c in " -_" or unicodedata.category(c)[0] in "LN").replace(" ", "-")
        number = 0
        while (name := slug + (f"-{number}" if number else "")) in found:
            number += 1
        found.add(name)
    return found


def _dead_links(folder: Path) -> list[str]:
    dead = []
    for page in sorted(folder.rglob("*.md")):
        text = page.read_text()
        for address in _LINK.findall(_CODE.sub("", text)):
            path, _, anchor = address.partition("#")
            if "://" in path:
                continue
            target = Path(os.path.normpath(page.parent / path)) if path else page
            missing = (
                anchor and target.suffix == ".md" and target.exists() and anchor not in _anchors(target.read_text())
            )
            if not target.exists() or missing:
                dead.append(f"{page.relative_to(folder)}: {address}")
    return dead


def test_links_of_the_installed_documents_have_targets(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    write_documents(REPOSITORY, folder)
    (tmp_path / CONFIG).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / CONFIG).symlink_to(REPOSITORY / "config")
    assert (folder / "SECURITY.md").is_file()
    assert (folder / "operations.md").is_file()
    assert (folder / "runbook.md").is_file()
    assert _dead_links(folder) == []


def test_links_of_the_source_documents_have_targets() -> None:
    for page in ("README.md", "SECURITY.md", "CONTRIBUTING.md"):
        text = _CODE.sub("", (REPOSITORY / page).read_text())
        paths = {address.partition("#")[0] for address in _LINK.findall(text) if "://" not in address}
        assert [path for path in paths if path and not (REPOSITORY / path).exists()] == []


def test_links_to_files_that_are_not_installed_become_plain_text(tmp_path: Path) -> None:
    root = tmp_path / "source"
    (root / "docs" / "more").mkdir(parents=True)
    (root / "SECURITY.md").write_text("[a](docs/a.md#x) [b](https://host/)")
    (root / "CHANGELOG.md").write_text("")
    (root / "config").mkdir()
    (root / "docs" / "a.md").write_text("[s](../SECURITY.md) [c](../config/) [t](../tests/x.md) ![i](i.png) [m](more/)")
    (root / "docs" / "more" / "b.md").write_text("[up](../a.md)")
    (root / "docs" / "i.png").write_bytes(b"")
    write_documents(root, tmp_path / "out")
    assert (tmp_path / "out/SECURITY.md").read_text() == "[a](a.md#x) [b](https://host/)"
    assert (tmp_path / "out/a.md").read_text() == (
        "[s](SECURITY.md) [c](../../hdfs-checkpointer) t ![i](i.png) [m](more)"
    )
    assert (tmp_path / "out/more/b.md").read_text() == "[up](../a.md)"


def test_the_container_exposes_every_default_port() -> None:
    text = (REPOSITORY / "install" / "Containerfile").read_text()
    exposed = {int(port) for line in re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE) for port in line.split()}
    ours = [
        *(keys.SECONDARY_HTTP_ADDRESS, keys.SECONDARY_HTTPS_ADDRESS, keys.HTTP_ADDRESS, keys.HTTPS_ADDRESS),
        *(keys.BACKUP_ADDRESS, keys.BACKUP_HTTP_ADDRESS),
        *(node.JOURNALNODE_RPC_ADDRESS, node.JOURNALNODE_HTTP_ADDRESS, node.JOURNALNODE_HTTPS_ADDRESS),
        *(failover_keys.ZKFC_HTTP_ADDRESS, failover_keys.ZKFC_HTTPS_ADDRESS),
    ]
    assert exposed == {key.port for key in ours} | {int(failover_keys.ZKFC_PORT.default)}
    assert "HEALTHCHECK" in text
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\S*$", text, re.MULTILINE)
