"""A standby or backup node keeps an image that the NameNode has purged, as long as other evidence proves its past."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from checkpointer.set_back.proof import PastFinding
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.lost_pasts import NOT_COMPARED
from engine.txn_runs import ImageId, Provenance, TxnRecorder
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon as Backup
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.purge_support import Processes, assert_accepted, processes, stub_config, write_and_save
from tests.checkpointer.set_back_model import ModelSegment
from tests.checkpointer.set_back_support import OURS, Provenances, Witness, apply, chmod, delete, noted, segment
from tests.checkpointer.standby_support import Daemon, config_for, images, write_edits
from tests.namenode_stub.namenode_double import NamenodeDouble

__all__ = ["processes"]

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
    """The process is known before the image is saved: `saved` sends no request."""
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
    """The NameNode has also purged the edits from which the image was made, so only its process proves the image."""
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
