"""Formatting of the directories and journals of a stub."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.storage.inspector import StorageState, inspect
from hadoop_common.errors import HdfsError, StorageError
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT
from image_format.reader import ImageFile
from journal.errors import JournalExistsError
from journal.quorum.errors import QuorumError
from namenode_stub.edit_journals import open_other_journals
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from tests.checkpointer.quorum_support import Quorum
from tests.namenode_stub.ha_support import config_on, pair_on
from tests.namenode_stub.stub_support import formatted, stub_config_for
from tests.recorded_cases import imgcmp


@pytest.mark.parametrize("layout", range(NEWEST_LAYOUT, MIN_MERGE_LAYOUT + 1))
def test_a_formatted_directory_contains_only_the_root(tmp_path: Path, layout: int) -> None:
    config = formatted(tmp_path, layout)
    for directory in config.storage_directories:
        found = inspect(directory)
        assert found.version is not None
        assert (found.version.layout_version, found.seen_txid) == (layout, 0)
    found = inspect(config.image_directories[0])
    assert found.state is StorageState.NORMAL
    with ImageFile.open(found.images[0].path) as image:
        assert (image.layout_version, image.txid) == (layout, 0)
    seen = imgcmp.Image(str(found.images[0].path))
    assert seen.layout == layout
    with NameNodeStub(config) as stub:
        assert [status.path for status in stub.namespace.walk()] == ["/"]


def test_format_refuses_formatted_directories(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    before = inspect(config.image_directories[0])
    with pytest.raises(StorageError, match="already formatted"):
        format_storage([tmp_path / "new"], [tmp_path / "shared"], new_storage_info(-67))
    assert inspect(config.image_directories[0]) == before
    assert not (tmp_path / "new").exists()


def test_forced_format_starts_a_new_namespace(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")
        with pytest.raises(StorageError, match="is held by"):
            format_storage(config.image_directories, config.edits_directories, new_storage_info(-67), force=True)
    info = new_storage_info(-63)
    format_storage(config.image_directories, config.edits_directories, info, force=True)
    for directory in config.storage_directories:
        assert inspect(directory).version == info
        assert not list((directory / "current").glob("edits_*"))
    with NameNodeStub(config) as stub:
        assert [status.path for status in stub.namespace.walk()] == ["/"]


def test_format_formats_a_new_quorum_but_not_an_existing_one(tmp_path: Path) -> None:
    with Quorum(tmp_path / "nodes") as quorum:
        config, _ = pair_on(quorum.uri, tmp_path)
        with NameNodeStub(config) as stub:
            stub.namespace.mkdirs("/a")
        other = config_on(quorum.uri, tmp_path / "other")
        (journal,) = open_other_journals(other)
        where = other.image_directories, other.edits_directories, new_storage_info(-63)
        with pytest.raises(JournalExistsError, match="qjournal://"):
            format_storage(*where, journals=[journal])
        assert not (tmp_path / "other").exists()
        quorum.nodes[2].stop()
        with pytest.raises(QuorumError):
            format_storage(*where, journals=[journal], force=True)
        assert not (tmp_path / "other/name/current").exists()
        quorum.nodes[2].start()
        format_storage(*where, journals=[journal], force=True)
        journal.close()
        with NameNodeStub(other) as stub:
            assert [status.path for status in stub.namespace.walk()] == ["/"]


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HdfsError):
        formatted(tmp_path, -12)


def test_unformatted_storage_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist") as caught, NameNodeStub(stub_config_for(tmp_path)):
        pass
    assert "format" in caught.value.hint
    (tmp_path / "name").mkdir()
    (tmp_path / "shared").mkdir()
    with pytest.raises(StorageError, match="not formatted"), NameNodeStub(stub_config_for(tmp_path)):
        pass
