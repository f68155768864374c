"""Our JournalNode, which requires Kerberos."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hadoop_common.configuration import Configuration
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer
from tests.interop.hadoop_conf import HadoopConf


@contextmanager
def running(conf: HadoopConf) -> Iterator[JournalNodeServer]:
    with JournalNodeServer(JournalNodeConfig.from_configuration(Configuration.load(conf.folder, {}))) as server:
        yield server
