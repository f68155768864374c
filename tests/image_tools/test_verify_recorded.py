"""Images as Hadoop wrote them: none has a finding but those in which Hadoop itself left one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadoop_common.names import parse_image
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from image_tools.verify.repair import repair_image
from tests.image_format.image_support import RECORDED
from tests.image_tools.verify_support import imgcmp, shown

pytestmark = pytest.mark.recorded

CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"
# Deleted lists that name an inode which is gone, and created names that led to it: left by snapshot deletion,
# by a symlink deleted under a snapshot and by CONCAT. No NameNode loads these images.
LOST_IN_DIFFS = {"diff-deleted", "diff-created", "diff-created-order"}
OF_HADOOP: dict[str, set[str]] = {
    "hadoop-2.7.3/random-mixed-1/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-mixed-551376/after": {"reference-inode"},
    "hadoop-2.7.3/random-snapshot-1/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-11048/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-11090/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-2/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-410001/after": {"dir-child-missing", "diff-created"},
    "hadoop-2.7.3/random-snapshot-551343/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/symlinks/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/truncate-append-concat/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/compress-gzip/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/random-mixed-sub-15497/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/sub-sections/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/symlinks/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/held-random-8/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/held-random-9/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/dangling-child-after-replay/after": {"reference-inode"},
    "hadoop-3.4.1/odd/namenode-own-image-fails-1/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/namenode-own-image-fails-2/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/namenode-own-image-fails-3/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/sub-sections-partial/before": {"sub-section"},
    "hadoop-3.4.1/odd/sub-sections-partial-serial/before": {"sub-section"},
    "hadoop-3.4.1/r-snapshot-sub-770036/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-capture-6/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-capture-6/before": {"diff-created-order"},
    "hadoop-3.4.1/random-mixed-70110/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-mixed-sub-70127/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-3/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-70121/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-70122/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-770012/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-770101/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-capture-881412/after": {"diff-created-order"},
    "hadoop-3.4.1/random-snapshot-sub-70124/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-sub-9108/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/symlinks/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/upgrade-from-2.7.3/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/compress-bzip2/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/compress-snappy/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-15069/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-15084/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-capture-15050/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/sub-sections/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/symlinks/after": LOST_IN_DIFFS,
}
# the independent comparison does not take these in
UNREADABLE = {
    "hadoop-3.4.1/odd/dangling-child-after-replay/after",
    "hadoop-3.4.1/odd/sub-sections-partial/before",
    "hadoop-3.4.1/odd/sub-sections-partial-serial/before",
}
IMAGES = [
    path
    for path in sorted(RECORDED.glob("hadoop-*/**/fsimage_" + "?" * 19))
    if CORRUPT not in path.parents and path.parent.name in {"before", "after", "after_nn"}
]


def case_of(path: Path) -> str:
    return str(path.parent.relative_to(RECORDED))


@pytest.mark.parametrize("path", [path for path in IMAGES if case_of(path) not in OF_HADOOP], ids=case_of)
def test_a_healthy_image_has_no_finding(path: Path) -> None:
    found = verify_image(path)
    graver = [finding for finding in found.findings.listed if finding.severity is not Severity.INFO]
    assert found.valid
    assert graver == [], shown(graver)
    assert found.txid == parse_image(path.name).txid  # type: ignore[union-attr]


@pytest.mark.parametrize("path", [path for path in IMAGES if case_of(path) in OF_HADOOP], ids=case_of)
def test_what_hadoop_left_is_found_and_repaired(path: Path, tmp_path: Path) -> None:
    graver = {finding.code for finding in verify_image(path).findings.listed if finding.severity is not Severity.INFO}
    assert graver
    assert graver <= OF_HADOOP[case_of(path)]
    output = tmp_path / path.name
    assert repair_image(path, output, tmp_path / "report.json").output == output
    after = verify_image(output).findings
    assert after.clean, shown(after.listed)
    if case_of(path) in UNREADABLE:
        return
    differences = imgcmp.compare(imgcmp.Image(str(path)), imgcmp.Image(str(output)))
    assert all(text.startswith(("diffs ", "references", "dirs ")) for text in differences)


def test_the_list_names_recorded_images_only() -> None:
    assert set(OF_HADOOP) <= {case_of(path) for path in IMAGES}


CASES = sorted(path.parent.name for path in CORRUPT.glob("image-*/case.json"))
# unknown to us or read by Hadoop beyond the section area: a warning, and an error
OTHER_VERDICT = {"image-layout-future", "image-section-length-beyond"}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_a_namenodes(case: str) -> None:
    loaded = json.loads((CORRUPT / case / "case.json").read_text())["verdict"]["NameNode"]["loaded"]
    images = {named.txid: path for path in (CORRUPT / case / "before").iterdir() if (named := parse_image(path.name))}
    found = verify_image(images[max(images)])
    assert found.valid == (loaded != (case in OTHER_VERDICT)), shown(found.findings.listed)
