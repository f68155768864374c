"""Settings of a merge, with and without a daemon."""

from __future__ import annotations

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.merge_settings import image_codec, merge_settings
from tests.site_config.config_support import config, faults

SINGLE = {"fs.defaultFS": "hdfs://nn.example.org:8020", "dfs.namenode.shared.edits.dir": "/shared"}


def test_an_unknown_codec_is_a_fault_only_with_compression() -> None:
    values = {**SINGLE, "dfs.image.compression.codec": "com.hadoop.compression.lzo.LzoCodec"}
    assert config(values).merge_settings.codec == ""
    problem = faults({**values, "dfs.image.compress": "true"})["dfs.image.compression.codec"]
    assert "not a supported codec" in problem
    assert "GzipCodec" in problem


def test_maximum_size_of_an_operation() -> None:
    assert config(SINGLE).merge_settings.max_op_size == 52428800
    assert config({**SINGLE, "dfs.namenode.max.op.size": "200m"}).merge_settings.max_op_size == 200 << 20


def test_compression_codec() -> None:
    values = {"dfs.image.compress": "true"}
    assert image_codec(Configuration.from_mapping(values, {})).endswith(".DefaultCodec")
    values["dfs.image.compression.codec"] = "org.apache.hadoop.io.compress.GzipCodec"
    assert config({**SINGLE, **values}).merge_settings.codec == "org.apache.hadoop.io.compress.GzipCodec"


def test_a_merge_without_a_daemon_reports_all_faults_together() -> None:
    values = {"dfs.namenode.max.op.size": "x", "dfs.image.compress": "true", "dfs.image.compression.codec": "rar"}
    with pytest.raises(ConfigurationError) as caught:
        merge_settings(Configuration.from_mapping(values, {}))
    assert [each.key for each in caught.value.faults] == ["dfs.image.compression.codec", "dfs.namenode.max.op.size"]
