"""Bytes by storage type below the directories of an image, and in responses of WebHDFS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from hadoop_common.java_numbers import signed64
from hadoop_common.storage_policies import storage_policy
from image_format.array_allocator import ArrayAllocator
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode
from image_tools.type_usage import LIMITED_TYPES, Numbers, file_usage, type_usage
from servlets.application import create_application
from servlets.webhdfs import ImageSource, webhdfs_blueprint
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder, merge_bytes, store
from tests.image_tools.type_usage_edits import ALL_SSD, EDITS, ONE_SSD
from tests.recorded_cases import RECORDED, Case

HOT, LAZY_PERSIST = 7, 15


@pytest.mark.parametrize(
    ("policy", "replication", "expected"),
    [
        (HOT, 3, {"DISK": 3}),
        (ONE_SSD, 1, {"SSD": 1}),
        (ONE_SSD, 4, {"SSD": 1, "DISK": 3}),
        (5, 3, {"DISK": 1, "ARCHIVE": 2}),
        (LAZY_PERSIST, 2, {"DISK": 2}),
        (ALL_SSD, 0, {}),
        (ALL_SSD, -1, {}),
    ],
)
def test_replicas_of_a_policy_by_storage_type(policy: int, replication: int, expected: Mapping[str, int]) -> None:
    found = storage_policy(policy)
    assert found is not None
    assert {name: count for name, count in found.replicas_by_type(replication).items() if count} == expected


def test_webhdfs_reports_the_consumed_space_of_storage_types(tmp_path: Path) -> None:
    base = ImageBuilder(HADOOP3).save(tmp_path / "base")
    path = store(tmp_path, merge_bytes(base, EDITS), BASE_TXID + len(EDITS))
    with ImageFile.open(path, verify_md5=False) as image:
        client = create_application(webhdfs_blueprint(ImageSource(ImageBrowser(image)))).test_client()

        def consumed(directory: str, op: str) -> dict[str, int]:
            answer = client.get(f"/webhdfs/v1{directory}", query_string={"op": op}).json
            (body,) = answer.values()
            return {name: each["consumed"] for name, each in body["typeQuota"].items()}

        for op in ("GETCONTENTSUMMARY", "GETQUOTAUSAGE"):
            assert consumed("/q", op) == {"SSD": 3 * 100 + 10 + 3 * 3, "ARCHIVE": 5}
            assert consumed("/q/one/below", op) == {"DISK": 10}
            # files without a policy do not count
            assert consumed("/none", op) == {"DISK": 0}
            assert consumed("/q/one", op) == {}
        below = ImageBrowser(image).find(b"/q/.snapshot/s")
        assert isinstance(below, LocatedInode)
        past = ImageBrowser(image).content(below).types
        assert (past["SSD"], past["DISK"], past["ARCHIVE"]) == (3 * 100 + 10, 10, 5)


def walk(browser: ImageBrowser, place: LocatedInode) -> Iterator[tuple[LocatedInode, Numbers]]:
    """Yield each directory with the sums of all files below it."""
    total = np.zeros(len(LIMITED_TYPES), np.int64)
    for child in browser.children(place):
        if child.inode.HasField("directory"):
            *inner, (_, below) = walk(browser, child)
            yield from inner
            yield child, below
            total += below
        else:
            total += file_usage(child.inode.file, child.policy)
    yield place, total


@pytest.mark.recorded
@pytest.mark.parametrize("case", ["quotas-storage-policy", "erasure-coding", "snapshots-rename-references"])
def test_sums_equal_those_of_a_walk(case: str) -> None:
    path = Case(RECORDED / "hadoop-3.4.1" / case).image("after")
    with ImageFile.open(path, verify_md5=False) as image:
        browser = ImageBrowser(image)
        usage = type_usage(image, browser.index, browser.names, ArrayAllocator())
        rows = {int(each): row for row, each in enumerate(browser.index.directory_ids)}
        root = browser.root()
        assert root is not None
        found = list(walk(browser, root))
        for place, total in found:
            row = rows.get(signed64(place.inode.id))
            assert total.tolist() == ([0] * len(LIMITED_TYPES) if row is None else usage[row].tolist())
        assert case != "quotas-storage-policy" or any(total.any() for _, total in found)
