"""A real cluster that is set back while one of our daemons follows it, and whether anything is lost by that.

An event is a generator on a `Site`: it prepares the cluster, yields while transactions are written that are going to be
lost, and then sets the cluster back. `play` writes, waits and judges around it.
"""

from __future__ import annotations

import json
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
_HEALED_WITHIN = 120.0

# ---- events ------------------------------------------------------------------------------------------------

Event = Callable[[Site], Iterator[None]]


def rolling_rollback(site: Site) -> Iterator[None]:
    """A rolling upgrade is prepared and rolled back."""
    prepare_rolling_upgrade(site)
    yield
    site.kill()
    site.start("-rollingUpgrade", "rollback")


def prepare_rolling_upgrade(site: Site) -> None:
    """Prepare one and wait until the NameNode lets it begin."""
    alone = isinstance(site, SingleSite)
    if alone:
        # it saves the rollback image itself
        site.client.admin("-safemode", "enter").checked()
    site.client.admin("-rollingUpgrade", "prepare").checked()
    if alone:
        site.client.admin("-safemode", "leave").checked()
    wait_until(lambda: "Proceed with rolling upgrade" in _upgrade_state(site), "the rollback image at the NameNode")


def _upgrade_state(site: Site) -> str:
    return site.client.admin("-rollingUpgrade", "query").checked().out


def older_image(site: Site) -> Iterator[None]:
    """All is lost but an image: the NameNode starts on it, and journals begin anew behind it."""
    shelf = _shelved_image(site)
    yield
    site.kill()
    shutil.rmtree(site.nn.name_dir)
    shutil.copytree(shelf, site.nn.name_dir)
    site.adopt_image()
    site.start()


def _shelved_image(site: Site) -> Path:
    """A storage directory with the NameNode's image of now, and nothing else."""
    txid = site.save_image()
    shelf = site.root / "shelf"
    current = shelf / "current"
    current.mkdir(parents=True)
    for name in (image_name(txid), f"{image_name(txid)}.md5", "VERSION"):
        shutil.copy(site.nn.current / name, current)
    (current / "seen_txid").write_text(f"{txid}\n")
    return shelf


def older_files(site: Site) -> Iterator[None]:
    """The storage directories are restored from copies, edits included: what comes next has the same txids."""
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
    """An upgrade that is not a rolling one is rolled back."""
    site.kill()
    site.start("-upgrade")
    yield
    site.kill()
    site.start_journal()
    run_once(NAMENODE, "-rollback", conf=site.nn.conf, typed="Y\n").checked()
    # JournalNodes of 2.7.3 serve no edits of before until they were started anew.
    site.kill()
    site.start()


def imported_checkpoint(site: Site) -> Iterator[None]:
    """The NameNode's storage is lost, it starts with -importCheckpoint from a checkpoint directory."""
    shelf = _shelved_image(site)
    yield
    site.kill()
    shutil.rmtree(site.nn.name_dir)
    site.nn.name_dir.mkdir()
    site.nn.conf.update({"dfs.namenode.checkpoint.dir": shelf.as_uri()})
    site.start("-importCheckpoint")


def formatted_anew(site: Site) -> Iterator[None]:
    """The NameNode is formatted with the cluster id that it had."""
    yield
    cluster_id = site.nn.storage_info.cluster_id
    site.kill()
    site.start_journal()
    site.nn.format("-clusterid", cluster_id)
    site.start()
    site.write_base()


def dropped_tail(site: Site) -> Iterator[None]:
    """The end of the segment in progress is not on disk after a power cut; recovery goes without it."""
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
    """A copy of the cluster is started elsewhere, and the daemon is led there."""
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
        expected: `heals`: checkpoints go on by themselves and are of what the NameNode has; `alarms`: none is
            offered, and an alarm says why; `ends`: the daemon says why it does not start.
        down: the daemon is stopped before the event and started when the NameNode has gone on.
        imaged: the daemon makes an image of what is going to be lost, which the NameNode takes.
        periodic: nobody asks for checkpoints.
        anew: how many transactions the NameNode writes when it was set back.
        rolled: it begins another segment before those, as when a backup node registers, and one behind what was lost.
        purged: behind those it saves an image and keeps no edits of before.
        alike: those are what was lost once more, at other times.
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
        said = [self.role, self.event, *(way for way in ways if getattr(self, way)), str(self.anew)]
        return "-".join([*said, *([self.expected] * (self.expected != "heals"))])


def play(row: Row, client_jvm: ClientJvm, root: Path) -> None:
    """Lose the past of a row, and assert that nothing of the present is lost, and what the row expects.

    Raises:
        AssertionError: it is not so.
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
                # it registers again with a NameNode that was restarted
                role.follow(site)
            site.lose()
            if row.rolled:
                site.roll()
            role.follow(site)
            if row.imaged and role.applied:
                # behind an upgrade it takes over another VERSION first
                wait_until(lambda: not daemon.ask_for_checkpoint().code, "an image of what is going to be lost")
            # a NameNode that is only restarted was not set back
            if row.event != "upgrade_rollback":
                # what an upgrade makes of the namespace is fetched
                assert not (lost := daemon.status()["lostPast"]), f"set aside without a reason: {lost}"
            if row.down:
                daemon.stop()
            if row.purged:
                site.nn.conf.update(_PURGING)
            next(event, None)
            _go_on(row, site)
            if row.expected == "ends":
                said = daemon.refuse_to_start()
                assert "is of another namespace" in said or "holds edits of another namespace" in said, said
                _same_after_a_restart(site, site.namespace())
                return
            if row.down:
                daemon.start()
            judge(site, expected=row.expected, periodic=row.periodic, alike=row.alike)


def _go_on(row: Row, site: Site) -> None:
    """Write what the NameNode has instead of what was lost."""
    if row.rolled:
        site.roll()
    if row.alike:
        site.lose()
    else:
        site.write(row.anew)
    if row.purged:
        site.save_image()


def play_two_upgrades(role: Role, client_jvm: ClientJvm, root: Path) -> None:
    """Roll back an upgrade while the daemon is stopped, and a second one: the second goes back to its own beginning.

    Raises:
        AssertionError: a rollback image of the first upgrade came back, or something is lost.
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
            assert site.rollback_images() == [], "a rollback image was offered, and no upgrade goes on"
            second = rolling_rollback(site)
            next(second)
            oldest = min(site.rollback_images())
            assert oldest > newest + 200, f"fsimage_rollback_{oldest} is not of the second upgrade"
            before = site.namespace()
            site.lose()
            role.follow(site)
            next(second, None)
            _same(before, site.namespace(), "the second rollback")
            site.write(200)
            judge(site, expected="heals")


def judge(site: Site, *, expected: str, periodic: bool = False, alike: bool = False) -> None:
    """Whether the daemon does what is expected, and the NameNode has everything after a restart.

    Args:
        alike: what was written anew looks like what was lost.

    Raises:
        AssertionError: not so.
    """
    before = site.namespace()
    assert alike or "/lost" not in before, "the cluster was not set back"
    newest = site.nn.images[-1]
    if expected == "heals":
        wait_for_a_checkpoint(site, newest, periodic=periodic)
    else:
        said = site.daemon.ask_for_checkpoint()
        assert said.code, repr(said)
        wait_until(lambda: bool(site.daemon.status()["alarms"]), "an alarm", _HEALED_WITHIN)
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
    """Wait until no alarm is left.

    Raises:
        AssertionError: the last alarms, and what the daemon had logged.
    """
    try:
        wait_until(lambda: not daemon.status()["alarms"], "no alarm", _HEALED_WITHIN)
    except AssertionError as error:
        raise AssertionError(f"{error}: {daemon.status()['alarms']}\n{daemon.log.read_text()[-6000:]}") from None


def _nothing_lost_in_images(site: Site) -> bool:
    found = site.lost_in_images()
    assert not found, f"the NameNode took images with lost transactions: {found}"
    return True


def wait_for_a_checkpoint(site: Site, newest: int, *, periodic: bool = False) -> int:
    """Wait until the NameNode has an image of ours after `newest`; its txid."""
    wait_until(lambda: _checkpointed(site, newest, periodic=periodic), f"a checkpoint after {newest}", _HEALED_WITHIN)
    return site.nn.images[-1]


def _checkpointed(site: Site, newest: int, *, periodic: bool) -> bool:
    """Whether the NameNode has an image of ours after `newest`; asks for one unless somebody else does."""
    if not periodic:
        site.roll()
        said = site.daemon.ask_for_checkpoint()
        if said.code:
            return False
        made: dict[str, Any] = json.loads(said.out)
        return bool(made["txid"] > newest and made["txid"] in site.nn.images)
    return site.nn.images[-1] > newest


def _same_after_a_restart(site: Site, before: Namespace) -> None:
    site.nn.stop()
    site.start()
    _same(before, site.namespace(), "a restart")


def _same(before: Namespace, after: Namespace, what: str) -> None:
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, f"{len(changed)} of {len(before)} paths changed by {what}: {changed[:10]}"
