"""The keys of `checkpoint.engine`: their meaning, and the errors for invalid values."""

from __future__ import annotations

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.engine_settings import EngineChoice, EngineSettings, SparkSettings, engine_settings

KEY = "checkpoint.engine"
SPARK = f"{KEY}.spark"


def settings(values: dict[str, str]) -> EngineSettings:
    return engine_settings(Configuration.from_mapping(values, {}))


def faults(values: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        settings(values)
    return {fault.key: fault.problem for fault in caught.value.faults}


def test_the_default_engine_settings_are_automatic() -> None:
    assert settings({}) == EngineSettings(EngineChoice.AUTO, SparkSettings())


def test_every_key_is_read() -> None:
    found = settings(
        {
            KEY: "spark",
            f"{SPARK}.master": "spark://host:7077",
            f"{SPARK}.driver-memory": "1536m",
            f"{SPARK}.shared-storage": "true",
            f"{SPARK}.partitions": "7",
            f"{SPARK}.conf.spark.executor.memory": " 4g ",
            f"{SPARK}.conf.spark.hadoop.dfs.client.use.datanode.hostname": "true",
        }
    )
    conf = {"spark.executor.memory": "4g", "spark.hadoop.dfs.client.use.datanode.hostname": "true"}
    spark = SparkSettings("spark://host:7077", "1536m", True, 7, conf)
    assert found == EngineSettings(EngineChoice.SPARK, spark)


@pytest.mark.parametrize(("text", "expected"), [("", None), ("true", True), ("FALSE", False)])
def test_shared_storage_can_be_configured_or_automatic(text: str, expected: bool | None) -> None:
    assert settings({f"{SPARK}.shared-storage": text}).spark.shared_storage is expected


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        (KEY, "Spark", "is not an engine: local, spark or auto"),
        (KEY, "", "is not an engine"),
        (f"{SPARK}.driver-memory", "lots", "is not a size"),
        (f"{SPARK}.driver-memory", "", "is not set"),
        (f"{SPARK}.driver-memory", "256m", "must be at least 512m"),
        (f"{SPARK}.driver-memory", "1024", "must be at least 512m"),
        (f"{SPARK}.shared-storage", "maybe", ""),
        (f"{SPARK}.partitions", "-1", "must be at least 0"),
        (f"{SPARK}.partitions", "some", ""),
        (f"{SPARK}.conf.", "x", "lacks the name of a Spark setting"),
    ],
)
def test_an_invalid_value_is_reported_with_its_key(key: str, text: str, problem: str) -> None:
    found = faults({key: text})
    assert list(found) == [key]
    assert problem in found[key]


def test_all_faults_are_reported_together_with_those_of_the_daemon() -> None:
    values = {KEY: "hive", f"{SPARK}.partitions": "-3", f"{SPARK}.driver-memory": "tiny"}
    assert set(faults(values)) == set(values)
    whole = {
        "fs.defaultFS": "hdfs://nn",
        "hadoop.tmp.dir": "/tmp/hadoop",
        "dfs.namenode.checkpoint.txns": "0",
        **values,
    }
    with pytest.raises(ConfigurationError) as caught:
        CheckpointConfig.from_configuration(Configuration.from_mapping(whole, {}), Role.SECONDARY)
    assert {fault.key for fault in caught.value.faults} == {*values, "dfs.namenode.checkpoint.txns"}
