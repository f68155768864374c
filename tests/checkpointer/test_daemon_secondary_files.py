"""The secondary role: damaged files in its directories, and the configuration of the directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.configuration import ConfigurationError
from hadoop_common.names import image_name, parse_segment
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, secondary_config, segment_names, sound
from tests.namenode_stub.namenode_double import NamenodeDouble

# ---- damaged files in the directories ----------------------------------------------------------------------


def test_a_damaged_image_is_fetched_again(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node) as first:
        done(first)
        path = first.folder / image_name(88)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    node.steps.clear()
    with Secondary.of(tmp_path, node) as second:
        assert done(second) == 151
        assert sound(second.folder)
    assert "image" in node.steps


@pytest.mark.parametrize("cut", [0, 5, -7])
def test_a_damaged_segment_is_fetched_again(node: NamenodeDouble, tmp_path: Path, cut: int) -> None:
    with Secondary.of(tmp_path, node) as first:
        node.faults["segment-59"] = 500
        assert first.checkpoint().state is TriggerState.FAILED
        path = next(first.folder.glob("edits_*048-*"))
        path.write_bytes(path.read_bytes()[:cut])
        node.faults.clear()
        node.steps.clear()
        assert done(first) == 151
    assert node.transfers() == [*(f"segment-{number}" for number in (48, 59, 89, 111, 137)), "upload"]


# ---- edits for the archive ---------------------------------------------------------------------------------


def edits_after_the_namenode_saved_an_image(node: NamenodeDouble, folder: Path, **changes: str) -> list[str]:
    """Make a checkpoint at txid 88, then a checkpoint from an image that the NameNode saved; return our segments."""
    with Secondary.of(folder, node, **changes) as secondary:
        assert done(secondary) == 88
        node.save_namespace()
        node.save_namespace()
        done(secondary)
        return segment_names(secondary.folder)


def test_edits_before_an_image_of_the_namenode_are_fetched_for_the_archive(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    """The NameNode has them, so the archive need not have a gap."""
    node.keeps_edits = True
    archived = {"checkpointer__archive__dir": str(tmp_path / "archive")}
    names = edits_after_the_namenode_saved_an_image(node, tmp_path / "a", **archived)
    found = [parse_segment(name) for name in names]
    assert [each.first for each in found[1:] if each] == [each.last + 1 for each in found[:-1] if each and each.last]
    assert len(found) > 3


@pytest.mark.parametrize("why", ["no archive", "purged", "fault"])
def test_a_checkpoint_does_not_depend_on_edits_for_the_archive(node: NamenodeDouble, tmp_path: Path, why: str) -> None:
    node.keeps_edits = why != "purged"
    if why == "fault":
        node.faults["segment-89"] = 500
    changes = {} if why == "no archive" else {"checkpointer__archive__dir": str(tmp_path / "archive")}
    names = edits_after_the_namenode_saved_an_image(node, tmp_path / "a", **changes)
    assert not any(name.startswith("edits_0000000000000000089") for name in names)


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
