"""`image serve` answers Hadoop's own clients as the NameNode that wrote the image does."""

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

pytestmark = pytest.mark.interop

ODD = "/t/ä b%20+c&d;e#"
MADE = f"""
-mkdir -p /t/a/b /t/empty
-touchz /t/a/f /t/a/b/g /t/z
-mkdir {ODD.replace(" ", "@")}
-touchz {ODD.replace(" ", "@")}/x
-chmod 1777 /t/a
-chmod 640 /t/a/f
-chown erin:staff /t/a/f
-setrep 4 /t/z
-setfacl -m user:erin:rwx,group:ops:r-x /t/a
-setfacl -m default:user:erin:rwx /t/a/b
-setfacl -m user:bob:r-- /t/z
-setfattr -n user.note -v hi /t/z
-setfattr -n user.bytes -v 0x00ff /t/z
-setfattr -n trusted.none /t/a
"""
ASKED = """
-ls /
-ls -R /t
-ls -d /t/a
-ls /t/none
-ls /t/z
-count /t
-count -q /t/a /t
-du -s /t
-stat %n:%b:%r:%u:%g:%y:%F /t/a/f
-test -e /t/none
-test -d /t/a
-getfacl -R /t
-getfattr -R -d /t
-getfattr -n user.note -e base64 /t/z
-getfattr -n user.none /t/z
-find /t -name *g
-ls /.reserved/.inodes/16385
-ls /t/.snapshot
-ls /none/.snapshot
"""


def lines(script: str) -> list[list[str]]:
    return [[word.replace("@", " ") for word in line.split()] for line in script.split("\n") if line]


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
def test_answers_are_those_of_the_namenode(
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
