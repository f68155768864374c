"""A backup node continues from the image of a NameNode that was recovered (`namenode -recover`).

Such an image lacks transactions that the NameNode's segments still contain.
"""

from __future__ import annotations

import pytest

from checkpointer.errors import TransferError
from checkpointer.set_back.provenance import PROVENANCE
from checkpointer.storage.lost_pasts import NOT_COMPARED
from engine.observer import SilentObserver
from hadoop_common.errors import HdfsError
from journal.segment_file import list_segments
from journal.segment_format import HEADER_SIZE
from tests.checkpointer.backup_support import Daemon, in_sync
from tests.namenode_stub.namenode_double import NamenodeDouble

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)

_STARTED_AT = 1_700_000_000_000
_RECOVERED = b"recovered_"


@pytest.fixture(autouse=True)
def checkpoint_before(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """Make a checkpoint with a NameNode that reports its start time, and write more edits."""
    namenode.started_at = _STARTED_AT
    daemon.follow()
    namenode.write(5)
    daemon.checkpoint()
    namenode.write(9)


def replace_image(namenode: NamenodeDouble, txid: int, content: bytes) -> None:
    assert b"supergroup" in content
    namenode.take(txid, content.replace(b"supergroup", _RECOVERED))


def recover(namenode: NamenodeDouble, *, started_at: int | None) -> int:
    """Restart the NameNode with an image that differs from its edits; return the txid of the image."""
    namenode.restart()
    namenode.started_at = started_at
    namenode.save_namespace()
    saved = namenode.checkpoint_txid
    replace_image(namenode, saved, namenode.image(saved).read_bytes())
    return saved


def damage(namenode: NamenodeDouble, last: int) -> None:
    """Damage the first transaction of the segment that ends at `last`."""
    damaged = next(each for each in list_segments(namenode.folder) if each.last == last).path
    content = bytearray(damaged.read_bytes())
    content[HEADER_SIZE + 10] ^= 0x40
    damaged.write_bytes(content)


# A NameNode that does not report its start time may be another process.
@pytest.mark.parametrize("started_at", [_STARTED_AT, _STARTED_AT + 1, None])
def test_image_that_a_restarted_namenode_saved_replaces_the_namespace(
    started_at: int | None, namenode: NamenodeDouble, daemon: Daemon
) -> None:
    restarted = started_at != _STARTED_AT
    recover(namenode, started_at=started_at)
    daemon.follow(3)
    assert in_sync(daemon)
    before = len(namenode.steps)
    image = daemon.checkpoint()
    assert ("image" in namenode.transfers(before)) is restarted
    assert (_RECOVERED in image.read_bytes()) is restarted
    assert daemon.service.status()["lostPast"] is None
    before = len(namenode.steps)
    namenode.write(3)
    assert (_RECOVERED in daemon.checkpoint().read_bytes()) is restarted
    assert "image" not in namenode.transfers(before)


def test_recovery_is_found_if_the_start_time_was_unknown_at_the_last_checkpoint(
    namenode: NamenodeDouble, daemon: Daemon
) -> None:
    namenode.started_at = None
    daemon.checkpoint()
    namenode.write(3)
    recover(namenode, started_at=_STARTED_AT + 1)
    daemon.follow(3)
    assert _RECOVERED in daemon.checkpoint().read_bytes()


@pytest.mark.parametrize("recovered", [False, True])
def test_image_of_a_restarted_namenode_at_the_txid_of_our_image(
    recovered: bool, namenode: NamenodeDouble, daemon: Daemon
) -> None:
    made = daemon.role.checkpoint(SilentObserver())
    content = made.saved.paths[0].read_bytes()
    namenode.restart()
    namenode.started_at = _STARTED_AT + 1
    if recovered:
        replace_image(namenode, made.txid, content)
    else:
        namenode.take(made.txid, content)
    daemon.follow(3)
    namenode.write(3)
    before = len(namenode.steps)
    assert (_RECOVERED in daemon.checkpoint().read_bytes()) is recovered
    assert ("image" in namenode.transfers(before)) is recovered


@pytest.mark.parametrize("lacks_the_next", [False, True])
def test_image_after_a_segment_whose_first_transactions_are_damaged(
    lacks_the_next: bool, namenode: NamenodeDouble, daemon: Daemon
) -> None:
    """The segment was applied, but cannot be compared any longer; the next segment may be damaged too."""
    namenode.keeps_edits = True
    namenode.roll()
    daemon.follow()
    assert in_sync(daemon)
    end = namenode.segment - 1
    saved = recover(namenode, started_at=_STARTED_AT + 1)
    damage(namenode, end)
    if lacks_the_next:
        damage(namenode, saved)
    daemon.follow(3)
    # a single failed comparison is not sufficient, nor are two at the same time
    for _ in range(2):
        with pytest.raises(HdfsError, match="cannot be accepted" if lacks_the_next else "cannot be compared"):
            daemon.checkpoint()
    daemon.now += 10.0
    assert _RECOVERED in daemon.checkpoint().read_bytes()
    lost = daemon.service.status()["lostPast"]
    assert NOT_COMPARED in lost["setAside"][0]
    namenode.write(3)
    assert _RECOVERED in daemon.checkpoint().read_bytes()
    assert daemon.service.status()["lostPast"] == lost


@pytest.mark.parametrize("started_at", [_STARTED_AT, _STARTED_AT + 1])
def test_image_after_a_damaged_segment_that_this_node_lacks(
    started_at: int, namenode: NamenodeDouble, daemon: Daemon
) -> None:
    """Without a restart, the image contains the segment."""
    namenode.keeps_edits = True
    saved = recover(namenode, started_at=started_at)
    damage(namenode, saved)
    daemon.follow(3)
    assert daemon.role.alarms() != []
    assert _RECOVERED in daemon.checkpoint().read_bytes()
    daemon.follow()
    assert in_sync(daemon)


def test_damaged_segment_without_a_later_image_of_the_namenode(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.keeps_edits = True
    namenode.restart()
    namenode.roll()
    damage(namenode, namenode.segment - 1)
    with pytest.raises(TransferError, match="cannot be accepted"):
        daemon.checkpoint()


def test_image_without_provenance_is_replaced_although_the_recovered_namenode_has_it_too(
    namenode: NamenodeDouble, daemon: Daemon
) -> None:
    """At its next start, the node stores the recovered NameNode's process with its older image."""
    namenode.keeps_edits = True
    config, folder = daemon.config, daemon.folder
    daemon.role.close()
    (folder / PROVENANCE).unlink()
    recover(namenode, started_at=_STARTED_AT + 1)
    with Daemon(config) as restarted:
        restarted.follow(3)
        namenode.write(2)
        assert _RECOVERED in restarted.checkpoint().read_bytes()


def test_failed_fetch_of_the_recovered_image_leaves_the_namespace(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover(namenode, started_at=_STARTED_AT + 1)
    daemon.follow(3)
    with monkeypatch.context() as patched:
        patched.setattr("checkpointer.roles.backup.follower.download_image", broken)
        with pytest.raises(TransferError, match="interrupted"):
            daemon.checkpoint()
    assert daemon.role._namespace.usable
    daemon.follow(3)
    assert in_sync(daemon)
    assert _RECOVERED in daemon.checkpoint().read_bytes()


def broken(*_: object, **__: object) -> None:
    raise TransferError("nn", "interrupted")


def test_stream_breaks_off_if_the_loaded_image_is_newer_than_the_received_edits(
    namenode: NamenodeDouble, daemon: Daemon
) -> None:
    """Otherwise, the node would wait for edits that the NameNode does not send to it."""
    parts = daemon.role._parts
    assert in_sync(daemon)
    parts.receiver.release_namespace("the image is replaced")
    namenode.restart()
    namenode.write(5)
    namenode.save_namespace()
    parts.follower.replace_namespace(SilentObserver())
    assert daemon.role._namespace.last_txid > parts.receiver.position().last_txid
    assert not parts.follower.converge(parts.receiver)
    assert daemon.state == "dropUntilNextRoll"
    daemon.follow(3)
    assert in_sync(daemon)
