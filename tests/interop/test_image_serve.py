"""`image serve` answers Hadoop's own clients like the NameNode that wrote the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.webhdfs import ImageSource, webhdfs_blueprint
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
