"""The whole merge on recorded storage directories, compared with the images that Hadoop made of the same edits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.errors import UnsupportedOperationError
from engine.healing import HealedFault, HealingMode
from engine.replay.replayer import PLAIN
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from hadoop_common.configuration import Configuration
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.md5_file import md5_of_file, read_md5_file
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from image_tools.compare.difference import ItemKind
from image_tools.verify.checker import verify_image
from journal import ops
from journal.segment_file import SegmentTransactions
from site_config.merge_settings import replay_rules
from tests.cli_runner import run_cli
from tests.engine.image_builder import Saved, merge_bytes, merged, store
from tests.engine.op_makers import delete, mkdir, set_permissions, times
from tests.engine.replay_twins import check_update
from tests.recorded_cases import ALL_CASES, PLAIN_CASES, RECORDED, Case, imgcmp

pytestmark = pytest.mark.recorded

ODD = RECORDED / "hadoop-3.4.1" / "odd"
UNKNOWN = [Case(path) for path in sorted(ODD.glob("unknown-*"))]
RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")
CODEC = "org.apache.hadoop.io.compress."

# Accepted differences from a Hadoop image that no NameNode loads, by the beginning of their lines.
KNOWN_DIFFERENCES = {
    # Hadoop searches for a name in an unsorted created list, and does not find it
    "hadoop-2.7.3/random-snapshot-551343": ("diffs (2, 16387)",),
    # a block that no snapshot needs, which Hadoop 3.4 and newer releases drop
    "hadoop-3.3.6/sub-sections": ("inodes 16510 file.blocks",),
}
plain_cases = pytest.mark.parametrize("case", PLAIN_CASES, ids=lambda case: case.id)


def made_of(
    case: Case, folder: Path, codec: str | None = None, healing: HealingMode = HealingMode.HEAL
) -> tuple[Path, tuple[HealedFault, ...]]:
    """Return the merged image, and the faults that were healed in it."""
    case.copy_to(folder)
    rules = replay_rules(Configuration.load(case.write_configuration(folder / "conf"), environment={}))
    plan = plan_directory(folder)
    settings = MergeSettings(codec=codec, layout_version=case.new_layout, rules=replace(rules, healing=healing))
    result = merge_directory(plan, settings)
    assert result.txid == case.info["txid_after"]
    return result.saved.paths[0], result.healed


def merge_case(case: Case, folder: Path, codec: str | None = None) -> Path:
    return made_of(case, folder, codec)[0]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
@pytest.mark.parameters(2)
def test_merged_image_is_valid_and_equals_hadoops_loadable_image(case: Case, tmp_path: Path) -> None:
    image, healed = made_of(case, tmp_path / "healed")
    assert md5_of_file(image) == read_md5_file(image)
    found = verify_image(image).findings
    assert found.clean, [str(finding) for finding in found.listed]
    if case.differences(image):
        # our image was healed; no NameNode loads Hadoop's own image, and the two images differ only by the healed
        # faults
        assert healed
        assert not any(verify_image(path).valid for path in case.expected_images())
        image, healed = made_of(case, tmp_path / "left", healing=HealingMode.AS_HADOOP)
        assert healed == ()
        known = KNOWN_DIFFERENCES.get(case.id, ())
        assert [line for line in case.differences(image) if not line.startswith(known or ("nothing",))] == []


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_kernels_and_plain_functions_write_the_same_bytes(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # during replay, Hadoop 2.7 reads a snapshot's time from the clock
    monkeypatch.setattr("engine.replay.snapshots.now", lambda: 1_400_000_000_000)
    made = []
    for plain in ("", "1"):
        monkeypatch.setenv(PLAIN, plain)
        made.append(md5_of_file(merge_case(case, tmp_path / f"plain{plain}")))
    assert made[0] == made[1]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_updated_index_equals_a_scan_of_the_saved_image(case: Case, tmp_path: Path) -> None:
    case.copy_to(tmp_path)
    rules = replay_rules(Configuration.load(case.write_configuration(tmp_path / "conf"), environment={}))
    plan = plan_directory(tmp_path)
    with WarmNamespace(MergeSettings(layout_version=case.new_layout, rules=rules)) as warm:
        warm.load(plan.image)
        warm.apply(SegmentTransactions(plan.segments, plan.image_txid + 1))
        with patch.object(IndexArrays, "scan", side_effect=AssertionError):
            saved = warm.save([plan.folder]).saved.paths[0]
            warm.rebase()
        assert isinstance(warm.namespace.base, ImageIndex)
        with ImageFile.open(saved) as image:
            check_update(warm.namespace.base.arrays, IndexArrays.scan(image))


@plain_cases
def test_unchanged_records_keep_bytes_and_order(case: Case, tmp_path: Path) -> None:
    """A record with the same content was copied, or encoded as Hadoop encodes it."""
    image = merge_case(case, tmp_path)
    before, after = dict(records(case.image("before"))), dict(records(image))
    same = [number for number in before.keys() & after.keys() if parsed(before[number]) == parsed(after[number])]
    assert [number for number in same if before[number] != after[number]] == []
    kept_order = [number for number in before if number in after]
    assert kept_order == [number for number in after if number in before]


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (id, record) of each inode in the order of the INODE section."""
    with ImageFile.open(path, verify_md5=False) as image:
        index = ImageIndex(image)
        bounds = [*index.offsets.all().tolist(), index.inode_buffer.size]
        for start, end in itertools.pairwise(bounds):
            record = index.inode_buffer[start:end].tobytes()
            yield parsed(record).id, record


def parsed(record: bytes) -> pb.INode:
    start = next(i for i, byte in enumerate(record) if byte < 0x80) + 1
    return pb.INode.FromString(record[start:])


@pytest.mark.parametrize("name", ["snapshots-ordered-deletion", "snapshots-capture-open-files", "upgrade-obsolete-ops"])
def test_merge_command_uses_the_configuration_of_the_cluster(name: str, tmp_path: Path) -> None:
    case = Case(RECORDED / "hadoop-3.4.1" / name)
    case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    layout = [] if case.new_layout is None else ["--layout", str(case.new_layout)]
    code, out, _ = run_cli("merge", tmp_path / "nn", "--conf", conf, "--json", *layout)
    assert code == 0
    assert case.differences(Path(json.loads(out)["image"])) == []


def test_times_of_snapshots_that_are_marked_as_deleted_are_replay_times(tmp_path: Path) -> None:
    """During a replay, Hadoop sets the time of such a snapshot from its clock."""
    case = Case(RECORDED / "hadoop-3.4.1" / "snapshots-ordered-deletion")
    case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    made = Path(json.loads(run_cli("merge", tmp_path / "nn", "--conf", conf, "--json").out)["image"])
    with ImageFile.open(made) as ours, ImageFile.open(case.expected_images()[0]) as theirs:
        comparison = ImageComparison(ours, theirs)
        differences = [each for each in comparison.differences() if each.topic is ItemKind.SNAPSHOT]
        assert differences
        assert all(map(comparison.is_replay_time, differences))


@pytest.mark.parametrize("codec", ["DefaultCodec", "GzipCodec"])
def test_compressed_merge_has_the_same_content_and_merges_again(tmp_path: Path, codec: str) -> None:
    image = merge_case(RENAMES, tmp_path / "a", CODEC + codec)
    assert Saved(image.read_bytes()).summary.codec == CODEC + codec
    assert RENAMES.differences(image) == []
    plain = merge_case(RENAMES, tmp_path / "b")
    more = [mkdir("/made later", 90000), set_permissions("/", 0o1777), delete("/made later"), mkdir("/again", 90001)]
    again = store(tmp_path / "c", merge_bytes(image, more), RENAMES.info["txid_after"] + len(more))
    expected = store(tmp_path / "d", merge_bytes(plain, more), RENAMES.info["txid_after"] + len(more))
    assert Saved(again.read_bytes()).summary.codec == CODEC + codec
    assert imgcmp.compare(imgcmp.Image(str(expected)), imgcmp.Image(str(again))) == []
    assert "/again" in Saved(again.read_bytes())


@plain_cases
def test_second_merge_keeps_everything(case: Case, tmp_path: Path) -> None:
    image = merge_case(case, tmp_path / "a")
    txid = case.info["txid_after"]
    twice = store(tmp_path / "b", merge_bytes(image, [ops.StartLogSegmentOp()]), txid + 1)
    differences = imgcmp.compare(imgcmp.Image(str(image)), imgcmp.Image(str(twice)))
    # A directory that only has storage type quotas receives the largest namespace quota when it is loaded, as in
    # Hadoop.
    loaded = ("expected 18446744073709551615 got 9223372036854775807", "NS_INFO field 6")
    assert [line for line in differences if not any(text in line for text in loaded)] == []


# ---- images with content that no release reads -------------------------------------------------------------


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.id)
def test_unknown_fields_and_sections_survive_edits_outside_the_tree(case: Case) -> None:
    source = case.image("before")
    before = Saved(source.read_bytes())
    key = ops.DelegationKey(key_id=77, expiry_date=1, key=b"k")
    after = merged(source, ops.UpdateMasterKeyOp(key=key), ops.SetGenstampV1Op(genstamp=5))
    changed = {name for name, body in before.sections.items() if after.sections[name] != body}
    assert changed == {"NS_INFO", "SECRET_MANAGER"}
    assert [s.name for s in after.summary.sections] == [
        s.name for s in before.summary.sections if not s.name.endswith("_SUB")
    ]
    before.info.transactionId += 2
    before.info.genstampV1 = 5
    assert after.info == before.info
    assert after.info.SerializeToString() == before.info.SerializeToString()
    assert unknown_fields(after.summary) == unknown_fields(before.summary)


def unknown_fields(summary: pb.FileSummary) -> list[tuple[int, bytes]]:
    return [(item.field_number, item.data) for item in UnknownFieldSet(summary)]


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.id)
def test_edits_of_unknown_records_are_refused_and_others_merge(case: Case) -> None:
    source = case.image("before")
    edits = [mkdir("/quite new", 90000, 1), times("/quite new", mtime=5), mkdir("/quite new/below", 90001, 1)]
    if case.path.name == "unknown-fields":
        with pytest.raises(UnsupportedOperationError, match="fields that are unknown to this version"):
            merged(source, *edits)
        return
    after = merged(source, *edits)
    assert after["/quite new"].directory.modificationTime == 5
    before = Saved(source.read_bytes())
    assert {number: after.inodes[number] for number in before.inodes} == before.inodes
    kept = set(before.sections) - {"NS_INFO", "INODE", "INODE_DIR", "STRING_TABLE"}
    assert {name: after.sections[name] for name in kept} == {name: before.sections[name] for name in kept}
    assert all(not name.startswith("FUTURE") or name in kept for name in before.sections)


def test_merged_image_differs_from_hadoops_only_in_replay_times(tmp_path: Path) -> None:
    case = Case(RECORDED / "hadoop-2.7.3" / "random-snapshot-2")
    made, _ = made_of(case, tmp_path, healing=HealingMode.AS_HADOOP)
    with ImageFile.open(made) as ours, ImageFile.open(case.expected_images()[0]) as theirs:
        comparison = ImageComparison(ours, theirs)
        differences = list(comparison.differences())
        assert differences
        assert [each for each in differences if not comparison.is_replay_time(each)] == []
