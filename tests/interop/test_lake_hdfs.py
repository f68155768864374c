"""The lake on a real HDFS: appended, recognised, and read back without Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipeline.lake import append_edits, append_image, images_in_lake, is_lake, lake_contents, retain_images
from tests.interop.cluster import DataNode, NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.pipeline.lake_child import InProcess
from tests.recorded_cases import RECORDED

pytestmark = [pytest.mark.interop, pytest.mark.deep]

CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"


def test_a_lake_on_hdfs_is_appended_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.sources.fsimage.host_scratch", lambda: tmp_path / "scratch")
    conf = HadoopConf(tmp_path / "cluster", {"dfs.permissions.enabled": "false"})
    conf.update(DataNode.properties(tmp_path / "cluster"))
    context: Any = InProcess()
    with NameNode(conf) as namenode, DataNode(conf) as datanode:
        wait_until(lambda: datanode.is_registered(namenode), "the DataNode is registered")
        lake = "hdfs://{}:{}/lake".format(*conf.rpc_address)
        assert not is_lake(lake)
        for folder, txid in (("before", 92), ("after", 292)):
            made = append_image(context, str(CASE / folder), lake)
            assert made is not None
            assert made.txid == txid
            assert append_image(context, str(CASE / folder), lake) is None
        assert append_edits(context, str(CASE / "before"), lake).ranges == [(93, 292)]
        assert append_edits(context, str(CASE / "before"), lake).ranges == []
        assert is_lake(lake)
        (ranges,) = lake_contents(lake).edits.values()
        assert ranges == [(93, 292)]
        (first, last) = images_in_lake(lake)
        txids = DeltaTable(f"{lake}/edits").to_pyarrow_table(columns=["txid"])["txid"].to_pylist()
        assert sorted(txids) == [*range(93, 293)]
        assert DeltaTable(f"{lake}/inodes").to_pyarrow_table(filters=[("txid", "=", 292)]).num_rows == last.rows
        assert retain_images(lake, 1, first.cluster) == [92]
        assert [image.txid for image in images_in_lake(lake)] == [292]
