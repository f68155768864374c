"""Hadoop's tools and servers that tests share; without Hadoop, tests are skipped, or fail if Hadoop is required."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.depth import deep
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NameNode
from tests.interop.hadoop import Hadoop
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import CLIENT, NEWEST, OLDEST, SERVER, skip_without


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """Start Hadoop's loader and viewers."""
    skip_without(SERVER)
    with Hadoop(tmp_path_factory.mktemp("hadoop")) as running:
        yield running


@pytest.fixture(scope="session")
def hadoop_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """Start the loader and viewers of Hadoop 2.7.3, for images of its layout, which Hadoop 3 loads only in an
    upgrade.
    """
    skip_without(OLDEST)
    with Hadoop(tmp_path_factory.mktemp("hadoop2"), OLDEST) as running:
        yield running


@pytest.fixture(scope="session")
def hadoop_3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """Start the loader and viewers of Hadoop 3.5.0, for images of the newest layout."""
    if SERVER is NEWEST:
        yield request.getfixturevalue("hadoop")
        return
    skip_without(NEWEST)
    with Hadoop(tmp_path_factory.mktemp("hadoop3"), NEWEST) as running:
        yield running


@pytest.fixture(scope="session")
def client_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    """Start FsShell, DFSAdmin and HAAdmin of the servers' release, for any cluster."""
    skip_without(SERVER)
    with ClientJvm(tmp_path_factory.mktemp("client")) as jvm:
        yield jvm


@pytest.fixture(scope="session")
def client_jvm_3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    """Start FsShell of Hadoop 3.5.0, for any cluster; the quick tier runs only one JVM per release."""
    if SERVER.version == CLIENT.version and not deep():
        yield request.getfixturevalue("client_jvm")
        return
    skip_without(CLIENT)
    with ClientJvm(tmp_path_factory.mktemp("client3"), CLIENT) as jvm:
        yield jvm


@pytest.fixture
def conf(tmp_path: Path) -> HadoopConf:
    """Return a configuration for the test's own servers, which do not run yet."""
    skip_without(SERVER)
    return HadoopConf(tmp_path / "cluster")


@pytest.fixture
def namenode(conf: HadoopConf) -> Iterator[NameNode]:
    """Run a freshly formatted NameNode for the test."""
    with NameNode(conf) as node:
        yield node


@pytest.fixture(scope="session")
def shared_namenode(client_jvm: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNode]:
    """Run a NameNode that tests of several modules share (`tests/scheduling.py`); each test works below a separate
    directory.
    """
    with NameNode(HadoopConf(tmp_path_factory.mktemp("shared"))) as node:
        yield node


@pytest.fixture
def client(client_jvm: ClientJvm, namenode: NameNode) -> HdfsClient:
    """Return a client of `namenode`."""
    return client_jvm.of(namenode.conf)


@pytest.fixture(scope="session")
def shared_client(client_jvm: ClientJvm, shared_namenode: NameNode) -> HdfsClient:
    """Return a client of `shared_namenode`."""
    return client_jvm.of(shared_namenode.conf)
