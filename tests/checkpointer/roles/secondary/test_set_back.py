"""A secondary whose NameNode was set back: its images remain until the NameNode's image is stored."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from checkpointer.daemon.blueprints import RoleImages
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.provenance import held_images
from checkpointer.storage.inspector import inspect
from checkpointer.storage.lost_pasts import KEPT, LOST_PAST, NOT_COMPARED, folders_aside
from checkpointer.storage.usable_images import content_fault
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, parse_image
from servlets.status import TriggerState
from tests.checkpointer.kill_harness import Kill, kill, kills, record
from tests.checkpointer.secondary_support import Secondary, done, image_txids, secondary_config
from tests.depth import sample
from tests.namenode_stub.namenode_double import NamenodeDouble


def contents(folder: Path) -> dict[str, bytes]:
    return {image.path.name: image.path.read_bytes() for image in inspect(folder.parent).images}


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if parse_image(path.name) is not None}


@pytest.mark.parametrize("beyond", [200, 60], ids=["other-edits", "fewer-edits"])
def test_images_remain_until_the_namenodes_image_is_stored(node: NamenodeDouble, tmp_path: Path, beyond: int) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        ours = contents(secondary.folder)
        segments = [(each.first, each.last or 0) for each in secondary.role.segments()]
        node.set_back(beyond)
        node.faults["image"] = 500
        for _ in range(2):
            assert secondary.checkpoint().state is TriggerState.FAILED
            assert contents(secondary.folder) == ours
            # neither served nor offered
            store = RoleImages(secondary.role)
            requests = (
                store.latest_image,
                partial(store.find_image, image_txids(secondary.folder)[-1]),
                partial(store.find_segment, *segments[-1]),
            )
            for request in requests:
                with pytest.raises(StorageError, match="do not belong to the NameNode's past"):
                    request()
            assert secondary.role.details().lost_past is None
    node.steps.clear()
    with Secondary.of(tmp_path, node) as secondary:
        assert secondary.checkpoint().state is TriggerState.FAILED
        assert contents(secondary.folder) == ours
        assert "upload" not in node.steps
        node.faults.clear()
        txid = done(secondary)
        lost = secondary.role.details().lost_past
    assert lost is not None
    (aside,) = lost.set_aside
    assert aside.parent.name == LOST_PAST
    assert {name: (aside / name).read_bytes() for name in ours} == ours
    assert image_txids(secondary.folder) == node.image_txids()
    assert node.image_txids()[-1] == txid


def test_alarm_while_lost_images_are_not_used(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The NameNode was set back, and its image is damaged until it saves its namespace."""
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        assert secondary.role.alarms() == []
        node.set_back(200)
        node.faults["image"] = "digest"
        for _ in range(2):
            assert secondary.checkpoint().state is TriggerState.FAILED
            (alarm,) = secondary.role.alarms()
            assert "was set back" in alarm
            assert f"the images in {secondary.folder} are not used" in alarm
            assert alarm in secondary.service.status()["alarms"]
            assert "Never copy these images to the NameNode" in getattr(alarm, "hint", "")
        assert caplog.messages.count(alarm) == 1
        node.faults.clear()
        node.save_namespace()
        done(secondary)
        assert secondary.role.alarms() == []


def test_image_refused_before_its_upload_remains_until_the_next_checkpoint(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        node.faults["upload"] = 500
        secondary.checkpoint()
        ours = contents(secondary.folder)
        node.faults.clear()
        node.set_back(200)
        node.faults["rollEditLog"] = "cut"
        node.steps.clear()
        secondary.service.poll()
        assert contents(secondary.folder) == ours
        secondary.service.poll()
        assert "upload" not in node.steps
        assert contents(secondary.folder) == ours
        node.faults.clear()
        done(secondary)
        assert secondary.role.details().lost_past is not None


def test_state_that_cannot_be_compared_remains_until_the_namenodes_image_is_stored(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    """The NameNode has purged our image and all edits below its own image."""
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        ours = contents(secondary.folder)
        node.save_namespace(upgrade=True)
        node.faults["image"] = 500
        assert secondary.checkpoint().state is TriggerState.FAILED
        (alarm,) = secondary.role.alarms()
        assert "they may be the last copy" in getattr(alarm, "hint", "")
        assert contents(secondary.folder) == ours
        node.faults.clear()
        done(secondary)
        lost = secondary.role.details().lost_past
    assert lost is not None
    assert "cannot be compared" in lost.reason
    assert [folder.parent.name for folder in lost.set_aside] == [NOT_COMPARED]


def start_over(folder: str, rpc_port: int, http_port: int) -> None:
    """Run a daemon that makes one checkpoint; called in a child process."""
    with Secondary(secondary_config(Path(folder), rpc_port, http_port)) as secondary:
        assert secondary.checkpoint().state is TriggerState.DONE


def test_nothing_is_fetched_if_the_lost_images_cannot_be_kept(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        ours = contents(secondary.folder)
        node.set_back(200)
        node.save_namespace()
        obstacle = secondary.folder.parent / LOST_PAST
        obstacle.touch()
        assert secondary.checkpoint().state is TriggerState.FAILED
        assert f"{obstacle} cannot be used" in secondary.service.status()["error"]
        assert contents(secondary.folder) == ours
        obstacle.unlink()
        done(secondary)
        lost = secondary.role.details().lost_past
    assert lost is not None
    (aside,) = lost.set_aside
    assert {name: (aside / name).read_bytes() for name in ours} == ours


@pytest.mark.parametrize("saved", [False, True], ids=["older-image", "newer-image"])
def test_an_image_exists_after_a_kill_at_every_step(tmp_path: Path, saved: bool) -> None:
    """With `saved`, the NameNode has itself saved an image that is newer than ours.

    Once this image is stored, nothing proves that our images are lost, and retention purges them.
    """
    before = tmp_path / "before"
    with NamenodeDouble(before / "name") as node, Secondary.of(before, node) as secondary:
        done(secondary)
        ours = contents(secondary.folder)

    def place(name: str) -> tuple[Path, NamenodeDouble]:
        folder = tmp_path / name
        shutil.copytree(before, folder, copy_function=shutil.copyfile)
        node = NamenodeDouble(folder / "name")
        node.set_back(200)
        if saved:
            node.save_namespace()
        return folder, node

    folder, node = place("recorded")
    with node:
        steps = record(start_over, str(folder), node.rpc_port, node.http_port)
    fetching = len(steps) - steps[::-1].index("link")
    # the NameNode's image is stored, but our images are not set aside yet
    fetched = Kill(steps.index("unlink", fetching), "unlink")
    for where in {*sample(list(kills(steps)), 3, "start over"), fetched}:
        folder, node = place(str(where).replace("/", "_"))
        current = folder / "secondary/current"
        with node:
            kill(where, start_over, str(folder), node.rpc_port, node.http_port)
            assert held_images([current])
            assert not any(content_fault(current / image_name(image.txid)) for image in held_images([current]))
            for _ in range(3):
                start_over(str(folder), node.rpc_port, node.http_port)
            assert len(folders_aside(current.parent)) == 1
            aside = [path for each in folders_aside(current.parent) for path in each.iterdir()]
            found = {(path.name, path.read_bytes()) for path in aside if path.name in ours}
            assert set(ours.items()) <= {*found, *contents(current).items()}
            newest = image_name(node.checkpoint_txid)
            assert (current / newest).read_bytes() == (node.folder / newest).read_bytes()
        shutil.rmtree(folder)


def test_lost_images_are_not_served_after_a_restart_without_the_namenode(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, an operator could restore the NameNode from an image of the lost past."""
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        ours = contents(secondary.folder)
        node.set_back(200)
        node.faults["image"] = 500
        assert secondary.checkpoint().state is TriggerState.FAILED
        (alarm,) = secondary.role.alarms()
    node.faults.update(dict.fromkeys(("versionRequest", "getTransactionID", "getTransactionId"), "cut"))
    with Secondary.of(tmp_path, node) as secondary:
        assert secondary.role.alarms() == [alarm]
        with pytest.raises(StorageError, match="do not belong to the NameNode's past"):
            RoleImages(secondary.role).latest_image()
        assert contents(secondary.folder) == ours
        node.faults.clear()
        done(secondary)
        lost = secondary.role.details().lost_past
    assert lost is not None
    assert lost.reason in alarm
    with Secondary.of(tmp_path, node) as secondary:
        assert secondary.role.alarms() == []
        assert secondary.role.latest_image().exists()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("saved", [False, True], ids=["older-image", "newer-image"])
def test_repeated_kills_after_the_fetch_keep_the_lost_past(
    node: NamenodeDouble, tmp_path: Path, links: bool, saved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only three lost pasts are kept, so the folders of the attempts would displace the first of them."""
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        ours, root = contents(secondary.folder), secondary.folder.parent
    for year in range(2020, 2020 + KEPT):
        (root / LOST_PAST / f"{year}0101T000000.000000Z").mkdir(parents=True)
    node.set_back(200)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(1, "not permitted")))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(KEPT + 1):
        if saved:
            node.save_namespace()
        with monkeypatch.context() as killed, Secondary.of(tmp_path, node) as secondary:
            killed.setattr(SecondaryStorage, "finish_start_over", die)
            with pytest.raises(KeyboardInterrupt):
                secondary.checkpoint()
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        lost = secondary.role.details().lost_past
    assert lost is not None
    assert "was set back" in lost.reason
    (aside,) = lost.set_aside
    assert folders_aside(root)[-1] == aside
    assert ours.items() <= contents_of(aside).items()
    assert [folder.name[:4] for folder in folders_aside(root)[:-1]] == ["2020", "2022"]
