"""VERSION of a standby after upgrades and rollbacks of the cluster."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.merging.offline import merge_directory, plan_directory
from checkpointer.roles.standby.bootstrap import bootstrap
from checkpointer.roles.standby.image_fetcher import ImageFetcher, ImageReplacement
from checkpointer.roles.standby.journal_edits import SharedJournalEdits
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.version import (
    ActiveVersion,
    VersionAction,
    VersionWatch,
    decide_version_action,
    newest_version,
)
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import write_version
from checkpointer.storage.inspector import read_storage_info
from checkpointer.storage.lost_pasts import START_OVER, folders_aside
from engine.errors import CheckpointCancelledError
from engine.settings import MergeSettings
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.tls.settings import WebAddresses
from image_format.errors import UnsupportedLayoutError
from image_format.layout import NEWEST_LAYOUT
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from tests.checkpointer.service_support import standby_config
from tests.checkpointer.standby_support import PERIOD, TRANSACTIONS, assert_in_sync, daemon_of, images, write_edits
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.stub_support import formatted

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)

OURS = StorageInfo(-63, 7, 1000, "CID-a", "BP-1")


def changed(**values: object) -> StorageInfo:
    return dataclasses.replace(OURS, **values)  # type: ignore[arg-type]


# ---- decisions ---------------------------------------------------------------------------------------------


@pytest.mark.parameters(8)
@pytest.mark.parametrize(
    ("theirs", "rolling", "move"),
    [
        (OURS, False, VersionAction.NONE),
        (OURS, True, VersionAction.NONE),
        (changed(layout_version=-67), True, VersionAction.WAIT),
        (changed(layout_version=-70), True, VersionAction.WAIT),
        (changed(layout_version=-67), False, VersionAction.CONVERT),
        (changed(layout_version=-67, c_time=2000), False, VersionAction.FETCH),
        (changed(c_time=2000), False, VersionAction.FETCH),
        (changed(c_time=500), False, VersionAction.FETCH),
        (changed(layout_version=-60), False, VersionAction.FETCH),
    ],
)
def test_actions_for_another_version(theirs: StorageInfo, rolling: bool, move: VersionAction) -> None:
    assert decide_version_action(OURS, theirs, rolling=rolling, namenode="NameNode nn1:8020") is move


@pytest.mark.parameters(8)
@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("other", [{"namespace_id": 8}, {"cluster_id": "CID-b"}, {"blockpool_id": "BP-2"}])
def test_another_namespace_is_never_adopted(other: dict[str, object], rolling: bool) -> None:
    with pytest.raises(StorageError, match="NameNode nn1:8020 belongs to another namespace"):
        decide_version_action(OURS, changed(layout_version=-67, **other), rolling=rolling, namenode="NameNode nn1:8020")


@pytest.mark.parameters(8)
@pytest.mark.parametrize("layout", [NEWEST_LAYOUT - 1, -59, -40])
def test_unsupported_layout_is_rejected(layout: int) -> None:
    with pytest.raises(UnsupportedLayoutError, match=f"layout version {layout}"):
        decide_version_action(OURS, changed(layout_version=layout), rolling=False, namenode="NameNode nn1:8020")


def test_newest_of_several_versions() -> None:
    assert newest_version([]) is None
    assert newest_version([OURS]) == OURS
    finalized, upgraded = changed(layout_version=-67), changed(layout_version=-65, c_time=2000)
    assert newest_version([finalized, OURS]) == finalized
    assert newest_version([finalized, upgraded, OURS]) == upgraded
    assert newest_version([OURS, changed(namespace_id=8)]) is None


# ---- asking ------------------------------------------------------------------------------------------------


class Cluster:
    """Reports of the active NameNode, and the reactions to them."""

    def __init__(self, shared: Path) -> None:
        self.shared = shared
        (shared / "current").mkdir(parents=True)
        write_version(shared, OURS)
        self.says: StorageInfo | None = OURS
        self.rolling: bool | None = False
        self.asked = 0
        self.moves: list[VersionAction] = []
        self.fault: Exception | None = None
        self.ours = OURS
        self.watch = VersionWatch(
            self, lambda: self.ours, lambda theirs: read_storage_info(shared) != theirs, self._take_over
        )

    def active_version(self) -> ActiveVersion | None:
        self.asked += 1
        if self.says is None:
            return None
        return ActiveVersion("nn1:8020", "http://nn1:9870", self.says, self.rolling, 5)

    def _take_over(self, move: VersionAction, active: ActiveVersion) -> None:
        self.moves.append(move)
        if self.fault is not None:
            raise self.fault
        self.ours = active.info


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "shared")


def test_version_is_queried_at_the_start_and_in_doubt(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.watch.check()
    assert cluster.asked == 1
    cluster.watch.doubt("an image was refused")
    for _ in range(3):
        cluster.watch.check()
    assert (cluster.asked, cluster.moves, cluster.watch.alarm) == (2, [], "")


def test_query_is_repeated_without_an_active_namenode(cluster: Cluster) -> None:
    cluster.says = None
    cluster.watch.check()
    cluster.watch.check()
    assert (cluster.asked, cluster.watch.alarm) == (2, "")
    cluster.says = changed(layout_version=-67)
    cluster.watch.check()
    assert cluster.moves == [VersionAction.CONVERT]


def test_no_action_during_a_rolling_upgrade(cluster: Cluster) -> None:
    cluster.says, cluster.rolling = changed(layout_version=-67), True
    for _ in range(3):
        cluster.watch.check()
    assert (cluster.asked, cluster.moves, cluster.watch.alarm) == (3, [], "")
    cluster.rolling = False
    cluster.watch.check()
    cluster.watch.check()
    assert (cluster.asked, cluster.moves) == (4, [VersionAction.CONVERT])


def test_release_that_does_not_report_rolling_upgrades(cluster: Cluster) -> None:
    cluster.says, cluster.rolling = changed(layout_version=-67), None
    cluster.watch.check()
    assert cluster.moves == []
    write_version(cluster.shared, cluster.says)
    cluster.watch.check()
    assert cluster.moves == [VersionAction.CONVERT]


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (changed(cluster_id="CID-b"), "belongs to another namespace"),
        (changed(layout_version=NEWEST_LAYOUT - 1), f"{NEWEST_LAYOUT - 1} is newer than the newest known version"),
    ],
)
def test_rejected_version_is_an_alarm(cluster: Cluster, says: StorageInfo, sentence: str) -> None:
    cluster.says = says
    cluster.watch.check()
    assert sentence in cluster.watch.alarm
    assert cluster.moves == []
    cluster.says = OURS
    cluster.watch.check()
    assert cluster.watch.alarm == ""


@pytest.mark.parametrize(
    "fault", [TransferError("http://nn1:9870", "cut"), OSError(28, "No space left on device"), KeyError("bug")]
)
def test_failed_adoption_is_an_alarm_until_it_succeeds(cluster: Cluster, fault: Exception) -> None:
    cluster.says, cluster.fault = changed(c_time=2000), fault
    cluster.watch.check()
    assert "could not be adopted" in cluster.watch.alarm
    cluster.fault = None
    cluster.watch.check()
    assert (cluster.moves, cluster.watch.alarm, cluster.ours) == (
        [VersionAction.FETCH, VersionAction.FETCH],
        "",
        cluster.says,
    )


def test_unreadable_storage_is_not_reported_as_a_difference(cluster: Cluster) -> None:
    cluster.says, cluster.rolling = changed(layout_version=-67), None
    shutil.rmtree(cluster.shared)
    cluster.watch.check()
    assert cluster.watch.alarm.startswith(f"the cluster's VERSION cannot be compared with ours: {cluster.shared}")
    assert cluster.moves == []


def test_stop_during_the_adoption_is_no_alarm(cluster: Cluster) -> None:
    cluster.says, cluster.fault = changed(c_time=2000), CheckpointCancelledError("stopping")
    cluster.watch.check()
    assert cluster.watch.alarm == ""
    cluster.fault = None
    cluster.watch.check()
    assert cluster.ours == cluster.says


# ---- with a NameNode ---------------------------------------------------------------------------------------


@pytest.fixture
def stub_config(tmp_path: Path) -> StubConfig:
    return formatted(
        tmp_path / "active",
        -63,
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        # fixed ports, because the NameNode is restarted
        web=WebAddresses(("127.0.0.1", free_port())),
        rpc_address=("127.0.0.1", free_port()),
    )


def upgrade(config: StubConfig, **changes: object) -> StorageInfo:
    """Change the directories of a stopped NameNode as an upgrade does."""
    name, shared = config.image_directories[0], config.shared_edits_directory
    info: StorageInfo = dataclasses.replace(read_storage_info(name), **changes)  # type: ignore[arg-type]
    merge_directory(plan_directory(name), MergeSettings(layout_version=info.layout_version))
    for folder in (name, shared):
        assert folder is not None
        write_version(folder, info)
    return info


def locked(root: Path) -> StorageDirectories:
    storage = StorageDirectories([root])
    storage.lock()
    return storage


def fetching(storage: StorageDirectories) -> ImageFetcher:
    return ImageFetcher(storage, standby_config(), count=lambda count: None, fetched=lambda address, txid: None)


def test_stored_layout_is_used_if_the_namenode_reports_its_software(tmp_path: Path) -> None:
    """Hadoop releases up to 3.3 report the layout of their software during a rolling upgrade, in which NameNodes may
    run different releases.
    """
    storage, other = locked(tmp_path / "name"), locked(tmp_path / "other")
    with NamenodeDouble(tmp_path / "nn") as namenode:
        up, stored = f"http://127.0.0.1:{namenode.http_port}", namenode.info
        newer = dataclasses.replace(stored, layout_version=stored.layout_version - 1)
        txid = namenode.image_txids()[-1]

        def version_at(address: str) -> StorageInfo:
            return stored if address == up else newer

        def first_image(storage: StorageDirectories, *addresses: str, version: Callable[[str], StorageInfo]) -> None:
            source = SharedJournalEdits("qjournal://jn1/ns", lambda info: pytest.fail("the journal is not read"))
            bootstrap(storage, source, version, fetching(storage), addresses, lambda: False)

        first_image(storage, up, version=lambda address: newer)
        assert (storage.storage_info(), storage.latest_image().txid) == (stored, txid)
        # the NameNode was set back
        active = ActiveVersion("nn1:8020", up, newer, True, txid)
        replacement = ImageReplacement(storage, NameNodes((), (), user="x", timeout=1.0, retries=1), fetching(storage))
        (folder,), info = replacement.start_over(active, lambda: False, cause="set back")
        assert (info, images(tmp_path / "name"), (folder / image_name(txid)).exists()) == (stored, [txid], True)
        first_image(other, f"http://127.0.0.1:{free_port()}", up, version=version_at)
        assert (other.storage_info(), other.latest_image().txid) == (stored, txid)
    storage.release()
    other.release()


def test_all_images_are_kept_if_the_daemon_is_killed_after_the_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NameNode was set back and has saved an image."""
    storage = locked(tmp_path / "name")
    with NamenodeDouble(tmp_path / "nn") as namenode:
        up, txid = f"http://127.0.0.1:{namenode.http_port}", namenode.image_txids()[-1]
        storage.format(namenode.info)
        fetching(storage).fetch(up, txid, namenode.info, lambda: False)
        namenode.set_back(200)
        namenode.save_namespace()
        active = ActiveVersion("nn1:8020", up, namenode.info, False, namenode.image_txids()[-1])
        replacement = ImageReplacement(storage, NameNodes((), (), user="x", timeout=1.0, retries=1), fetching(storage))

        def die(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(StorageDirectories, "finish_start_over", die)
        with pytest.raises(KeyboardInterrupt):
            replacement.start_over(active, lambda: False, cause="set back")
        assert images(tmp_path / "name") == [txid, active.image_txid]
        (folder,) = folders_aside(tmp_path / "name")
        assert (folder / image_name(txid)).exists()
    storage.release()


@pytest.mark.parametrize("found_by", ["a refused upload", "a start"])
def test_finalized_rolling_upgrade_is_adopted(stub_config: StubConfig, tmp_path: Path, found_by: str) -> None:
    with NameNodeStub(stub_config) as stub:
        daemon = daemon_of(stub, tmp_path)
        daemon.role.open()
        try:
            write_edits(stub, "before")
            assert stub.active.administration.start_rolling_upgrade() is not None
            assert daemon.role.tail()
            assert daemon.service.poll().details["reason"] == "urgent"
            assert stub.active.administration.finalize_rolling_upgrade() is not None
            daemon.role.tail()
            asked = [daemon.role.storage_info()]
            daemon.role.tail()
            kept = daemon.role.latest_image()
        finally:
            if found_by == "a start":
                daemon.role.close()
    upgrade(stub_config, layout_version=-67)
    with NameNodeStub(stub_config) as stub:
        try:
            if found_by == "a start":
                daemon = daemon_of(stub, tmp_path)
                daemon.role.open()
            else:
                write_edits(stub, "after")
                result = daemon.service.poll()
                assert result.details["uploads"] == {stub.server.url: "failed"}
                assert "403" in daemon.target()["error"]
            assert [daemon.role.storage_info()] == asked
            daemon.role.tail()
            assert daemon.role.storage_info().layout_version == -67
            # nothing was fetched, and our own images are used
            assert kept.exists()
            daemon.clock.now += PERIOD
            assert_in_sync(stub, daemon, tmp_path)
        finally:
            daemon.role.close()


def test_upgrade_is_adopted_with_the_image_of_the_active(stub_config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(stub_config) as stub:
        daemon = daemon_of(stub, tmp_path)
        daemon.role.open()
        write_edits(stub, "before")
        daemon.role.tail()
        write_edits(stub, "more", 3)
    info = upgrade(stub_config, layout_version=-67, c_time=12345)
    with NameNodeStub(stub_config) as stub:
        daemon.role._follower.doubt_version("a test")
        daemon.role.tail()
        assert daemon.role.storage_info() == info
        newest = daemon.role.latest_image()
        assert newest.read_bytes() == (tmp_path / "active/name/current" / newest.name).read_bytes()
        # a fetched image is not offered back
        assert daemon.service.poll().details["uploads"] == {}
        assert_in_sync(stub, daemon, tmp_path)
        daemon.role.close()


def test_own_files_stay_until_the_image_of_another_history_is_fetched(
    stub_config: StubConfig, stub: NameNodeStub, tmp_path: Path
) -> None:
    """A rollback set the active NameNode back to a state before our newest image, and the NameNode's image is not
    available.
    """
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "a")
        assert daemon.service.poll().details["txid"] == last
        ours = daemon.role.storage_info()
        before = sorted(path.name for path in (tmp_path / "nn2/current").iterdir())
        info = dataclasses.replace(ours, c_time=ours.c_time - 1)
        daemon.role._follower._nodes.active_version = lambda: ActiveVersion(  # type: ignore[method-assign]
            "nn1:8020", stub.server.url, info, False, last - 1
        )
        daemon.role._follower.doubt_version("a test")
        daemon.role.tail()
        # the images of the other history are not used until then
        stopped, alarm = daemon.service.status()["alarms"]
        assert "edits are not read or applied" in stopped
        assert "could not be adopted" in alarm
        assert daemon.role.storage_info() == ours
        after = sorted(path.name for path in (tmp_path / "nn2/current").iterdir() if path.name != START_OVER)
        assert after == before
        for serve in (daemon.role.latest_image, daemon.role.serving_folders):
            with pytest.raises(StorageError, match="not used: the NameNode was upgraded or rolled back"):
                serve()
        assert not daemon.service.ready().ok


@pytest.mark.parametrize("restarted", [False, True])
def test_reason_is_known_if_the_fetch_fails_without_hard_links(
    stub_config: StubConfig, stub: NameNodeStub, tmp_path: Path, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without hard links, the images are moved before the fetch, so that the storage contains none."""
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(1, "not permitted")))
    with ExitStack() as daemons:
        daemon = daemons.enter_context(daemon_of(stub, tmp_path))
        last = write_edits(stub, "a")
        assert daemon.service.poll().details["txid"] == last
        lost = daemon.role.latest_image()
        info = dataclasses.replace(daemon.role.storage_info(), c_time=-1)
        with monkeypatch.context() as patched:
            patched.setattr(
                daemon.role._follower._nodes,
                "active_version",
                lambda: ActiveVersion("nn1:8020", stub.server.url, info, False, last - 1),
            )
            daemon.role._follower.doubt_version("a test")
            daemon.role.tail()
        assert not lost.exists()
        if restarted:
            daemons.close()
            daemon = daemons.enter_context(daemon_of(stub, tmp_path))
        daemon.role.tail()
        started_over = daemon.role.details().lost_past
        assert started_over is not None
        assert started_over.reason == "the NameNode was upgraded or rolled back"
        (folder,) = started_over.set_aside
        assert (folder / lost.name).exists()
        assert daemon.service.status()["alarms"] == []
