"""A configuration of an HA nameservice, and the settings or the faults of a configuration."""

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.checkpoint_config import CheckpointConfig, Role

HA = {
    "fs.defaultFS": "hdfs://mycluster",
    "dfs.nameservices": "mycluster",
    "dfs.ha.namenodes.mycluster": "nn1,nn2,nn3",
    "dfs.namenode.http-address.mycluster.nn1": "host1:9870",
    "dfs.namenode.rpc-address.mycluster.nn2": "host2:8020",
    "dfs.namenode.http-address.mycluster.nn3": "host3:19870",
    "dfs.ha.namenode.id": "nn3",
    "dfs.namenode.shared.edits.dir": "file:///shared",
    "dfs.namenode.name.dir": "file:///a,/b",
}


def config(values: dict[str, str], role: Role = Role.STANDBY) -> CheckpointConfig:
    return CheckpointConfig.from_configuration(Configuration.from_mapping(values, {"USER": "hdfs"}), role)


def faults(values: dict[str, str], role: Role = Role.STANDBY) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        config(values, role)
    return {fault.key: fault.problem for fault in caught.value.faults}
