"""The runbook and the errors of all roles describe a NameNode of another namespace in the same terms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checkpointer.roles.backup.namenode_link import check_same_namespace
from checkpointer.roles.secondary.agreement import compare_versions
from checkpointer.roles.standby.folder_edits import FolderEdits
from checkpointer.roles.standby.version import decide_version_action
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo, format_version

OURS = StorageInfo(-66, 7, 0, "CID-a", "BP-1")
THEIRS = replace(OURS, cluster_id="CID-b")
_RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook.md"


def shared_edits(root: Path) -> None:
    (root / "current").mkdir()
    (root / "current" / "VERSION").write_bytes(format_version(THEIRS, datetime.now(UTC)))
    FolderEdits(root).open(OURS)


@pytest.mark.parametrize(
    "compare",
    [
        lambda root: decide_version_action(OURS, THEIRS, rolling=False, namenode="nn1:8020"),
        lambda root: compare_versions([OURS], THEIRS, "nn1:8020"),
        lambda root: check_same_namespace(THEIRS, OURS, "nn1:8020"),
        shared_edits,
    ],
)
def test_runbook_contains_the_error_for_another_namespace(compare: Callable[[Path], object], tmp_path: Path) -> None:
    section = _RUNBOOK.read_text().partition("\n## Wrong cluster id\n")[2].partition("\n## ")[0]
    sentences = re.findall(r'"([^"]*another namespace)"', section)
    assert len(sentences) == 2
    with pytest.raises(StorageError) as caught:
        compare(tmp_path)
    assert any(sentence in caught.value.message for sentence in sentences)
    # a running daemon does not begin with the NameNode's image
    assert re.search("stop the daemon, .* start the daemon", caught.value.hint)
    assert re.search(r"--save-aside` .* stop the\s+daemon\. ", section, re.DOTALL)
    assert re.search(r"stop the\s+daemon\. .* start the\s+daemon", section, re.DOTALL)
