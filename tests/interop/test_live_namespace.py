"""Hadoop's shell gets the same lines from a standby that serves its namespace as from the active NameNode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import HaPair
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.interop.test_image_serve import ASKED, MADE, lines
from tests.interop.test_standby_role import SETTINGS

pytestmark = [pytest.mark.interop, pytest.mark.deep]

MORE = """
-mkdir -p /s/a/b /s/c
-touchz /s/a/f /s/a/b/g /s/c/h
-appendToFile /etc/hostname /s/c/h
-createSnapshot /s s1
-rm -r /s/a/b
-mv /s/a/f /s/c/moved
-mv /s/c/h /t/away
-chmod 700 /s/c
-touchz /s/new
-createSnapshot /s s2
-rm /s/new
-mkdir /private
-touchz /private/f
-chmod 700 /private
"""
ASKED_TOO = """
-ls -R /s
-ls /s/.snapshot
-count /t
-count -q -v /t
-du -s -x /t
-getfacl -R /s
-ls /s/.snapshot/none
-ls /t/z/below
"""
REFUSED = """
-ls /private
-ls /private/f
-count /
-count /private
-test -e /private/f
-getfacl -R /
-getfattr -d /private
-stat %n /private/none
-ls -R /t
"""


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory, client_jvm: ClientJvm) -> Iterator[tuple[HdfsClient, HdfsClient]]:
    """Return clients of our standby, and of the active NameNode."""
    root = tmp_path_factory.mktemp("pair")
    with HaPair(root, {**SETTINGS, "checkpointer.namespace.serve": "true"}) as pair:
        active = client_jvm.of(pair.client_conf)
        pair.nn1.start()
        pair.activate(active, "nn1")
        for words in lines(MADE):
            active.shell(*words).checked()
        active.shell("-mkdir", "/s").checked()
        active.admin("-allowSnapshot", "/s").checked()
        for words in lines(MORE):
            if words[0] != "-appendToFile":
                active.shell(*words).checked()
        active.admin("-setQuota", "100", "/t/a").checked()
        active.admin("-setSpaceQuota", "1g", "/t/a").checked()
        active.shell("-mkdir", "/done").checked()
        with OurDaemon.standby(pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2") as daemon:
            address = urlsplit(daemon.url).netloc
            served = client_jvm.of(HadoopConf(Path(root / "served"), {"fs.defaultFS": f"webhdfs://{address}"}))
            wait_until(lambda: served.shell("-test", "-d", "/done").code == 0, "the standby has all edits")
            yield served, active


@pytest.mark.parametrize("words", [*lines(ASKED), *lines(ASKED_TOO)], ids=" ".join)
def test_answers_are_those_of_the_active(clients: tuple[HdfsClient, HdfsClient], words: list[str]) -> None:
    ours, theirs = (client.shell(*words) for client in clients)
    assert (ours.code, ours.out, ours.err) == (theirs.code, theirs.out, theirs.err)


@pytest.mark.parametrize("words", lines(REFUSED), ids=" ".join)
def test_refusals_are_those_of_the_active(clients: tuple[HdfsClient, HdfsClient], words: list[str]) -> None:
    ours, theirs = (client.as_user("erin").shell(*words) for client in clients)
    assert (ours.code, ours.out, ours.err) == (theirs.code, theirs.out, theirs.err)
