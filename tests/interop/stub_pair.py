"""Our NameNode stub in place of Hadoop's NameNodes in a pair."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Self

from tests.interop.hadoop_conf import HadoopConf, ha_pair_confs
from tests.interop.hadoop_home import SERVER
from tests.interop.our_namenode import OurNameNode


class StubNode(OurNameNode):
    """The stub with the methods of `cluster.NameNode` that failovers need."""

    def __init__(self, conf: HadoopConf) -> None:
        super().__init__(conf)
        self.rpc_address = conf.rpc_address

    @property
    def process(self) -> Self:
        return self


class StubPair:
    """NameNodes nn1 and nn2 of the nameservice `ns1`, both with an empty namespace; neither runs yet.

    As a context manager, the pair stops both at the end. The shared journal must be running when the pair is formatted.
    """

    def __init__(self, root: Path, properties: dict[str, str]) -> None:
        first, second, self.client_conf = ha_pair_confs(root, properties)
        self.nn1, self.nn2 = StubNode(first), StubNode(second)
        self.nn1.command("format", "--layout", str(SERVER.layout)).checked()
        shutil.copytree(first.name_dir, second.name_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (self.nn1, self.nn2):
            if node.running:
                node.signal(signal.SIGCONT)
                node.stop()
