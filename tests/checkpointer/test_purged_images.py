"""A standby or backup node keeps an image that the NameNode has purged if other evidence proves the image's past."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import checkpointer.roles.standby.namenodes as namenodes_module
from checkpointer.checks.ask_storage import ask_directories
from checkpointer.checks.facts import Facts
from checkpointer.checks.storage_checks import check_storage
from checkpointer.checks.thresholds import Thresholds
from checkpointer.set_back.proof import PastFinding, set_back
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED, folders_aside, link_aside, start_over_of
from engine.txn_runs import ImageId, Provenance, TxnRecorder
from hadoop_common.durable import write_atomically
from hadoop_common.names import image_name
from journal.segment_file import list_segments
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon as Backup
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.set_back_model import ModelSegment
from tests.checkpointer.set_back_support import OURS, Provenances, Witness, apply, chmod, delete, noted, segment
from tests.checkpointer.standby_support import PERIOD, TRANSACTIONS, Daemon, config_for, images, write_edits
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.stub_support import formatted, wait_until

# ---- stored images -----------------------------------------------------------------------------------------


class Restarting(Witness):
    """A witness whose NameNode is restarted, and thereby set back, while its segments are listed."""

    def segments(self, from_txid: int) -> Sequence[ModelSegment]:
        self.life += 1
        return super().segments(from_txid)


@pytest.mark.parametrize(("kind", "known"), [(Witness, True), (Restarting, False)])
def test_edits_before_a_fetched_image_get_the_process_that_has_it(kind: type[Witness], known: bool) -> None:
    image = ImageId(9, "aa")
    store = Provenances("", Provenance((), None))
    witness = kind(OURS, 9, {9: "aa"}, life=7)
    watch = PastWatch(TxnRecorder(), store, lambda: [image], lambda last: witness)
    watch.fetched(image)
    ending = Provenance(noted(OURS[1], base=4).runs(), None, life=("nn", 7))
    assert store.of("aa") == (ending if known else None)
    # another NameNode's image of this txid
    watch.fetched(ImageId(9, "bb"))
    assert store.of("bb") is None


@pytest.mark.parametrize(("kind", "stored"), [(Witness, ("nn", 7)), (Restarting, None)])
def test_saved_image_gets_the_process_that_was_compared(kind: type[Witness], stored: tuple[str, int] | None) -> None:
    """The process is known before the image is saved, so `saved` sends no request."""
    store = Provenances("", Provenance((), None))
    witness = kind(OURS, 9, {0: "aa"}, life=7)
    watch = PastWatch(noted(*OURS), store, lambda: [ImageId(0, "aa")], lambda last: witness)
    assert watch.check(deep=True).holds
    # the NameNode is restarted after the comparison, or does not answer
    witness.life = 0
    watch.saved(ImageId(9, "bb"))
    assert store.known["bb"].life == stored
    assert store.known["bb"].made


QUIET = (segment(1, chmod(2)), segment(4, chmod(5)))
IMAGE = ImageId(3, "aa")


def watch_over(store: Provenances, witness: Witness, *applied: ModelSegment) -> PastWatch:
    """Return the watch of a daemon that has loaded IMAGE and applied segments."""
    recorder = TxnRecorder()
    watch = PastWatch(recorder, store, lambda: [IMAGE], lambda last: witness)
    watch.loaded(IMAGE)
    apply(recorder, applied)
    return watch


def test_process_of_an_image_proves_no_later_edits() -> None:
    """The disk of a backup node contains segments of a lost past with txids that the NameNode has purged."""
    store = Provenances("", Provenance((), None))
    present = [segment(4, delete(5, at=9000)), segment(7, delete(8, at=9001))]
    witness = Witness(present, 9, {3: "aa"}, life=2)
    # the daemon is killed before it compares anything
    watch_over(store, witness)
    assert store.known["aa"].life == ("nn", 2)
    lost = segment(4, delete(5, at=1000))
    witness.present, witness.images = present[1:], {}
    watch = watch_over(store, witness, lost, present[1])
    assert watch.check(deep=True).finding is PastFinding.SILENT
    # the image itself is still proved, which does not prove the edits that follow it
    assert watch.confirm(IMAGE).holds
    assert watch.check(deep=True).finding is PastFinding.SILENT


@pytest.mark.parametrize(("life", "gap", "holds"), [(2, False, True), (3, False, False), (2, True, False)])
def test_non_identifying_edits_hold_after_an_image_of_the_process(life: int, gap: bool, holds: bool) -> None:
    store = Provenances("aa", Provenance(noted(QUIET[0]).runs(), ImageId(0, "00"), life=("nn", 2)))
    watch = watch_over(store, Witness(QUIET[1:], 6, {}, life=life), QUIET[1])
    if gap:
        watch.doubt(gap=True)
    assert watch.check(deep=True).finding is (PastFinding.HOLDS if holds else PastFinding.SILENT)


def test_image_gets_its_provenance_once_a_namenode_answers() -> None:
    store = Provenances("", Provenance((), None))
    witness = Witness(QUIET, 6, None, life=0)
    watch = watch_over(store, witness)
    assert watch.check(deep=True).finding is PastFinding.UNKNOWN
    assert store.of("aa") is None
    witness.images, witness.life = {3: "aa"}, 2
    assert watch.check(deep=True).holds
    # none of the segments up to the image is identifying, so the image itself is the proof
    assert store.of("aa") == Provenance((), IMAGE, life=("nn", 2))


# ---- daemons -----------------------------------------------------------------------------------------------


class Processes:
    """Start times of the NameNode's process, which a stub's `/jmx` does not report."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started_at = 1000
        monkeypatch.setattr(namenodes_module, "ask_start_time", lambda *_, **__: self.started_at)

    def restart(self) -> None:
        self.started_at += 1


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def stub_config(tmp_path: Path, extra_edits: int) -> StubConfig:
    return formatted(
        tmp_path / "active",
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        rpc_address=("127.0.0.1", 0),
        images_retained=1,
        extra_edits_retained=extra_edits,
    )


def write_and_save(stub: NameNodeStub, label: str) -> int:
    """Write edits and save an image, which purges the previous image; return the new image's txid."""
    write_edits(stub, label)
    stub.active.administration.set_safe_mode(on=True)
    assert stub.active.administration.save_namespace()
    stub.active.administration.set_safe_mode(on=False)
    return stub.images.checkpoint_txid


def assert_accepted(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    """Assert that the NameNode accepts the daemon's next image, and that `check` has no warning."""
    daemon.clock.now += PERIOD
    txid = write_edits(stub, "more")
    result = daemon.service.poll()
    assert (result.state, result.details["txid"]) == (TriggerState.DONE, txid)
    assert result.details["uploads"] == {stub.server.url: "SUCCESS"}
    assert images(tmp_path / "active/name") == [txid]
    assert not (tmp_path / "nn2" / LOST_PAST).exists()
    (directory,) = ask_directories([tmp_path / "nn2"], 60.0)
    facts = Facts(now=0.0, period=PERIOD, transactions=1, reserved=0, directories=(directory,))
    assert "set aside" not in check_storage(facts, Thresholds()).summary


@pytest.mark.parametrize("fetched", [0, 1], ids=["the-formatted-image", "a-later-image"])
@pytest.mark.parametrize("restarted", [False, True])
def test_fetched_image_after_a_purge(
    tmp_path: Path, processes: Processes, caplog: pytest.LogCaptureFixture, fetched: int, restarted: bool
) -> None:
    """Either the NameNode's process or the edits that end with the image prove the image."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        first = write_and_save(stub, "first") if fetched else 0
        with Daemon(config) as daemon:
            daemon.role.tail()
        assert images(tmp_path / "nn2") == [first]
        newest = write_and_save(stub, "second")
        assert images(tmp_path / "active/name") == [newest]
        if restarted:
            processes.restart()
        with Daemon(config) as daemon:
            daemon.role.tail()
            # only an image before the first edit lacks edits that end with the image
            proven = bool(first) or not restarted
            assert images(tmp_path / "nn2") == [first if proven else newest]
            lost = daemon.role.details().lost_past
            assert (lost is None) == proven
            if lost is not None:
                assert "cannot be compared" in lost.reason
                assert [folder.parent.name for folder in lost.set_aside] == [NOT_COMPARED]
            assert_accepted(stub, daemon, tmp_path)
    assert "was set back" not in caplog.text


def test_forced_checkpoint_that_starts_over_needs_no_action(tmp_path: Path, processes: Processes) -> None:
    """The NameNode's image contains all finalized edits, so there is nothing to merge."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            daemon.role.tail()
        newest = write_and_save(stub, "edits")
        processes.restart()
        with Daemon(config) as daemon:
            result = daemon.service.request(force=True, wait=True)
            assert images(tmp_path / "nn2") == [newest]
            assert result.message == f"no finalized edits after txid {newest}"
            assert result.details["hint"].startswith("No action is needed")
            assert "hdfs dfsadmin -rollEdits" in result.details["hint"]
            assert_accepted(stub, daemon, tmp_path)


@pytest.mark.parametrize(("extra_edits", "kept"), [(15, True), (0, False)], ids=["later-edits-exist", "gap"])
def test_own_image_after_a_purge(tmp_path: Path, processes: Processes, extra_edits: int, kept: bool) -> None:
    """The NameNode has also purged the edits from which the image was made, so only the NameNode's process proves the
    image.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            write_edits(stub, "first")
            made = daemon.service.poll().details["txid"]
            assert images(tmp_path / "active/name") == [made]
        # another checkpointer makes the next image
        newest = write_and_save(stub, "second")
        edits = min(segment.first for segment in list_segments(tmp_path / "active/shared/current"))
        assert edits == (made if kept else newest) + 1
        with Daemon(config) as daemon:
            daemon.role.tail()
            assert_accepted(stub, daemon, tmp_path)
            assert (daemon.role.details().lost_past is None) == kept
            assert images(tmp_path / "nn2")[0] == (made if kept else newest)


def test_fetched_image_of_a_backup_node_after_a_purge(tmp_path: Path) -> None:
    with NamenodeDouble(tmp_path / "nn", per_roll=1) as node:
        node.started_at, node.keeps_edits = 1000, True
        config = backup_config(tmp_path / "backup", node.rpc_port, node.http_port)
        with Backup(config):
            fetched = node.image_txids()[-1]
        node.save_namespace()
        node.save_namespace()
        assert fetched not in node.image_txids()
        with Backup(config) as daemon:
            daemon.follow()
            made = daemon.service.request(force=True, wait=True)
            assert (made.state, made.details["outcome"]) == (TriggerState.DONE, "taken")
            assert daemon.role.details().lost_past is None


def test_edits_purged_before_they_are_tailed(tmp_path: Path, processes: Processes) -> None:
    """The NameNode has not restarted, which proves the daemon's state in memory, but it has purged the edits after this
    state.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=0)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        write_edits(stub, "first")
        made = daemon.service.poll().details["txid"]
        write_and_save(stub, "second")
        newest = write_and_save(stub, "third")
        write_edits(stub, "fourth")
        daemon.role.tail()
        assert daemon.service.status()["alarms"] == []
        assert images(tmp_path / "nn2") == [0, made, newest]
        assert daemon.role.details().lost_past is None
        assert_accepted(stub, daemon, tmp_path)


def test_kill_while_the_only_image_is_replaced(tmp_path: Path, processes: Processes) -> None:
    """The image belongs to a lost past, but its digest file already belongs to the NameNode's image."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            ours = daemon.role.latest_image()
        theirs = ours.read_bytes()
        lost = theirs.replace(b"supergroup", b"otherGroup")
        write_atomically(ours, lost)
        root = tmp_path / "nn2"
        link_aside(root, start_over_of([root], LOST_PAST, "the NameNode was set back: the edits differ"))
        (folder,) = folders_aside(tmp_path / "nn2")
        with Daemon(config) as daemon:
            daemon.role.tail()
            assert daemon.service.status()["alarms"] == []
            assert ours.read_bytes() == theirs
            started_over = daemon.role.details().lost_past
            assert started_over is not None
            assert started_over.reason == "the NameNode was set back: the edits differ"
            assert list(started_over.set_aside) == [folder]
            daemon.clock.now += PERIOD
            txid = write_edits(stub, "more")
            assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
            assert images(tmp_path / "active/name") == [txid]
        assert (folder / ours.name).read_bytes() == lost


@pytest.mark.parametrize("count", [1, 2])
def test_damaged_images_are_no_lost_past(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The NameNode was set back, and none of the node's images is intact, so no image is kept as the NameNode's lost
    state.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        write_edits(stub, "first")
        if count == 2:
            daemon.service.poll()
        ours = [tmp_path / "nn2/current" / image_name(txid) for txid in images(tmp_path / "nn2")]
        assert len(ours) == count
        for each in ours:
            write_atomically(each, each.read_bytes().replace(b"supergroup", b"otherGroup"))
        compare, found = PastWatch.check, [set_back("the edits are different")]
        monkeypatch.setattr(
            PastWatch, "check", lambda self, *, deep: found.pop() if found else compare(self, deep=deep)
        )
        daemon.role.tail()
        assert not found
        assert daemon.role.alarms() == []
        started_over = daemon.role.details().lost_past
        assert started_over is not None
        assert started_over.reason == "the NameNode was set back: the edits are different"
        assert (tmp_path / "nn2" / NOT_COMPARED).exists()
        assert_accepted(stub, daemon, tmp_path)


def test_image_damaged_while_the_namespace_is_in_memory_is_fetched_again(tmp_path: Path, processes: Processes) -> None:
    """Once there is space for an image, the daemon fetches the NameNode's image without a restart."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        daemon.role.tail()
        write_edits(stub, "first")
        ours = daemon.role.latest_image()
        whole = ours.read_bytes()
        write_atomically(ours, b"damaged!" + whole[8:])
        with pytest.MonkeyPatch.context() as full:
            full.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
            daemon.role.tail()
            assert any("4096 bytes free" in alarm for alarm in daemon.role.alarms())
            assert ours.read_bytes()[:8] == b"damaged!"
            assert not (tmp_path / "nn2" / NOT_COMPARED).exists()
        daemon.role.tail()
        assert daemon.role.alarms() == []
        assert ours.read_bytes() == whole
        assert_accepted(stub, daemon, tmp_path)


def test_image_with_a_wrong_digest_is_replaced_by_a_tail(tmp_path: Path, processes: Processes) -> None:
    """A tail after the verification replaces the image. Otherwise, a daemon that serves reads would answer from this
    image.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            ours = daemon.role.latest_image()
        theirs = ours.read_bytes()
        write_atomically(ours, theirs.replace(b"supergroup", b"otherGroup"))
        with Daemon(config) as daemon:

            def started_over() -> bool:
                daemon.role.tail()
                return daemon.role.details().lost_past is not None

            wait_until("the start over", started_over)
            assert daemon.role.alarms() == []
            assert ours.read_bytes() == theirs
            assert_accepted(stub, daemon, tmp_path)
