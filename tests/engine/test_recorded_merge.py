"""The whole merge on recorded storage directories, compared with the images that Hadoop made of the same edits."""

from __future__ import annotations

import itertools
import json
import re
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
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import Saved, merge_bytes, merged, store
from tests.engine.op_makers import delete, mkdir, set_permissions, times
from tests.engine.replay_twins import check_update
from tests.recorded_cases import ALL_CASES, PLAIN_CASES, RECORDED, Case, imgcmp

pytestmark = pytest.mark.recorded

ODD = RECORDED / "hadoop-3.4.1" / "odd"
NOT_LOADING = [Case(path) for path in sorted([*ODD.glob("namenode-own-*"), *ODD.glob("dangling-child-*")])]
UNKNOWN = [Case(path) for path in sorted(ODD.glob("unknown-*"))]
RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")
CODEC = "org.apache.hadoop.io.compress."

BROKEN_BASES = [case for case in NOT_LOADING if case.path.name.startswith("namenode-own-image-fails-")]
# edits of an earlier namespace that the log does not record, so that their effect is unknown
UNKNOWN_STATE = {"namenode-own-edits-fail-2"}
# Accepted differences from a Hadoop image that no NameNode loads, by the beginning of their lines.
KNOWN_DIFFERENCES = {
    # Hadoop searches for a name in an unsorted created list, and does not find it
    "hadoop-2.7.3/random-snapshot-551343": ("diffs (2, 16387)",),
    # a block that no snapshot needs, which Hadoop 3.4 and newer releases drop
    "hadoop-3.3.6/sub-sections": ("inodes 16510 file.blocks",),
}
HEALED = [
    Case(RECORDED / "hadoop-2.7.3" / "random-mixed-551376"),
    Case(RECORDED / "hadoop-2.7.3" / "random-snapshot-551343"),
    Case(RECORDED / "hadoop-3.4.1" / "held-random-9"),
    Case(RECORDED / "hadoop-3.4.1" / "r-snapshot-sub-770036"),
]

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


@pytest.mark.parametrize("case", HEALED, ids=lambda case: case.id)
def test_strict_merge_refuses_images_that_need_healing(case: Case, tmp_path: Path) -> None:
    folder = case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    before = fingerprint(folder)
    code, out, err = run_cli("merge", tmp_path / "nn", "--conf", conf, "--strict", "--json")
    assert (code, json.loads(out)["code"]) == (4, 4)
    assert "inconsistent with its children" in err or "the snapshots are inconsistent" in err
    assert fingerprint(folder) == before


def test_strict_merge_reports_edits_after_which_a_namenode_terminates(tmp_path: Path) -> None:
    """A NameNode finds the inconsistency after the last operation, when it computes quota usage."""
    case = Case(RECORDED / "hadoop-3.4.1" / "r-snapshot-sub-770036")
    case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    code, _, err = run_cli("merge", tmp_path / "nn", "--conf", conf, "--strict")
    assert code == 4
    assert "inconsistent with its children at" in err
    assert "do not restart a running NameNode" in err


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_kernels_and_plain_functions_write_the_same_bytes(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hadoop 2.7 gives snapshots the time of their replay
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


def ready(case: Case, folder: Path) -> Path:
    """Copy an odd case as left by a NameNode that ends after its newest edits; return `current`."""
    current = case.copy_to(folder)
    last = max(int(path.name.rpartition("-")[2]) for path in current.glob("edits_*"))
    (current / "seen_txid").write_text(f"{last}\n")
    return current


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


def test_symlink_lost_by_hadoop_is_kept_and_reported(tmp_path: Path) -> None:
    """Hadoop forgets the inode of a link that is in a snapshot; our merge keeps the inode in the snapshot."""
    case = Case(RECORDED / "hadoop-2.7.3" / "symlinks")
    case.copy_to(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--json")
    assert code == 0
    answer = json.loads(out)
    (healed,) = answer["healed"]
    assert (healed["code"], healed["section"], healed["inode"]) == ("diff-deleted", "SNAPSHOT_DIFF", 16393)
    assert f"healed: diff-deleted [SNAPSHOT_DIFF, inode 16393, {healed['path']}]: {healed['message']}" in err
    link = Saved(Path(answer["image"]).read_bytes()).inodes[16393]
    assert link.name.decode() == healed["path"].rpartition("/")[2]
    assert link.symlink.target


def test_as_hadoop_does_not_heal_but_warns(tmp_path: Path) -> None:
    case = Case(RECORDED / "hadoop-2.7.3" / "symlinks")
    case.copy_to(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--as-hadoop", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["healed"] == []
    (warning,) = answer["warnings"]
    assert "inode 16393 first" in warning
    assert f"warning: {warning}" in err
    assert run_cli("image", "verify", answer["image"]).code == 3


def test_healing_options_are_mutually_exclusive(tmp_path: Path) -> None:
    assert run_cli("merge", tmp_path, "--as-hadoop", "--strict").code == 2


@pytest.mark.parametrize("case", BROKEN_BASES, ids=lambda case: case.path.name)
@pytest.mark.parameters(1)
def test_unloadable_base_image_is_healed_before_replay(case: Case, tmp_path: Path) -> None:
    folder = ready(case, tmp_path / "nn")
    before = fingerprint(folder)
    for options in (("--strict",), ()):
        code, out, err = run_cli("merge", tmp_path / "nn", "--json", *options)
        if options:
            assert (code, fingerprint(folder)) == (3, before)
            assert "are inconsistent with the image" in err
    answer = json.loads(out)
    reported = [each for each in answer["healed"] if "in the old image" in each["message"]]
    assert {each["code"] for each in reported} <= {"diff-deleted", "diff-created"}
    assert any(each["code"] == "diff-deleted" for each in reported)
    assert run_cli("image", "verify", answer["image"]).code == 0
    assert {name: digest for name, digest in fingerprint(folder).items() if name in before} == before


def test_inconsistent_image_with_a_wrong_digest_is_not_healed(tmp_path: Path) -> None:
    """Only images that a NameNode wrote are healed; a wrong digest shows that something changed the image later."""
    folder = ready(BROKEN_BASES[0], tmp_path / "nn")
    (image,) = folder.glob("fsimage_" + "?" * 19)
    image.with_name(image.name + ".md5").write_text(f"{'0' * 32} *{image.name}\n")
    before = fingerprint(folder)
    code, _, err = run_cli("merge", tmp_path / "nn")
    assert (code, fingerprint(folder)) == (3, before)
    assert "MD5" in err


@pytest.mark.parametrize("case", NOT_LOADING, ids=lambda case: case.path.name)
@pytest.mark.parameters(2)
def test_input_that_stops_a_namenode_is_refused_or_merged_to_a_valid_image(case: Case, tmp_path: Path) -> None:
    """Hadoop wrote an image that it cannot load, or edits that it cannot replay."""
    ready(case, tmp_path)
    before = fingerprint(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--json")
    assert bool(code) == (case.path.name in UNKNOWN_STATE)
    if code:
        assert code == 4
        assert re.search(r"OP_[A-Z_]+ at txid \d+", err)
        assert fingerprint(tmp_path) == before
    else:
        code, _, err = run_cli("image", "verify", json.loads(out)["image"])
        assert (code, err) == (0, "")


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
        with pytest.raises(UnsupportedOperationError, match="fields this version does not know"):
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
