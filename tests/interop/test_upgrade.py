"""Upgrades of Hadoop next to our running daemon: in place and rolling, upgrade and rollback.

The tests perform the steps of "Upgrading Hadoop under the daemon" in docs/operations.md on real servers. They upgrade
from Hadoop 2.7.3 or 3.3.6 to the release that `make interop RELEASE=...` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.checks.verdict import State
from hadoop_common.names import image_name
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from image_tools.compare.difference import Difference
from tests.interop.clients import ClientJvm, Namespace
from tests.interop.hadoop_home import HADOOP_RELEASES, OLDEST, SERVER, HadoopRelease, skip_without
from tests.interop.hadoop_process import run_once
from tests.interop.set_back import prepare_rolling_upgrade, wait_for_a_checkpoint
from tests.interop.sites import NAMENODE, ROLES, MixedQuorumSite, Site

pytestmark = [
    pytest.mark.interop,
    pytest.mark.deep,
    pytest.mark.skipif(SERVER is OLDEST, reason="the servers are of the oldest release: nothing is upgraded to it"),
]

OLD = HADOOP_RELEASES["2.7.3" if SERVER.version == "3.3.6" else "3.3.6"]
"""Releases from which the tests upgrade to the release whose servers this run starts."""
NEW = SERVER
# an upgrade and a rollback need every JournalNode
UPGRADED = {**ROLES, "mixed quorum": replace(ROLES["quorum"], name="mixed quorum", site=MixedQuorumSite)}
SNAPSHOT_TIMES = -66
"""The first layout whose operations contain the times of snapshots; at earlier layouts, each NameNode uses its own
clock.
"""


class Walk:
    """A cluster that is upgraded from release to release, and its expected contents.

    Attributes:
        image: txid of the newest of our images that the NameNode has.
        namespace: the namespace that clients see.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.image = 0
        self.namespace: Namespace = {}
        self._writes = 0

    def works(self, layout: int) -> None:
        """Check that checkpoints continue: the NameNode accepts images of this layout, and they equal the NameNode's
        own image.

        Raises:
            AssertionError: an image is missing or differs, or the NameNode has another layout.
        """
        self._write()
        theirs = self.site.nn.current / image_name(self.site.save_image())
        assert differences(self.site.nn.current / image_name(self.image), theirs, layout) == []
        self._write()

    def restart(self, release: HadoopRelease, *words: str) -> None:
        """Start a release's NameNode from our image and edits of the previous release; compare the namespace.

        Raises:
            AssertionError: the NameNode started from another image, or the namespace differs.
        """
        self._change()
        before = len(self.site.nn.process.log_text())
        self.site.kill()
        self.site.install(release)
        self.site.start(*words)
        assert f"Loaded image for txid {self.image} " in self.site.nn.process.log_text()[before:]
        self._shows(self.namespace)

    def roll_back(self, release: HadoopRelease) -> None:
        """Roll back an upgrade with `-rollback`, according to the runbook."""
        self.site.kill()
        self.site.install(release)
        self.site.start_journal()
        run_once(NAMENODE, "-rollback", conf=self.site.nn.conf, typed="Y\n").checked()
        # a running JournalNode of Hadoop keeps rolled-back edits in memory
        self.site.kill()
        self.site.start()

    def went_back(self, namespace: Namespace) -> None:
        """Assert that the NameNode has the old namespace, and that the daemon notices and sets its files aside.

        Raises:
            AssertionError: the NameNode or the daemon is in another state.
        """
        self._shows(namespace)
        self._write()
        assert self.site.daemon.status()["lostPast"]
        assert self.check("storage") == State.WARNING

    def check(self, name: str) -> State:
        """Return the output of `checkpointer check --only NAME`."""
        return State(self.site.daemon.check(name).code)

    def _write(self) -> None:
        self._change()
        self.image = wait_for_a_checkpoint(self.site, self.site.nn.last_txid)

    def _change(self) -> None:
        self._writes += 1
        self.site.client.load(60, seed=self._writes, path=f"/load{self._writes}")
        self.namespace = self.site.namespace()

    def _shows(self, expected: Namespace) -> None:
        found = self.site.namespace()
        assert [path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path)] == []


def differences(ours: Path, theirs: Path, layout: int) -> list[Difference]:
    """Return the differences between our image and the NameNode's next image, without their txids."""
    with ImageFile.open(ours) as mine, ImageFile.open(theirs) as own:
        assert (mine.layout_version, own.layout_version) == (layout, layout)
        found = list(ImageComparison(mine, own).differences())
    # A standby's rollback image contains the start of the upgrade, which a NameNode reads only if that image exists.
    expected = {"transactionId", "rollingUpgradeStartTime"}
    if OLD.layout > SNAPSHOT_TIMES:
        expected.add("modificationTime")
    return [each for each in found if each.attribute not in expected]


@contextmanager
def walk(role: str, client_jvm: ClientJvm, root: Path) -> Iterator[Walk]:
    """Run a cluster of the old release next to the daemon, which has made images of the cluster."""
    skip_without(OLD)
    chosen = UPGRADED[role]
    with chosen.site(client_jvm, root, chosen, OLD) as site:
        site.ours.update(dict(chosen.settings))
        site.write_base()
        with site.daemon:
            found = Walk(site)
            found.works(OLD.layout)
            yield found


@pytest.mark.parametrize("role", ["secondary", "backup", "standby", "quorum", "mixed quorum"])
def test_in_place_upgrade_and_rollback(role: str, client_jvm: ClientJvm, tmp_path: Path) -> None:
    with walk(role, client_jvm, tmp_path) as cluster:
        cluster.restart(NEW, "-upgrade")
        before = cluster.namespace
        if role == "secondary":
            assert cluster.check("version") == State.WARNING
        cluster.works(NEW.layout)
        assert cluster.check("version") == State.OK
        cluster.roll_back(OLD)
        cluster.went_back(before)
        cluster.works(OLD.layout)
        cluster.restart(NEW, "-upgrade")
        cluster.works(NEW.layout)
        # sent to the running NameNode only, because our daemon, which replaces the other NameNode, does not support
        # this call
        one = "hdfs://{}:{}".format(*cluster.site.nn.rpc_address)
        cluster.site.client.admin("-fs", one, "-finalizeUpgrade").checked()
        cluster.works(NEW.layout)
        cluster.restart(NEW)


@pytest.mark.parametrize("role", ["secondary", "backup", "standby", "quorum", "mixed quorum"])
def test_rolling_upgrade_and_rollback(role: str, client_jvm: ClientJvm, tmp_path: Path) -> None:
    with walk(role, client_jvm, tmp_path) as cluster:
        before = cluster.namespace
        prepare_rolling_upgrade(cluster.site)
        cluster.site.kill()
        cluster.site.install(NEW)
        cluster.site.start("-rollingUpgrade", "started")
        cluster.works(OLD.layout)
        cluster.site.kill()
        cluster.site.install(OLD)
        cluster.site.start("-rollingUpgrade", "rollback")
        cluster.went_back(before)
        cluster.works(OLD.layout)

        prepare_rolling_upgrade(cluster.site)
        cluster.works(OLD.layout)
        cluster.restart(NEW, "-rollingUpgrade", "started")
        cluster.works(OLD.layout)
        cluster.restart(OLD, "-rollingUpgrade", "started")
        cluster.site.client.admin("-rollingUpgrade", "finalize").checked()
        cluster.works(OLD.layout)

        prepare_rolling_upgrade(cluster.site)
        cluster.works(OLD.layout)
        cluster.restart(NEW, "-rollingUpgrade", "started")
        cluster.site.client.admin("-rollingUpgrade", "finalize").checked()
        cluster.works(NEW.layout)
        assert cluster.check("version") == State.OK
        cluster.restart(NEW)
