"""A real cluster that is set back while one of our daemons follows it: nothing may be lost.

An event is a generator on a `Site`. The event prepares the cluster, yields while the test writes transactions to lose,
and then sets the cluster back. `play` writes, waits and judges before and after the event.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_common.names import image_name, parse_segment
from tests.interop.clients import ClientJvm, Namespace
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.our_daemon import OurDaemon
from tests.interop.sites import NAMENODE, ROLES, Role, SingleSite, Site

_PERIODIC = {"dfs.namenode.checkpoint.period": "2", "dfs.ha.log-roll.period": "1"}
_PURGING = {"dfs.namenode.num.extra.edits.retained": "0", "dfs.namenode.num.checkpoints.retained": "1"}

# ---- events ------------------------------------------------------------------------------------------------

Event = Callable[[Site], Iterator[None]]


def rolling_rollback(site: Site) -> Iterator[None]:
    """Prepare a rolling upgrade and roll it back."""
    prepare_rolling_upgrade(site)
    yield
    site.kill()
    site.start("-rollingUpgrade", "rollback")


def prepare_rolling_upgrade(site: Site) -> None:
    """Prepare a rolling upgrade and wait until the NameNode permits its start."""
    alone = isinstance(site, SingleSite)
    if alone:
        # the NameNode, not a standby, saves the rollback image
        site.client.admin("-safemode", "enter").checked()
    site.client.admin("-rollingUpgrade", "prepare").checked()
    if alone:
        site.client.admin("-safemode", "leave").checked()
    wait_until(lambda: "Proceed with rolling upgrade" in _upgrade_state(site), "the rollback image at the NameNode")


def _upgrade_state(site: Site) -> str:
    return site.client.admin("-rollingUpgrade", "query").checked().out


def older_image(site: Site) -> Iterator[None]:
    """Lose everything except an image; the NameNode starts from this image, and the journals start over after it."""
    shelf = _shelved_image(site)
    yield
    site.kill()
    shutil.rmtree(site.nn.name_dir)
    shutil.copytree(shelf, site.nn.name_dir)
    site.adopt_image()
    site.start()


def _shelved_image(site: Site) -> Path:
    """Make a storage directory that contains only the NameNode's current image."""
    txid = site.save_image()
    shelf = site.root / "shelf"
    current = shelf / "current"
    current.mkdir(parents=True)
    for name in (image_name(txid), f"{image_name(txid)}.md5", "VERSION"):
        shutil.copy(site.nn.current / name, current)
    (current / "seen_txid").write_text(f"{txid}\n")
    return shelf


def older_files(site: Site) -> Iterator[None]:
    """Restore the storage directories from copies that contain edits, so that the next transactions reuse txids."""
    copies = _copied_stores(site)
    site.start()
    yield
    site.kill()
    for store, copied in zip(site.stores(), copies, strict=True):
        shutil.rmtree(store)
        shutil.copytree(copied, store)
    site.start()


def _copied_stores(site: Site) -> list[Path]:
    """Stop the cluster and copy its stores."""
    site.kill()
    copies = [site.root / "copies" / str(number) for number, _ in enumerate(site.stores())]
    for store, copied in zip(site.stores(), copies, strict=True):
        shutil.copytree(store, copied)
    return copies


def upgrade_rollback(site: Site) -> Iterator[None]:
    """Roll back an ordinary upgrade."""
    site.kill()
    site.start("-upgrade")
    yield
    site.kill()
    site.start_journal()
    run_once(NAMENODE, "-rollback", conf=site.nn.conf, typed="Y\n").checked()
    # Hadoop 2.7.3 JournalNodes serve earlier edits only after a restart.
    site.kill()
    site.start()


def imported_checkpoint(site: Site) -> Iterator[None]:
    """Lose the NameNode's storage; the NameNode starts with -importCheckpoint from a checkpoint directory."""
    shelf = _shelved_image(site)
    yield
    site.kill()
    shutil.rmtree(site.nn.name_dir)
    site.nn.name_dir.mkdir()
    site.nn.conf.update({"dfs.namenode.checkpoint.dir": shelf.as_uri()})
    site.start("-importCheckpoint")


def formatted_anew(site: Site) -> Iterator[None]:
    """Format the NameNode with its old cluster id."""
    yield
    cluster_id = site.nn.storage_info.cluster_id
    site.kill()
    site.start_journal()
    site.nn.format("-clusterid", cluster_id)
    site.start()
    site.write_base()


def dropped_tail(site: Site) -> Iterator[None]:
    """Lose the end of the segment in progress, as in a power cut; recovery continues without it."""
    before = {path: path.read_bytes() for store in site.stores() for path in _open_segments(store)}
    assert before, "no segment is open"
    yield
    site.kill()
    for path, content in before.items():
        assert path.exists(), "the segment ended before the power cut"
        path.write_bytes(content)
    site.start()


def _open_segments(store: Path) -> list[Path]:
    found = [(path, parse_segment(path.name)) for path in (store / "current").iterdir()]
    return [path for path, segment in found if segment is not None and segment.last is None]


def cloned(site: Site) -> Iterator[None]:
    """Start a copy of the cluster elsewhere, and direct the daemon to it."""
    copies = _copied_stores(site)
    site.start()
    yield
    site.kill()
    site.become(copies)
    site.start()


EVENTS: dict[str, Event] = {
    event.__name__: event
    for event in (
        rolling_rollback,
        older_image,
        older_files,
        upgrade_rollback,
        imported_checkpoint,
        formatted_anew,
        dropped_tail,
        cloned,
    )
}


# ---- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One way to lose a past.

    Attributes:
        expected: `heals`: checkpoints of the NameNode's namespace continue automatically; `alarms`: the daemon offers
            no image and an alarm gives the reason; `ends`: the daemon exits with the reason.
        down: whether the daemon is stopped before the event and started after the NameNode has continued.
        imaged: whether the daemon makes an image of the transactions to lose, which the NameNode accepts.
        periodic: whether only the period triggers checkpoints.
        anew: number of transactions that the NameNode writes after it was set back.
        rolled: whether the NameNode begins a segment before the new transactions, as when a backup node registers, and
            another segment after the lost transactions.
        purged: whether, after the new transactions, the NameNode saves an image and purges all earlier edits.
        alike: whether the new transactions repeat the lost transactions, with other times.
    """

    role: str
    event: str
    expected: str = "heals"
    down: bool = False
    imaged: bool = False
    periodic: bool = False
    anew: int = 200
    rolled: bool = False
    purged: bool = False
    alike: bool = False

    def __str__(self) -> str:
        ways = ("down", "imaged", "periodic", "rolled", "purged", "alike")
        words = [self.role, self.event, *(way for way in ways if getattr(self, way)), str(self.anew)]
        return "-".join([*words, *([self.expected] * (self.expected != "heals"))])


def play(row: Row, client_jvm: ClientJvm, root: Path) -> None:
    """Set the cluster back as a row describes; assert that the current namespace is complete, and that the row's
    expectation is met.

    Raises:
        AssertionError: an inode is lost, or the daemon does not meet the expectation.
    """
    role = ROLES[row.role]
    with role.site(client_jvm, root, role) as site:
        site.ours.update({**dict(role.settings), **(_PERIODIC if row.periodic else {})})
        site.write_base()
        with site.daemon as daemon:
            site.roll()
            daemon.checkpoint()
            event = EVENTS[row.event](site)
            next(event)
            if role.command == "backup":
                # a backup node registers again after the NameNode's restart
                role.follow(site)
            site.lose()
            if row.rolled:
                site.roll()
            role.follow(site)
            if row.imaged and role.applied:
                # after an upgrade, the daemon first adopts another VERSION
                wait_until(lambda: not daemon.ask_for_checkpoint().code, "an image of the transactions to lose")
            # a restart does not set a NameNode back, but an upgrade makes the daemon fetch the upgraded namespace
            if row.event != "upgrade_rollback":
                assert not (lost := daemon.status()["lostPast"]), f"set aside without a reason: {lost}"
            if row.down:
                daemon.stop()
            if row.purged:
                site.nn.conf.update(_PURGING)
            next(event, None)
            # The period may trigger a checkpoint before all transactions are written.
            first = site.nn.images[-1]
            _go_on(row, site)
            newest = first if row.periodic else site.nn.images[-1]
            if row.expected == "ends":
                message = daemon.refuse_to_start()
                assert re.search("belongs to another namespace|contains edits of another namespace", message), message
                _same_after_a_restart(site, site.namespace())
                return
            if row.down:
                daemon.start()
            judge(site, newest, expected=row.expected, periodic=row.periodic, alike=row.alike)


def _go_on(row: Row, site: Site) -> None:
    """Write new transactions in place of the lost transactions."""
    if row.rolled:
        site.roll()
    if row.alike:
        site.lose()
    else:
        site.write(row.anew)
    if row.purged:
        site.save_image()


def play_two_upgrades(role: Role, client_jvm: ClientJvm, root: Path) -> None:
    """Roll back an upgrade while the daemon is stopped, and then a second upgrade, each to its beginning.

    Raises:
        AssertionError: a rollback image of the first upgrade reappeared, or an inode is lost.
    """
    with role.site(client_jvm, root, role) as site:
        site.ours.update(dict(role.settings))
        site.write_base()
        with site.daemon as daemon:
            site.roll()
            daemon.checkpoint()
            first = rolling_rollback(site)
            next(first)
            site.lose()
            role.follow(site)
            daemon.stop()
            next(first, None)
            site.write(200)
            daemon.start()
            newest = site.nn.images[-1]
            wait_for_a_checkpoint(site, newest)
            assert site.rollback_images() == [], "a rollback image was offered, but no upgrade is in progress"
            second = rolling_rollback(site)
            next(second)
            oldest = min(site.rollback_images())
            assert oldest > newest + 200, f"fsimage_rollback_{oldest} does not belong to the second upgrade"
            before = site.namespace()
            site.lose()
            role.follow(site)
            next(second, None)
            _same(before, site.namespace(), "the second rollback")
            site.write(200)
            judge(site, site.nn.images[-1], expected="heals")


def play_purge(role: Role, client_jvm: ClientJvm, root: Path, *, restarted: bool) -> None:
    """Make the NameNode purge the only image of a stopped daemon. The daemon did not make this image, but fetched it.

    Args:
        restarted: whether the NameNode is also restarted, so that only the edits before the image's txid show that the
            image belongs to the NameNode's past.

    Raises:
        AssertionError: the daemon set the image aside, or the NameNode has no image from the daemon.
    """
    with role.site(client_jvm, root, role) as site:
        site.ours.update(dict(role.settings))
        site.write_base()
        site.nn.conf.update({"dfs.namenode.num.checkpoints.retained": "1"})
        site.nn.stop()
        site.start()
        fetched = site.save_image()
        with site.daemon as daemon:
            role.follow(site)
            daemon.stop()
            site.write(20)
            newest = site.save_image()
            assert fetched not in site.nn.images
            if restarted:
                site.nn.stop()
                site.start()
            daemon.start()
            wait_for_a_checkpoint(site, newest)
            assert not (lost := daemon.status()["lostPast"]), f"set aside without a reason: {lost}"
            checked = daemon.check("storage")
            assert checked.code == 0, checked
            _same_after_a_restart(site, site.namespace())


def judge(site: Site, newest: int, *, expected: str, periodic: bool = False, alike: bool = False) -> None:
    """Assert that the daemon meets the expectation, and that the NameNode has everything after a restart.

    Args:
        newest: txid of the NameNode's newest image before the expected checkpoint.
        alike: whether the new transactions equal the lost transactions.

    Raises:
        AssertionError: one of these conditions is not met.
    """
    before = site.namespace()
    assert alike or "/lost" not in before, "the cluster was not set back"
    if expected == "heals":
        wait_for_a_checkpoint(site, newest, periodic=periodic)
    else:
        response = site.daemon.ask_for_checkpoint()
        assert response.code, repr(response)
        wait_until(lambda: bool(site.daemon.status()["alarms"]), "an alarm")
        assert site.nn.images[-1] == newest, "an image was offered"
    assert alike or _nothing_lost_in_images(site)
    _same_after_a_restart(site, before)
    if expected == "heals":
        newest = site.nn.images[-1]
        site.write(10)
        before = site.namespace()
        wait_for_a_checkpoint(site, newest, periodic=periodic)
        assert alike or _nothing_lost_in_images(site)
        _wait_for_silence(site.daemon)


def _wait_for_silence(daemon: OurDaemon) -> None:
    """Wait until the last alarm has ended.

    Raises:
        AssertionError: alarms remain; the message contains them and the daemon's log.
    """
    try:
        wait_until(lambda: not daemon.status()["alarms"], "no alarm")
    except AssertionError as error:
        raise AssertionError(f"{error}: {daemon.status()['alarms']}\n{daemon.log.read_text()[-6000:]}") from None


def _nothing_lost_in_images(site: Site) -> bool:
    found = site.lost_in_images()
    assert not found, f"the NameNode accepted images with lost transactions: {found}"
    return True


def wait_for_a_checkpoint(site: Site, newest: int, *, periodic: bool = False) -> int:
    """Wait until the NameNode has one of our images after `newest`; return its txid.

    Raises:
        AssertionError: no image arrived; the message contains the response to a last request and the daemon's log.
    """
    try:
        wait_until(lambda: _checkpointed(site, newest, periodic=periodic), f"a checkpoint after {newest}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {site.daemon.ask_for_checkpoint()!r}") from None
    return site.nn.images[-1]


def _checkpointed(site: Site, newest: int, *, periodic: bool) -> bool:
    """Return whether the NameNode has an image after `newest` from us; request a checkpoint unless checkpoints are
    periodic.
    """
    _restore_storage(site)
    if not periodic:
        site.roll()
        response = site.daemon.ask_for_checkpoint()
        if response.code:
            return False
        made: dict[str, Any] = json.loads(response.out)
        return bool(made["txid"] > newest and made["txid"] in site.nn.images)
    return site.nn.images[-1] > newest


def _restore_storage(site: Site) -> None:
    """Let the NameNode use a dropped storage directory again, which happens at the next roll.

    A NameNode drops a directory if an image arrives while it purges older images (see docs/support.md).
    """
    log = site.nn.process.log_text()
    if log.count("Error reported on storage directory") > log.count("restoring dir"):
        site.client.admin("-restoreFailedStorage", "true").checked()


def _same_after_a_restart(site: Site, before: Namespace) -> None:
    site.nn.stop()
    site.start()
    _same(before, site.namespace(), "a restart")


def _same(before: Namespace, after: Namespace, what: str) -> None:
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, f"{len(changed)} of {len(before)} paths changed by {what}: {changed[:10]}"
