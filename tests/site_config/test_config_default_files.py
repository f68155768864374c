"""Copies of Hadoop's whole default files as site files, because operators start from such copies.

The files are read from the jars of `make interop-setup`, and from the jars in Maven's local repository, where
`mvn dependency:copy -Dartifact=org.apache.hadoop:hadoop-hdfs:3.3.6` stores them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from failover.settings import FailoverSettings
from hadoop_common.config_key import ABSENT
from hadoop_common.configuration import Configuration
from hadoop_common.configuration_xml import read_properties
from hadoop_common.hadoop_keys import SET_BY_HDFS_DEFAULT
from journal_node.config import JournalNodeConfig
from site_config.catalogue import CATALOGUE, entry_of
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.report import report
from tests.interop.hadoop_home import HADOOP_RELEASES

_MAVEN = Path.home() / ".m2" / "repository" / "org" / "apache" / "hadoop"
_HA = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "nn1,nn2",
    "dfs.namenode.rpc-address.ns.nn1": "host1:8020",
    "dfs.namenode.rpc-address.ns.nn2": "host2:8020",
    "dfs.ha.namenode.id": "nn1",
    "dfs.namenode.shared.edits.dir.ns": "file:///shared",
    "dfs.ha.fencing.methods": "shell(/bin/true)",
    "ha.zookeeper.quorum": "zk:2181",
}


def _jar(release: str, name: str) -> Path:
    """Return the jar of a release with a default file; skip the test if the jar is missing."""
    module = "hadoop-common" if name.startswith("core") else "hadoop-hdfs"
    ours = (jar for each in HADOOP_RELEASES.values() for jar in each.jars.folder.glob(f"{module}-{release}.*.jar"))
    found = [*ours, *_MAVEN.glob(f"{module}/{release}.*/*.jar")]
    if not found:
        pytest.skip(f"the jar {module} of Hadoop {release}, which contains {name}, is missing")
    return found[0]


def _defaults(release: str, name: str) -> str:
    with zipfile.ZipFile(_jar(release, name)) as jar:
        return jar.read(name).decode()


def _with(text: str, values: dict[str, str]) -> str:
    added = "".join(f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in values.items())
    return text.replace("</configuration>", f"{added}</configuration>")


def _loaded(folder: Path, core: str, hdfs: str, *, ha: bool) -> Configuration:
    (folder / "core-site.xml").write_text(_with(core, {"fs.defaultFS": "hdfs://ns" if ha else "hdfs://host1:8020"}))
    (folder / "hdfs-site.xml").write_text(_with(hdfs, _HA if ha else {}))
    return Configuration.load(folder, {"USER": "hdfs"})


def _all_accept(folder: Path, core: str, hdfs: str) -> None:
    single = _loaded(folder, core, hdfs, ha=False)
    for role in (Role.SECONDARY, Role.BACKUP):
        CheckpointConfig.from_configuration(single, role)
        found = report(single, role)
        assert not found.faults
        assert {each.name for each in found.settings if each.status in ("refused", "unknown")} == set()
    JournalNodeConfig.from_configuration(single)
    pair = _loaded(folder, core, hdfs, ha=True)
    CheckpointConfig.from_configuration(pair, Role.STANDBY)
    FailoverSettings.from_configuration(pair)
    JournalNodeConfig.from_configuration(pair)


@pytest.mark.parametrize("release", ["2.7", "3.3", "3.4", "3.5"])
def test_whole_default_files_are_accepted(tmp_path: Path, release: str) -> None:
    hdfs = _defaults(release, "hdfs-default.xml").replace("dfs.ha.namenodes.EXAMPLENAMESERVICE", "an.example")
    _all_accept(tmp_path, _defaults(release, "core-default.xml"), hdfs)


@pytest.mark.parametrize("release2", [False, True])
def test_every_key_with_its_default_is_accepted(tmp_path: Path, release2: bool) -> None:
    values = {
        key.name: key.release2 if release2 and key.release2 not in (None, ABSENT) else key.default
        for key in CATALOGUE
        if key.name not in ("checkpoint.engine.spark.conf", "fs.defaultFS")
    }
    text = _with("<configuration></configuration>", {name: value or "" for name, value in values.items()})
    _all_accept(tmp_path, "<configuration></configuration>", text)


@pytest.mark.parametrize("release", ["3.3", "3.4", "3.5"])
def test_keys_set_by_hdfs_default_are_known(tmp_path: Path, release: str) -> None:
    path = tmp_path / "hdfs-default.xml"
    path.write_text(_defaults(release, "hdfs-default.xml"))
    ours = {each.name for each in read_properties(path) if each.value and entry_of(each.name) is not None}
    assert ours <= SET_BY_HDFS_DEFAULT
