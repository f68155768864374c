"""`image serve` sends Hadoop's own clients the same responses as the NameNode that wrote the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from hadoop_common.names import SEEN_TXID
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.webhdfs import ImageSource, webhdfs_blueprint
from tests.engine.image_builder import merge_bytes, store
from tests.image_tools.type_usage_edits import EDITS
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.shell_scripts import ASKED, MADE, lines

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def image(shared_namenode: NameNode, shared_client: HdfsClient) -> Path:
    for words in lines(MADE):
        shared_client.shell(*words).checked()
    shared_client.admin("-setQuota", "100", "/t/a").checked()
    shared_client.admin("-setSpaceQuota", "1g", "/t/a").checked()
    shared_client.admin("-safemode", "enter").checked()
    shared_client.admin("-saveNamespace").checked()
    shared_client.admin("-safemode", "leave").checked()
    current = shared_namenode.current
    return max(path for path in current.glob("fsimage_*") if path.suffix != ".md5")


@pytest.fixture(scope="module")
def served(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopConf]:
    with (
        ImageFile.open(image) as opened,
        HttpServer(create_application(webhdfs_blueprint(ImageSource(ImageBrowser(opened)))), "127.0.0.1", 0) as server,
    ):
        address = urlsplit(server.url).netloc
        yield HadoopConf(tmp_path_factory.mktemp("served"), {"fs.defaultFS": f"webhdfs://{address}"})


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NameNode, Path]]:
    """A NameNode with quotas by storage type, which started from the yielded image."""
    namenode = NameNode(HadoopConf(tmp_path_factory.mktemp("limited"))).format()
    (base,) = (each for each in namenode.current.glob("fsimage_*") if each.suffix != ".md5")
    image = store(namenode.current, merge_bytes(base, EDITS), len(EDITS))
    (namenode.current / SEEN_TXID).write_text(f"{len(EDITS)}\n")
    with namenode:
        yield namenode, image


@pytest.mark.parametrize("words", lines(ASKED), ids=" ".join)
@pytest.mark.parametrize("jvm", ["client_jvm", "client_jvm_3"], ids=[SERVER.version, "client"])
def test_responses_equal_those_of_the_namenode(
    request: pytest.FixtureRequest, jvm: str, words: list[str], shared_namenode: NameNode, served: HadoopConf
) -> None:
    clients: ClientJvm = request.getfixturevalue(jvm)
    by_image, by_namenode = clients.of(served).shell(*words), clients.of(shared_namenode.conf).shell(*words)
    assert (by_image.code, by_image.out) == (by_namenode.code, by_namenode.out)


@pytest.mark.parametrize("words", lines("-mkdir /x\n-rm /t/z\n-chmod 777 /t/z\n-touchz /y"), ids=" ".join)
def test_changes_are_refused(client_jvm: ClientJvm, served: HadoopConf, words: list[str]) -> None:
    refused = client_jvm.of(served).shell(*words)
    assert refused.code != 0
    assert "an image can only be read" in refused.err


@pytest.mark.skipif(not SERVER.is_3, reason="Hadoop 2.7 does not report storage types over WebHDFS")
@pytest.mark.parametrize("path", ["/q", "/q/one", "/q/one/below", "/none", "/", "/q/.snapshot/s"])
def test_consumed_space_of_storage_types_equals_that_of_the_namenode(path: str, limited: tuple[NameNode, Path]) -> None:
    namenode, image = limited
    with ImageFile.open(image, verify_md5=False) as opened:
        client = create_application(webhdfs_blueprint(ImageSource(ImageBrowser(opened)))).test_client()
        # a NameNode reports zeros as the usage of a snapshot
        for op in ("GETCONTENTSUMMARY", "GETQUOTAUSAGE")[: 1 if ".snapshot" in path else 2]:
            theirs = requests.get(f"{namenode.url}/webhdfs/v1{path}", params={"op": op}, timeout=60)
            assert client.get(f"/webhdfs/v1{path}", query_string={"op": op}).json == theirs.json()
