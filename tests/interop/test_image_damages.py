"""Damaged images with a correct digest: we refuse every image that a NameNode refuses; NameNodes load our merges of all
other images.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.errors import HdfsError
from image_format.md5_file import write_md5_file
from image_tools.verify.checker import verify_image
from tests.depth import SEED, deep, scaled
from tests.interop.hadoop import Hadoop
from tests.interop.image_damages import damages
from tests.recorded_cases import RECORDED, Case

pytestmark = [pytest.mark.interop, pytest.mark.recorded]

CASES = (
    "snapshots-rename-references",
    "snapshots-basic",
    "erasure-coding-snapshots",
    "quotas-storage-policy",
    "cache",
    "tokens",
    "open-files-leases",
    "acl-xattr",
)
QUICK = 6
SERIALS = ("inode-user", "inode-group", "inode-acl", "inode-xattr")
"""Hadoop 2 stores strings in an array, and stops at a serial outside the array; `verify` reports such a serial, but a
merge copies it.
"""


def chosen(image: Path) -> Iterator[tuple[str, bytes]]:
    """Return all damages, or a sample."""
    found = damages(image, scaled(9, 1))
    return found if deep() else iter(random.Random(SEED).sample(list(found), QUICK))


@pytest.mark.parametrize("name", CASES if deep() else CASES[:1])
def test_damage_that_a_namenode_refuses_is_refused(hadoop: Hadoop, name: str, tmp_path: Path) -> None:
    # Hadoop 3.3.6 does not load the recorded images that its other tests convert
    recorded = "hadoop-3.3.6" if hadoop.release.layout == -66 else hadoop.release.recorded
    case = Case(RECORDED / recorded / name)
    if not case.path.is_dir():
        pytest.skip(f"{recorded} has no such recording")
    wrong = []
    for number, (damage, data) in enumerate(chosen(case.image("before"))):
        root = tmp_path / str(number)
        root.mkdir()
        current = case.copy_to(root)
        image = current / case.image("before").name
        image.write_bytes(data)
        write_md5_file(image, hashlib.md5(data).digest())
        found = verify_image(image)
        valid = found.valid
        if not hadoop.release.is_3 and any(found.findings.counts[code] for code in SERIALS):
            continue
        loads = hadoop.loads(image, current / "VERSION")
        try:
            merged = merge_directory(plan_directory(root)).saved.paths[0]
        except HdfsError:
            merged = None
        if not loads and (merged is not None or valid):
            wrong.append(f"{damage}: a NameNode refuses it; verify: {valid}, merged: {merged is not None}")
        elif merged is not None and not hadoop.loads(merged, current / "VERSION"):
            wrong.append(f"{damage}: a NameNode does not load what the merge made of it")
        shutil.rmtree(root)
    assert wrong == []
