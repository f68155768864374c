"""Checks of a roll before a secondary relies on it; decisions without I/O."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.errors import TransferError
from checkpointer.roles.secondary.agreement import VersionRelation, check_signature, compare_versions, needed_logs
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_protocol import CheckpointSignature, EditLogManifest, RemoteEditLog
from image_format.errors import UnsupportedLayoutError
from image_format.layout import NEWEST_LAYOUT

INFO = StorageInfo(-63, 7, 0, "CID-1", "BP-1")
NAMENODE = "NameNode nn:8020"


def test_version_relations() -> None:
    assert compare_versions([], INFO, NAMENODE) is VersionRelation.FRESH
    assert compare_versions([INFO], INFO, NAMENODE) is VersionRelation.SAME
    for moved in (replace(INFO, c_time=1), replace(INFO, layout_version=-66)):
        assert compare_versions([INFO], moved, NAMENODE) is VersionRelation.MOVED
        # as after a crash while the new VERSION was being written
        assert compare_versions([INFO, moved], moved, NAMENODE) is VersionRelation.MOVED


@pytest.mark.parametrize("change", [{"namespace_id": 8}, {"cluster_id": "CID-2"}, {"blockpool_id": "BP-2"}])
def test_error_for_another_namespace_names_both(change: dict[str, object]) -> None:
    theirs = replace(INFO, **change)  # type: ignore[arg-type]
    with pytest.raises(StorageError) as caught:
        compare_versions([INFO], theirs, NAMENODE)
    for info in (INFO, theirs):
        assert f"namespaceID {info.namespace_id}" in caught.value.message
        assert f"clusterID {info.cluster_id}, blockpoolID {info.blockpool_id}" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("layout", [-59, NEWEST_LAYOUT - 1])
def test_unsupported_layout_is_an_error(layout: int) -> None:
    with pytest.raises(UnsupportedLayoutError):
        compare_versions([], replace(INFO, layout_version=layout), NAMENODE)


@pytest.mark.parametrize(("base", "following"), [(-12345, 3), (5, 5), (5, 6), (6, 5)])
def test_signature_without_edits_is_an_error(base: int, following: int) -> None:
    with pytest.raises(TransferError, match="the edits between them are missing"):
        check_signature(CheckpointSignature(INFO, base, following), NAMENODE)


segments = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def logs_of(base: int, lengths: list[int]) -> list[RemoteEditLog]:
    logs, first = [], base + 1
    for length in lengths:
        logs.append(RemoteEditLog(first, first + length - 1))
        first += length
    return logs


@given(st.integers(0, 100), segments, st.lists(st.integers(1, 5), max_size=3))
def test_segments_up_to_the_roll_are_needed(base: int, lengths: list[int], later: list[int]) -> None:
    logs = logs_of(base, [*lengths, *later])
    signature = CheckpointSignature(INFO, base, base + 1 + sum(lengths))
    assert needed_logs(EditLogManifest(tuple(logs)), signature, NAMENODE) == tuple(logs[: len(lengths)])


@given(st.data())
def test_missing_or_open_segment_is_an_error(data: st.DataObject) -> None:
    base, lengths = data.draw(st.integers(0, 100)), data.draw(segments)
    logs = logs_of(base, lengths)
    signature = CheckpointSignature(INFO, base, base + 1 + sum(lengths))
    number = data.draw(st.integers(0, len(logs) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                logs[:number] + logs[number + 1 :],
                [*logs[:number], replace(logs[number], in_progress=True), *logs[number + 1 :]],
                [*logs[:number], replace(logs[number], first=logs[number].first + 1), *logs[number + 1 :]],
                [*logs[:number], replace(logs[number], last=logs[number].first - 1), *logs[number + 1 :]],
            ]
        )
    )
    with pytest.raises(TransferError, match="invalid edit log manifest"):
        needed_logs(EditLogManifest(tuple(damaged)), signature, NAMENODE)
