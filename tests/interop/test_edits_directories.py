"""Edits directories move from our journal set to a real NameNode and back, in any state that a writer leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from journal.segment_file import list_segments
from journal.segment_stream import SegmentStream
from namenode_stub.config import StubConfig, stub_config
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from tests.interop.clients import ClientJvm
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER

pytestmark = pytest.mark.interop


@pytest.fixture
def conf(tmp_path: Path) -> HadoopConf:
    directories = ",".join((tmp_path / name).as_uri() for name in ("a", "b"))
    made = HadoopConf(tmp_path, {"dfs.namenode.name.dir": directories, "dfs.namenode.name.dir.restore": "true"})
    config = config_of(made)
    format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(SERVER.layout))
    return made


def config_of(conf: HadoopConf) -> StubConfig:
    return stub_config(Configuration.load(conf.folder, environment={}))


def test_edits_survive_a_failed_directory_across_stub_and_namenode(
    conf: HadoopConf, client_jvm: ClientJvm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The directory contains the beginning of the segment in which it failed, and the next segment.

    The NameNode writes to both directories again, and the stub reads these edits.
    """
    append = SegmentStream.append
    broken = False

    def failing(stream: SegmentStream, data: bytes | bytearray | memoryview) -> None:
        if broken and stream.directory.parent == tmp_path / "b":
            raise OSError(5, "Input/output error")
        append(stream, data)

    monkeypatch.setattr(SegmentStream, "append", failing)
    monkeypatch.setattr("journal.journal_set.JournalSet.copy_missing", lambda journals, stopping: 0)
    with NameNodeStub(config_of(conf)) as stub:
        stub.namespace.mkdirs("/one")
        broken = True
        stub.namespace.mkdirs("/two")
        stub.active.roll()
        broken = False
        stub.active.roll()
        stub.namespace.mkdirs("/three")
    held = [[each.path.name for each in list_segments(tmp_path / name / "current")] for name in ("a", "b")]
    assert len(held[1]) == len(held[0]) - 1
    assert held[0][0] != held[1][0]
    client = client_jvm.of(conf)
    with NameNode(conf):
        client.shell("-mkdir", "/after").checked()
        assert sorted(client.namespace()) == ["/", "/after", "/one", "/three", "/two"]
    with NameNodeStub(config_of(conf)) as stub:
        assert [each.path for each in stub.namespace.walk()] == ["/", "/after", "/one", "/three", "/two"]
