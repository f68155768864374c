"""The secondary role: damaged files in its directories, and the configuration of the directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.configuration import ConfigurationError
from hadoop_common.names import image_name
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, secondary_config, sound
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
