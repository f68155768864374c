"""A stub for real clients, and namespaces without the fields that depend on the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hadoop_common.configuration import Configuration
from namenode_stub.config import stub_config
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER

HADOOP_2, HADOOP_3 = -63, -67


TIMES = {"mtime", "atime"}


@contextmanager
def stub_of(conf: HadoopConf, layout: int = SERVER.layout) -> Iterator[NameNodeStub]:
    """Run the stub in place of the configuration's NameNode."""
    config = stub_config(Configuration.load(conf.folder, environment={}))
    if not (conf.name_dir / "current").exists():
        format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(layout))
    with NameNodeStub(config) as stub:
        yield stub


def without_times(namespace: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {path: {k: v for k, v in entry.items() if k not in TIMES} for path, entry in namespace.items()}
