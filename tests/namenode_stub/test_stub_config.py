"""Settings of the stub, read from Hadoop's keys."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.hadoop_releases import Release
from namenode_stub.config import stub_config
from namenode_stub.edit_journals import journal_name, open_edit_journals


def settings(**values: str) -> Configuration:
    given = {"dfs.namenode.name.dir": "/data/name", "dfs.namenode.http-address": "127.0.0.1:0"}
    given.update({name.replace("__", "-").replace("_", "."): value for name, value in values.items()})
    return Configuration.from_mapping(given, {})


def test_a_stub_needs_no_shared_directory() -> None:
    config = stub_config(settings())
    assert config.shared_edits_directory is None
    assert config.edits_directories == config.image_directories == (Path("/data/name"),)
    assert config.web.http == ("127.0.0.1", 0)


def test_edits_are_also_written_to_the_shared_directory() -> None:
    config = stub_config(settings(dfs_namenode_shared_edits_dir="file:///shared", dfs_namenode_checkpoint_txns="10"))
    assert config.edits_directories == (Path("/data/name"), Path("/shared"))
    assert config.shared_edits_directory == Path("/shared")
    assert config.roll_transactions == 5


def test_separate_edits_directories() -> None:
    given = settings(
        dfs_namenode_edits_dir="/a,/b",
        dfs_namenode_shared_edits_dir="/shared",
        dfs_namenode_edits_dir_required="/b",
        dfs_namenode_edits_dir_minimum="2",
        dfs_namenode_name_dir_restore="true",
    )
    config = stub_config(given)
    assert config.image_directories == (Path("/data/name"),)
    assert config.edits_directories == (Path("/a"), Path("/b"), Path("/shared"))
    assert config.storage_directories == (Path("/data/name"), *config.edits_directories)
    assert (config.required_edits, config.minimum_edits) == (("file:///b",), 2)
    assert config.restore_edits
    plain = stub_config(settings())
    assert (plain.required_edits, plain.minimum_edits) == ((), 1)
    assert not plain.restore_edits
    journals = open_edit_journals(config, [])
    assert journals.location == "file:///shared,file:///b,file:///a"  # written in this order


def test_quorum_and_json_journals() -> None:
    quorum = "qjournal://a:1;b;c:3/ns1"
    given = settings(
        dfs_namenode_edits_dir="/a,json:///j",
        dfs_namenode_shared_edits_dir=quorum,
        dfs_namenode_edits_dir_required="json:///j",
        dfs_qjournal_write__txns_timeout_ms="1500",
    )
    config = stub_config(given)
    assert config.edits == ("file:///a", "json:///j", "qjournal://a:1;b:8485;c:3/ns1")
    assert (config.shared_edits, config.shared_edits_directory) == (config.edits[2], None)
    assert config.edits_directories == (Path("/a"),)
    assert config.own_directories == (Path("/data/name"), Path("/a"))
    assert config.quorum.write_transactions == 1.5
    journals = open_edit_journals(config, [])
    assert journals.location == f"{config.edits[2]},json:///j,file:///a"
    assert [(each.required, each.shared) for each in journals.members] == [(True, True), (True, False), (False, False)]
    assert [journal_name(each.journal) for each in journals.members] == [config.edits[2], "json:///j", "/a/current"]
    journals.close()


def test_settings_of_a_standby() -> None:
    alone = stub_config(settings())
    assert (alone.standby.namenodes, alone.standby.tail_period, alone.nameservice) == ((), 60.0, "")
    given = settings(
        dfs_nameservices="ns",
        dfs_ha_namenodes_ns="nn1,nn2",
        dfs_ha_namenode_id="nn2",
        dfs_namenode_rpc__address_ns_nn1="h1:1",
        dfs_namenode_http__address_ns_nn1="h1:2",
        dfs_namenode_http__address_ns_nn2="h2:2",
        dfs_ha_tail__edits_period="5s",
        dfs_ha_tail__edits_in__progress="true",
    )
    config = stub_config(given)
    assert config.standby.namenodes == (("http://h1:2", ("h1", 1)),)
    assert (config.standby.tail_period, config.standby.tail_in_progress, config.nameservice) == (5.0, True, "ns")
    with pytest.raises(ConfigurationError, match=r"tail-edits\.period"):
        stub_config(settings(dfs_ha_tail__edits_period="-1s"))


def test_a_required_directory_must_be_an_edits_directory() -> None:
    with pytest.raises(ConfigurationError, match=r"edits\.dir\.required"):
        stub_config(settings(dfs_namenode_edits_dir_required="/elsewhere"))


def test_keys_of_the_rpc_address() -> None:
    assert stub_config(settings()).rpc_address is None
    assert stub_config(settings(fs_defaultFS="hdfs://h")).rpc_address == ("h", 8020)
    assert stub_config(settings(fs_defaultFS="hdfs://h:9000")).rpc_address == ("h", 9000)
    assert stub_config(settings(fs_defaultFS="hdfs://ns", dfs_nameservices="ns")).rpc_address is None
    assert stub_config(settings(fs_defaultFS="file:///")).rpc_address is None
    own = settings(fs_defaultFS="hdfs://h:9000", dfs_namenode_rpc__address="127.0.0.1")
    assert stub_config(own).rpc_address == ("127.0.0.1", 8020)
    wide = settings(dfs_namenode_rpc__address="h:1", dfs_namenode_rpc__bind__host="0.0.0.0")
    assert stub_config(wide).rpc_address == ("0.0.0.0", 1)


def test_the_superuser_is_the_process_user_or_hadoop_user_name() -> None:
    assert stub_config(settings()).rpc_user == pwd.getpwuid(os.geteuid()).pw_name
    named = Configuration.from_mapping({"dfs.namenode.name.dir": "/data/name"}, {"HADOOP_USER_NAME": "alice"})
    assert stub_config(named).rpc_user == "alice"


def test_metasave_uses_the_log_directory_of_hadoop() -> None:
    assert stub_config(settings()).log_directory == Path()
    named = Configuration.from_mapping({"dfs.namenode.name.dir": "/data/name"}, {"HADOOP_LOG_DIR": "/var/log/hadoop"})
    assert stub_config(named).log_directory == Path("/var/log/hadoop")


def test_server_defaults_follow_the_configuration() -> None:
    config = stub_config(settings(dfs_blocksize="64m", fs_trash_interval="60", dfs_ls_limit="7"))
    assert (config.server_defaults.block_size, config.server_defaults.trash_interval) == (64 << 20, 60)
    assert (config.server_defaults.replication, config.list_limit, config.supergroup) == (3, 7, "supergroup")


def test_the_minimum_block_size_is_configurable() -> None:
    config = stub_config(settings(**{"dfs_namenode_fs__limits_min__block__size": "512"}))
    assert (config.min_block_size, stub_config(settings()).min_block_size) == (512, 1 << 20)


def test_the_reported_release_is_configurable() -> None:
    def release(**values: str) -> Release | None:
        return stub_config(settings(**values)).release

    version, build = "checkpointer_stub_hadoop_version", "checkpointer_stub_hadoop_build_version"
    assert release() is None
    assert release(**{version: "3.5.0"}) == Release("3.5.0", "dbcc7cd797100e6b32cd84f85b53a5193a5f9af0")
    assert release(**{version: "3.3.6-vendor", build: "abc"}) == Release("3.3.6-vendor", "abc")
    for faulty in ({version: "3.3.6-vendor"}, {build: "abc"}):
        with pytest.raises(ConfigurationError, match="hadoop"):
            release(**faulty)


def test_all_faults_are_reported_at_once() -> None:
    faulty = settings(
        dfs_namenode_name_dir="relative",
        dfs_namenode_checkpoint_txns="0",
        dfs_namenode_checkpoint_period="soon",
        dfs_ha_log__roll_period="x",
        dfs_namenode_num_checkpoints_retained="0",
        dfs_namenode_rpc__address="h:x",
        dfs_blocksize="many",
    )
    with pytest.raises(ConfigurationError) as caught:
        stub_config(faulty)
    assert {fault.key for fault in caught.value.faults} == {
        "dfs.namenode.name.dir",
        "dfs.namenode.checkpoint.txns",
        "dfs.namenode.checkpoint.period",
        "dfs.ha.log-roll.period",
        "dfs.namenode.num.checkpoints.retained",
        "dfs.namenode.rpc-address",
        "dfs.blocksize",
    }
