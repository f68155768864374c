from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.configuration import Configuration, ConfigurationError, ConfigurationFault
from hadoop_common.tls.settings import Verifier
from site_config import checkpoint_config
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.keys import DEFAULTS, KEYS
from tests.site_config.config_support import HA, config, faults
from tests.site_config.junk import JUNK

SINGLE = {"fs.defaultFS": "hdfs://nn.example.org:8020", "dfs.namenode.shared.edits.dir": "/shared"}


def test_defaults_equal_those_of_hadoop() -> None:
    found = config(SINGLE)
    assert (found.period, found.poll_interval, found.transactions) == (3600, 60, 1_000_000)
    assert (found.quiet_multiplier, found.max_retries) == (1.5, 3)
    assert (found.images_retained, found.extra_edits_retained, found.max_extra_segments) == (2, 1_000_000, 10_000)
    assert found.image_directories == (Path("/tmp/hadoop-hdfs/dfs/name"),)
    assert (found.storage_permission, found.restore_directories) == (0o700, False)
    assert (found.transfer_timeout, found.transfer_bandwidth, found.transfer_chunk_size) == (60, 52428800, 65536)
    assert (found.merge_settings.codec, found.standby_checkpoints) == ("", True)


@pytest.mark.parametrize(
    ("role", "value", "retried"),
    [
        (Role.SECONDARY, None, True),
        (Role.SECONDARY, "false", False),
        (Role.SECONDARY, "true", True),
        (Role.STANDBY, None, False),
        (Role.STANDBY, "true", True),
        (Role.BACKUP, None, False),
    ],
)
def test_roles_that_retry_failed_directories(role: Role, value: str | None, retried: bool) -> None:
    values = SINGLE if value is None else {**SINGLE, "dfs.namenode.name.dir.restore": value}
    assert config(values, role).restore_directories is retried


@pytest.mark.parametrize("value", ["-1", "0", "-5m"])
def test_a_bandwidth_of_zero_or_less_is_unlimited(value: str) -> None:
    # as in `ImageServlet.getThrottler` and `getThrottlerForBootstrapStandby`
    names = ("dfs.image.transfer.bandwidthPerSec", "dfs.image.transfer-bootstrap-standby.bandwidthPerSec")
    found = config({**SINGLE, **dict.fromkeys(names, value)})
    assert (found.transfer_bandwidth, found.bootstrap_bandwidth) == (0, 0)


def test_only_a_backup_node_reads_its_address() -> None:
    key = "dfs.namenode.backup.address"
    values = {**SINGLE, key: "${env.NO_SUCH_HOST}:50100"}
    assert config(values, Role.SECONDARY)
    assert config(values, Role.STANDBY)
    assert list(faults(values, Role.BACKUP)) == [key]


def test_a_checkpoint_directory_must_not_be_a_namenodes_own(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "name")
    own = {**SINGLE, "dfs.namenode.name.dir": f"file://{tmp_path}/name"}
    for path in ("name", "link", "name/current", "link/current/x"):
        values = {**own, "dfs.namenode.checkpoint.dir": f"{tmp_path}/other,{tmp_path}/{path}"}
        fault = faults(values, Role.SECONDARY)["dfs.namenode.checkpoint.dir"]
        assert "which dfs.namenode.name.dir assigns to a NameNode" in fault
    edits = {**own, "dfs.namenode.edits.dir": f"{tmp_path}/edits", "dfs.namenode.checkpoint.dir": f"{tmp_path}/other"}
    assert config(edits, Role.SECONDARY)
    edits["dfs.namenode.checkpoint.edits.dir"] = f"{tmp_path}/edits"
    assert "dfs.namenode.checkpoint.edits.dir" in faults(edits, Role.SECONDARY)
    # other directories of a NameNode do not matter to a secondary
    assert config({**SINGLE, "dfs.namenode.edits.dir": "bookkeeper://zk/ledgers,${nothing}"}, Role.SECONDARY)
    # a standby has the directories of a NameNode
    assert config({**own, "dfs.namenode.checkpoint.dir": f"{tmp_path}/name"}, Role.STANDBY)


@pytest.mark.parametrize("default_fs", [{}, {"fs.defaultFS": "viewfs://cluster/"}])
def test_an_assumed_rpc_address_is_a_warning(default_fs: dict[str, str]) -> None:
    """Without the right core-site.xml, fs.defaultFS does not name the NameNode, which may use another port."""
    settings = Configuration.from_mapping({**default_fs, "dfs.namenode.http-address": "nn1:9870"}, {"USER": "hdfs"})
    found = CheckpointConfig.from_configuration(settings, Role.SECONDARY)
    assert found.namenode_rpc_addresses == (("nn1", 8020),)
    (warning,) = settings.warnings
    assert "8020 is assumed: set dfs.namenode.rpc-address" in warning


def test_a_shared_configuration_may_contain_directories_of_other_nodes(tmp_path: Path) -> None:
    """Several hosts may share one configuration, and journals are in folders of a JournalNode's directory."""
    shared = str(tmp_path / "shared")
    for role, own in ((Role.SECONDARY, "dfs.namenode.checkpoint.dir"), (Role.STANDBY, "dfs.namenode.name.dir")):
        values = {**SINGLE, own: shared, "dfs.journalnode.edits.dir": shared}
        settings = Configuration.from_mapping(values, {"USER": "hdfs"})
        assert CheckpointConfig.from_configuration(settings, role).image_directories == (Path(shared),)
        assert not settings.warnings
        values["dfs.datanode.data.dir"] = f"/a,[SSD]file://{shared}"
        settings = Configuration.from_mapping(values, {"USER": "hdfs"})
        assert CheckpointConfig.from_configuration(settings, role).image_directories == (Path(shared),)
        (warning,) = settings.warnings
        assert own in warning
        assert "which dfs.datanode.data.dir also names as a DataNode's directory" in warning
    for one, other in ("ab", "ba"):
        (tmp_path / one).symlink_to(tmp_path / other)
    loop = {**values, "dfs.datanode.data.dir": f"{tmp_path}/a"}
    assert config(loop, Role.STANDBY).image_directories == (Path(shared),)


def test_a_hanging_mount_does_not_block_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, `check` and `status` could not report the mount, and a reload would hang."""
    released, real = threading.Event(), os.path.realpath

    def hanging(path: Path) -> str:
        if path.name == "shared":
            released.wait(600)
        return real(path)

    monkeypatch.setattr(os.path, "realpath", hanging)
    monkeypatch.setattr(checkpoint_config, "_RESOLVE_SECONDS", 0.05)
    try:
        found = config({**HA, "dfs.namenode.shared.edits.dir": f"file://{tmp_path}/shared"})
    finally:
        released.set()
    assert found.shared_edits_directory == tmp_path / "shared"


def test_host_names_are_verified_unless_two_keys_disable_it() -> None:
    values = {**SINGLE, "hadoop.ssl.hostname.verifier": "ALLOW_ALL", "dfs.http.policy": "HTTP_AND_HTTPS"}
    with pytest.raises(ConfigurationError, match=r"checkpointer\.tls\.allow-all-hosts"):
        config(values)
    assert config({**values, "checkpointer.tls.allow-all-hosts": "true"}).web.tls.verifier is Verifier.ALLOW_ALL


@pytest.mark.parametrize(
    ("named", "spoken"), [("TLSv1,TLSv1.2", ("TLSv1.2",)), ("TLSv1.3", ("TLSv1.3",)), (None, ("TLSv1.2", "TLSv1.3"))]
)
def test_tls_versions_follow_the_configuration(named: str | None, spoken: tuple[str, ...]) -> None:
    given = {} if named is None else {"hadoop.ssl.enabled.protocols": named}
    assert config({**SINGLE, **given}).web.tls.versions == spoken


def test_only_old_versions_of_tls_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"names none of TLSv1\.2, TLSv1\.3"):
        config({**SINGLE, "hadoop.ssl.enabled.protocols": "TLSv1,SSLv2Hello", "dfs.http.policy": "HTTPS_ONLY"})


@pytest.mark.parametrize("role", Role)
def test_tls_keys_are_not_checked_without_tls(role: Role) -> None:
    values = {
        "fs.defaultFS": "hdfs://nn",
        "hadoop.ssl.enabled.protocols": "TLSv1",
        "hadoop.ssl.hostname.verifier": "org.example.Verifier",
        "dfs.client.https.need-auth": "maybe",
        "hadoop.ssl.client.conf": "mine.xml",
    }
    found = config(values | ({"dfs.namenode.shared.edits.dir": "/shared"} if role is Role.STANDBY else {}), role)
    assert (found.web.tls.versions, found.web.tls.verifier) == (("TLSv1.2", "TLSv1.3"), Verifier.DEFAULT)
    assert found.web.tls.client_file == Path("mine.xml")


@pytest.mark.parametrize(("text", "seconds"), [("0", math.inf), ("-1", math.inf), ("1500", 1.5)])
def test_an_rpc_timeout_of_0_means_no_limit(text: str, seconds: float) -> None:
    assert config({**SINGLE, "ipc.client.rpc-timeout.ms": text}).rpc_timeout == seconds


def test_a_transfer_timeout_of_0_means_no_limit() -> None:
    assert config({**SINGLE, "dfs.image.transfer.timeout": "0"}).transfer_timeout == math.inf


def test_keys_of_a_node_override_those_of_its_nameservice() -> None:
    name = "dfs.namenode.name.dir"
    values = {**HA, f"{name}.mycluster": "/ns"}
    assert config(values).image_directories == (Path("/ns"),)
    assert config({**values, f"{name}.mycluster.nn3": "/nn3"}).image_directories == (Path("/nn3"),)


@pytest.mark.parametrize(
    ("role", "address", "directory"),
    [
        (Role.SECONDARY, ("0.0.0.0", 9868), Path("/tmp/hadoop-hdfs/dfs/namesecondary")),
        (Role.BACKUP, ("0.0.0.0", 50105), Path("/tmp/hadoop-hdfs/dfs/name")),
    ],
)
def test_addresses_and_directories_of_other_roles(role: Role, address: tuple[str, int], directory: Path) -> None:
    found = config({"fs.defaultFS": "hdfs://nn"}, role)
    assert found.web.first == address
    assert found.image_directories == (directory,)
    assert (found.shared_edits, found.shared_edits_directory) == ("", None)


def test_poll_interval_is_at_most_the_period() -> None:
    assert config({**SINGLE, "dfs.namenode.checkpoint.period": "10s"}).poll_interval == 10


@pytest.mark.parametrize(("text", "mode"), [("750", 0o750), ("0700", 0o700), ("rwxr-x---", 0o750)])
def test_storage_directory_permission(text: str, mode: int) -> None:
    assert config({**SINGLE, "dfs.namenode.storage.dir.perm": text}).storage_permission == mode


def test_a_faulty_default_is_reported_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        config({**SINGLE, "dfs.namenode.checkpoint.dir": "${nope}/cp"}, Role.SECONDARY)
    assert [fault.key for fault in caught.value.faults] == ["dfs.namenode.checkpoint.dir"]
    assert (
        str(ConfigurationFault("(default)", "is required", "dfs.nameservice.id")) == "dfs.nameservice.id: is required"
    )


def test_all_faults_are_reported_at_once() -> None:
    found = faults(
        {
            "dfs.namenode.checkpoint.period": "soon",
            "dfs.namenode.checkpoint.txns": "0",
            "dfs.namenode.num.checkpoints.retained": "-1",
            "dfs.namenode.name.dir": "relative",
            "dfs.http.policy": "FTP",
            "dfs.namenode.storage.dir.perm": "999",
            "dfs.namenode.secondary.http-address": "host:port",
        }
    )
    assert set(found) == {
        "dfs.namenode.checkpoint.period",
        "dfs.namenode.checkpoint.txns",
        "dfs.namenode.num.checkpoints.retained",
        "dfs.namenode.name.dir",
        "dfs.http.policy",
        "dfs.namenode.storage.dir.perm",
        "dfs.namenode.secondary.http-address",
        "dfs.namenode.shared.edits.dir",
        "dfs.namenode.http-address",
    }


@pytest.mark.parametrize(
    ("change", "key", "problem"),
    [
        ({"dfs.namenode.shared.edits.dir": "qjournal://a;b;c"}, "dfs.namenode.shared.edits.dir", "names no journal"),
        ({"dfs.namenode.shared.edits.dir": "qjournal://a;a/ns"}, "dfs.namenode.shared.edits.dir", "named twice"),
        ({"dfs.namenode.shared.edits.dir": "qjournal://[a/ns"}, "dfs.namenode.shared.edits.dir", "names no journal"),
        ({"dfs.namenode.shared.edits.dir": "cassandra://zk/l"}, "dfs.namenode.shared.edits.dir", "unknown scheme"),
        ({"dfs.namenode.shared.edits.dir": "file://host/x"}, "dfs.namenode.shared.edits.dir", "not a local"),
        ({"dfs.namenode.shared.edits.dir": "/a,/b"}, "dfs.namenode.shared.edits.dir", "several directories"),
        ({"dfs.ha.namenode.id": "nn9"}, "dfs.ha.namenode.id", "is not one of"),
        ({"dfs.nameservices": "a,b"}, "dfs.nameservice.id", "several nameservices"),
        ({"dfs.nameservice.id": "other"}, "dfs.nameservice.id", "is not in dfs.nameservices (mycluster)"),
        ({"dfs.internal.nameservices": "other"}, "dfs.internal.nameservices", "is not in dfs.nameservices (mycluster)"),
        (
            {"dfs.namenode.name.dir": "/data/nn", "dfs.namenode.shared.edits.dir": "file:///data/nn/"},
            "dfs.namenode.name.dir",
            "to which the active NameNode writes the edits",
        ),
        (
            {"dfs.namenode.rpc-address.mycluster.nn1": "${env.NO_HOST}:8020"},
            "dfs.namenode.rpc-address.mycluster.nn1",
            "is not host:port",
        ),
        (
            {"dfs.namenode.rpc-address.mycluster.nn2": "0.0.0.0:8020"},
            "dfs.namenode.http-address",
            "set dfs.namenode.http-address.mycluster.nn2 or dfs.namenode.rpc-address.mycluster.nn2",
        ),
        ({"dfs.namenode.http-address.mycluster.nn1": "host1:0"}, "dfs.namenode.http-address.mycluster.nn1", "port 0"),
        (
            {"dfs.namenode.http-address.mycluster.nn1": "host 1:9870"},
            "dfs.namenode.http-address.mycluster.nn1",
            "is not host:port",
        ),
        ({"dfs.namenode.rpc-address.mycluster.nn1": "host1:0"}, "dfs.namenode.rpc-address.mycluster.nn1", "port 0"),
        ({"dfs.namenode.shared.edits.dir": "qjournal://a:0/ns"}, "dfs.namenode.shared.edits.dir", "port 0"),
        ({"dfs.namenode.name.dir": " , "}, "dfs.namenode.name.dir", "does not name a directory"),
    ],
)
def test_invalid_cluster_keys_are_faults(change: dict[str, str], key: str, problem: str) -> None:
    found = faults({**HA, **change})
    assert problem in found[key]


def test_a_wildcard_rpc_address_names_its_key_once() -> None:
    key = "dfs.namenode.rpc-address.mycluster.nn2"
    assert faults({**HA, key: "0.0.0.0:8020"})[key] == f"does not name the NameNode's host; set {key}"


def test_keys_of_a_journal_quorum() -> None:
    values = {
        **HA,
        "dfs.namenode.shared.edits.dir": "qjournal://jn1:8485;jn2;jn3:1/mycluster",
        "dfs.qjournal.select-input-streams.timeout.ms": "7s",
        "dfs.qjournal.http.open.timeout.ms": "0",
        "dfs.ha.tail-edits.qjm.rpc.max-txns": "7",
        "checkpointer.standby.lag-alarm": "2m",
    }
    found = config(values)
    assert found.shared_edits == "qjournal://jn1:8485;jn2:8485;jn3:1/mycluster"
    assert found.shared_edits_directory is None
    assert found.nameservice == "mycluster"
    limits = found.quorum
    assert (limits.select_input_streams, limits.http_open, limits.http_read) == (7.0, 0.0, 60.0)
    assert (limits.max_tail_transactions, found.lag_alarm) == (7, 120.0)


def test_every_key_is_declared_once() -> None:
    names = [key.name for key in KEYS]
    assert len(set(names)) == len(names)
    assert all(key.default == DEFAULTS.get(key.name, "") for key in KEYS)


@given(st.dictionaries(st.sampled_from([key.name for key in KEYS]), st.text(max_size=12), max_size=8))
def test_any_values_are_accepted_or_reported(values: dict[str, str]) -> None:
    try:
        found = config({**SINGLE, **values})
    except ConfigurationError:
        return
    assert 0 < found.poll_interval <= found.period
    assert found.images_retained > 0


# these keys are parts of other keys' names and defaults, and faults name the other key
ELSEWHERE = {"dfs.nameservices", "dfs.internal.nameservices", "hadoop.tmp.dir"}


def lines(values: dict[str, str], role: Role) -> list[str]:
    """Return the faults of a configuration."""
    try:
        config(values, role)
    except ConfigurationError as error:
        return [str(fault) for fault in error.faults]
    return []


@pytest.mark.parametrize("key", [key.name for key in KEYS])
@pytest.mark.parametrize("role", list(Role))
def test_an_invalid_value_is_a_one_line_fault_that_names_its_key(key: str, role: Role) -> None:
    given = {**HA, **SINGLE} if role is Role.STANDBY else SINGLE
    for junk in JUNK:
        found = lines({**given, key: junk}, role)
        assert not any("\n" in line for line in found)
        assert not found or key in ELSEWHERE or any(key in line for line in found), (junk, found)
