"""The Hadoop that tests share; without it they are skipped, or fail where it is required."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NameNode
from tests.interop.hadoop import Hadoop
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import CLIENT, OLDEST, SERVER, skip_without


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """Hadoop's loader and viewers."""
    skip_without(SERVER)
    with Hadoop(tmp_path_factory.mktemp("hadoop")) as running:
        yield running


@pytest.fixture(scope="session")
def hadoop_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """The loader and viewers of 2.7.3, for images and edits of its layout, which Hadoop 3 loads in an upgrade only."""
    skip_without(OLDEST)
    with Hadoop(tmp_path_factory.mktemp("hadoop2"), OLDEST) as running:
        yield running


@pytest.fixture(scope="session")
def client_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    """FsShell, DFSAdmin and HAAdmin of the servers' release, for any cluster."""
    skip_without(SERVER)
    with ClientJvm(tmp_path_factory.mktemp("client")) as jvm:
        yield jvm


@pytest.fixture(scope="session")
def client_jvm_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    """FsShell of Hadoop 3.5.0, for any cluster."""
    skip_without(CLIENT)
    with ClientJvm(tmp_path_factory.mktemp("client3"), CLIENT) as jvm:
        yield jvm


@pytest.fixture
def conf(client_jvm: ClientJvm, tmp_path: Path) -> HadoopConf:
    """A configuration for one NameNode of the test's own; nothing runs yet."""
    return HadoopConf(tmp_path / "cluster")


@pytest.fixture
def namenode(conf: HadoopConf) -> Iterator[NameNode]:
    """A running, freshly formatted NameNode of the test's own."""
    with NameNode(conf) as node:
        yield node


@pytest.fixture(scope="module")
def shared_namenode(client_jvm: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNode]:
    """A running NameNode that the tests of a module share; each works below a directory of its own."""
    with NameNode(HadoopConf(tmp_path_factory.mktemp("shared"))) as node:
        yield node


@pytest.fixture
def client(client_jvm: ClientJvm, namenode: NameNode) -> HdfsClient:
    """A client of `namenode`."""
    return client_jvm.of(namenode.conf)


@pytest.fixture(scope="module")
def shared_client(client_jvm: ClientJvm, shared_namenode: NameNode) -> HdfsClient:
    """A client of `shared_namenode`."""
    return client_jvm.of(shared_namenode.conf)
