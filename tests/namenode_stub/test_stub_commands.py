"""`namenode-stub` with operator mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from checkpointer.storage.inspector import inspect
from hadoop_common.configuration import Configuration
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode
from namenode_stub.__main__ import cli
from namenode_stub.bootstrap import bootstrap_standby
from namenode_stub.config import StubConfig, stub_config
from namenode_stub.node import NameNodeStub
from tests.interop.hadoop_conf import HadoopConf, ha_pair_confs
from tests.namenode_stub.ha_support import status
from tests.namenode_stub.stub_support import wait_until


@pytest.fixture
def confs(tmp_path: Path) -> tuple[HadoopConf, HadoopConf]:
    """Configure nn1 and nn2 on a shared directory."""
    first, second, _ = ha_pair_confs(tmp_path, {"dfs.ha.tail-edits.period": "50ms"})
    return first, second


def invoke(conf: HadoopConf, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--conf", str(conf.folder)])


def refusal(result: Result) -> HdfsError:
    assert isinstance(result.exception, HdfsError), result.output
    return result.exception


def test_a_second_format_requires_force(confs: tuple[HadoopConf, HadoopConf]) -> None:
    first, _ = confs
    assert "formatted, cluster CID-" in invoke(first, "format").output
    again = refusal(invoke(first, "format"))
    assert ("already formatted" in again.message, again.exit_code) == (True, ExitCode.STORAGE)
    assert "--force" in again.hint
    assert invoke(first, "format", "--force").exit_code == 0


def test_a_bootstrap_without_an_active_namenode_is_refused(confs: tuple[HadoopConf, HadoopConf]) -> None:
    first, second = confs
    invoke(first, "format")
    nobody = refusal(invoke(second, "bootstrap-standby"))
    assert "no image to start from" in nobody.message
    assert not (second.name_dir / "current").exists()
    occupied = refusal(invoke(first, "bootstrap-standby"))
    assert ("already formatted" in occupied.message, "--force" in occupied.hint) == (True, True)


def test_a_transition_without_a_running_namenode_fails(confs: tuple[HadoopConf, HadoopConf]) -> None:
    result = invoke(confs[0], "transition", "active")
    assert (result.exit_code, "no NameNode answers there" in result.output) == (1, True)
    assert invoke(confs[0], "transition", "observer").exit_code == 2


def test_a_bootstrap_also_formats_edits_directories(confs: tuple[HadoopConf, HadoopConf], tmp_path: Path) -> None:
    first, second = confs
    second.update({"dfs.namenode.edits.dir": (tmp_path / "edits").as_uri()})
    invoke(first, "format")
    with NameNodeStub(config_of(first)) as active:
        active.namespace.mkdirs("/a")
        assert "formatted with the image at txid 0" in invoke(second, "bootstrap-standby").output
        for directory in (second.name_dir, tmp_path / "edits"):
            assert inspect(directory).version == active.images.storage_info()
        with NameNodeStub(config_of(second), standby=True) as standby:
            with pytest.raises(StorageError, match="is held by"):
                bootstrap_standby(Configuration.load(second.folder, environment={}), force=True)
            last = active.active.roll() - 1
            wait_until("the standby to follow", lambda: status(standby)["lastTxid"] >= last)
        (tmp_path / "edits/current/edits_0000000000000000001-0000000000000000002").write_bytes(b"of old")
        assert invoke(second, "bootstrap-standby", "--force").exit_code == 0
        assert inspect(tmp_path / "edits").segments == ()


def config_of(conf: HadoopConf) -> StubConfig:
    return stub_config(Configuration.load(conf.folder, environment={}))
