"""Directories of a secondary: damaged files, retention, and directories that are refused, adopted or dropped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import StorageError
from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.storage_info import ForeignDirectoryError
from namenode_stub.formatting import format_storage, new_storage_info
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, image_txids, secondary_config, segment_names
from tests.cli_runner import fingerprint, run_cli
from tests.namenode_stub.namenode_double import NamenodeDouble

# ---- configuration -----------------------------------------------------------------------------------------


def test_edits_are_stored_with_the_images_by_default(tmp_path: Path) -> None:
    config = secondary_config(tmp_path, 1, 2)
    assert config.edits_directories == config.image_directories == (tmp_path / "secondary",)


def test_directories_of_a_nameservice(tmp_path: Path) -> None:
    scoped = {"dfs.nameservices": "ns", "dfs.namenode.checkpoint.dir.ns": "/images"}
    config = secondary_config(tmp_path, 1, 2, **scoped)
    assert config.edits_directories == config.image_directories == (Path("/images"),)
    # a site file may contain Hadoop's default as a value, or as part of a value
    for own, paths in (("", ["/images"]), ("/e,/f", ["/images/e", "/f"])):
        edits = {"dfs.namenode.checkpoint.edits.dir": f"${{dfs.namenode.checkpoint.dir}}{own}"}
        config = secondary_config(tmp_path, 1, 2, **scoped, **edits)
        assert config.edits_directories == tuple(map(Path, paths))


def test_secondary_of_an_ha_nameservice_is_rejected(tmp_path: Path) -> None:
    values = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "nn1,nn2",
        "dfs.namenode.rpc-address.ns.nn1": "one:8020",
        "dfs.namenode.rpc-address.ns.nn2": "two:8020",
    }
    with pytest.raises(ConfigurationError, match="use --role standby"):
        secondary_config(tmp_path, 1, 2, **values)


def test_several_directories_for_images_and_for_edits(node: NamenodeDouble, tmp_path: Path) -> None:
    images, edits = ([tmp_path / f"{kind}{number}" for number in range(2)] for kind in ("images", "edits"))
    values = {
        "dfs.namenode.checkpoint.dir": ",".join(map(str, images)),
        "dfs.namenode.checkpoint.edits.dir": ",".join(map(str, edits)),
    }
    with Secondary.of(tmp_path, node, **values) as secondary:
        done(secondary)
        assert done(secondary) == 151
    for root in images:
        assert image_txids(root / "current") == [88, 151]
        assert segment_names(root / "current") == []
    for root in edits:
        assert image_txids(root / "current") == []
        assert len(segment_names(root / "current")) == 6
    # another checkpoint, on top of the existing files
    with Secondary.of(tmp_path, node, **values) as secondary:
        assert done(secondary) == 172


def test_directory_with_images_but_no_version_is_rejected(node: NamenodeDouble, tmp_path: Path) -> None:
    shutil.copytree(node.folder, tmp_path / "secondary" / "current")
    for name in ("VERSION", "seen_txid"):
        (tmp_path / "secondary/current" / name).unlink()
    with pytest.raises(StorageError, match="no VERSION with their namespace"):
        Secondary.of(tmp_path, node).role.open()


@pytest.mark.parametrize("kind", ["JOURNAL_NODE", "DATA_NODE"])
def test_directory_of_another_node_is_rejected_unchanged(node: NamenodeDouble, tmp_path: Path, kind: str) -> None:
    current = tmp_path / "secondary" / "current"
    current.mkdir(parents=True)
    text = f"storageType={kind}\nclusterID=CID\nnamespaceID=1\ncTime=0\nlayoutVersion=-57\n"
    (current / "VERSION").write_text(text)
    (current / segment_name(1, 3)).write_bytes(b"")
    before = fingerprint(tmp_path / "secondary")
    with pytest.raises(ForeignDirectoryError, match=f"VERSION belongs to a {kind}") as caught:
        Secondary.of(tmp_path, node).role.open()
    assert "was not changed" in caught.value.hint
    for options in ((), ("--dry-run",)):
        outcome = run_cli("merge", tmp_path / "secondary", *options)
        assert (outcome.code, f"belongs to a {kind}" in outcome.err) == (6, True)
    with pytest.raises(ForeignDirectoryError):
        format_storage([tmp_path / "other"], [tmp_path / "secondary"], new_storage_info(-67), force=True)
    assert fingerprint(tmp_path / "secondary") == before


@pytest.mark.parametrize("evidence", ["seen_txid", "open segment"])
def test_directory_of_a_stopped_namenode_is_rejected(node: NamenodeDouble, tmp_path: Path, evidence: str) -> None:
    current = tmp_path / "secondary" / "current"
    shutil.copytree(node.folder, current)
    if evidence == "open segment":
        (current / "seen_txid").unlink()
        (current / inprogress_name(500)).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in current.iterdir()}
    with pytest.raises(StorageError, match="is not a checkpoint directory, but the directory of a NameNode") as caught:
        Secondary.of(tmp_path, node).role.open()
    assert "dfs.namenode.checkpoint.dir" in caught.value.hint
    assert {path.name: path.read_bytes() for path in current.iterdir()} == before


@pytest.mark.parametrize("seen_txid", [None, "0"])
def test_directory_of_another_secondary_is_adopted(node: NamenodeDouble, tmp_path: Path, seen_txid: str | None) -> None:
    """Hadoop's secondary writes no seen_txid; an earlier release of our secondary wrote 0."""
    current = tmp_path / "secondary" / "current"
    shutil.copytree(node.folder, current)
    (current / "seen_txid").unlink()
    if seen_txid is not None:
        (current / "seen_txid").write_text(f"{seen_txid}\n")
    for path in current.glob("edits_inprogress_*"):
        path.unlink()
    with Secondary.of(tmp_path, node) as secondary:
        assert done(secondary) == 88


def test_start_with_one_of_two_directories_unusable(node: NamenodeDouble, tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    values = {"dfs__namenode__checkpoint__dir": ",".join(map(str, roots))}
    with Secondary.of(tmp_path, node, **values) as secondary:
        done(secondary)
    away = roots[0].rename(tmp_path / "away")
    roots[0].symlink_to(tmp_path / "nowhere")
    with Secondary.of(tmp_path, node, **values) as secondary:
        assert done(secondary) == 151
        status = secondary.service.status()
        assert status["ready"]
        assert [f"storage directory {roots[0]} is not used: " in alarm for alarm in status["alarms"]] == [True]
        roots[0].unlink()
        away.rename(roots[0])
        assert done(secondary) == 172
        assert secondary.service.status()["alarms"] == []
    assert image_txids(roots[0] / "current")[-1] == 172


def test_only_directory_is_used_again_once_it_is_readable(node: NamenodeDouble, tmp_path: Path) -> None:
    """An unreadable image proves nothing, and the directory is used again automatically."""
    root = tmp_path / "secondary"
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        behind = secondary.service.status()["transactionsBehind"]
        root.rename(tmp_path / "away")
        for _ in range(2):
            result = secondary.service.poll()
            assert (result.state, "no checkpoint directory is left" in result.message) == (TriggerState.FAILED, True)
            status = secondary.service.status()
            assert (status["ready"], status["transactionsBehind"], status["imageTxid"]) == (False, None, 88)
        assert "Mount its file system." in secondary.service.request(force=True, wait=True).details["hint"]
        (tmp_path / "away").rename(root)
        assert secondary.service.poll().state is TriggerState.SKIPPED
        status = secondary.service.status()
        assert (status["ready"], status["transactionsBehind"], status["alarms"]) == (True, behind, [])


def test_lost_directory_is_dropped(node: NamenodeDouble, tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    with Secondary.of(tmp_path, node, dfs__namenode__checkpoint__dir=",".join(map(str, roots))) as secondary:
        done(secondary)
        shutil.rmtree(roots[0] / "current")
        assert done(secondary) == 151
        assert "is empty, but" in secondary.role.storage()[str(roots[0])]
        assert "is empty, but" in secondary.service.status()["alarms"][0]
    assert image_txids(roots[1] / "current") == [88, 151]
    # the next start uses the directory again if an operator requests it
    (roots[0] / "current").mkdir()
    with Secondary.of(tmp_path, node, dfs__namenode__checkpoint__dir=",".join(map(str, roots))) as secondary:
        assert done(secondary) == 172
    assert image_txids(roots[0] / "current") == [172]


def test_old_images_and_edits_are_deleted(node: NamenodeDouble, tmp_path: Path) -> None:
    changes = {"dfs.namenode.num.checkpoints.retained": "1", "dfs.namenode.num.extra.edits.retained": "0"}
    with Secondary.of(tmp_path, node, **changes) as secondary:
        done(secondary)
        assert done(secondary) == 151
        assert image_txids(secondary.folder) == [151]
        assert segment_names(secondary.folder) == []
