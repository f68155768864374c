"""Images of Hadoop have no findings, except for faults that Hadoop itself left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadoop_common.names import parse_image
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from image_tools.verify.repair import repair_image
from tests.image_tools.recorded_images import CORRUPT, IMAGES, OF_HADOOP, case_of
from tests.image_tools.verify_support import shown
from tests.tools import imgcmp

pytestmark = pytest.mark.recorded

# the independent comparison cannot read these images
UNREADABLE = {
    "hadoop-3.4.1/odd/dangling-child-after-replay/after",
    "hadoop-3.4.1/odd/sub-sections-partial/before",
    "hadoop-3.4.1/odd/sub-sections-partial-serial/before",
}


@pytest.mark.parametrize("path", [path for path in IMAGES if case_of(path) not in OF_HADOOP], ids=case_of)
def test_healthy_recorded_images_have_no_findings(path: Path) -> None:
    found = verify_image(path)
    graver = [finding for finding in found.findings.listed if finding.severity is not Severity.INFO]
    assert found.valid
    assert graver == [], shown(graver)
    assert found.txid == parse_image(path.name).txid  # type: ignore[union-attr]


@pytest.mark.parameters(2)
@pytest.mark.parametrize("path", [path for path in IMAGES if case_of(path) in OF_HADOOP], ids=case_of)
def test_faults_that_hadoop_left_are_found_and_repaired(path: Path, tmp_path: Path) -> None:
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


def test_the_list_of_hadoop_faults_names_only_recorded_images() -> None:
    assert set(OF_HADOOP) <= {case_of(path) for path in IMAGES}


CASES = sorted(path.parent.name for path in CORRUPT.glob("image-*/case.json"))
# an unknown layout, which a NameNode refuses, causes only a warning; a section beyond the section area, which Hadoop
# reads, is an error
OTHER_VERDICT = {"image-layout-future", "image-section-length-beyond"}


@pytest.mark.parametrize("case", CASES)
def test_verification_agrees_with_a_namenodes_verdict(case: str) -> None:
    loaded = json.loads((CORRUPT / case / "case.json").read_text())["verdict"]["NameNode"]["loaded"]
    images = {named.txid: path for path in (CORRUPT / case / "before").iterdir() if (named := parse_image(path.name))}
    found = verify_image(images[max(images)])
    assert found.valid == (loaded != (case in OTHER_VERDICT)), shown(found.findings.listed)
