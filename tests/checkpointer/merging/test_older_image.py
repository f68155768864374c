"""An unreadable newest image, with an older image and all edits after it (HDFS-3049)."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from checkpointer.checks import ask_storage
from checkpointer.checks.ask_storage import ask_directories, ask_image
from checkpointer.merging.older_image import OlderImage, older_image
from checkpointer.storage.usable_images import content_fault
from hadoop_common.mapped_file import MappedFile, map_regular
from hadoop_common.names import image_name, segment_name
from image_format import reader
from image_format.errors import ImageStorageError
from image_format.md5_file import md5_path
from image_format.reader import ImageFile
from tests.checkpointer.storage_support import IMAGE_TXID, NEW_TXID, put_image, recorded_directory
from tests.cli_runner import fingerprint, run_cli
from tests.site_files import write_site

pytestmark = pytest.mark.recorded

# limit in seconds that no working disk reaches
LIMIT = 600.0
DAMAGES = ["magic", "cut", "empty", "digest", "record"]


def damaged(folder: Path, damage: str) -> Path:
    """Return a directory with a good old image, the edits after it, and a damaged image at the end of the edits."""
    root = recorded_directory(folder / "nn", "corrupt/image-newest-bad-older-good")
    newest = root / "current" / image_name(NEW_TXID)
    if damage == "magic":
        return root
    good = root / "current" / image_name(IMAGE_TXID)
    content = put_image(root / "current", NEW_TXID).read_bytes()
    if damage == "cut":
        newest.write_bytes(content[:-30])
    elif damage == "empty":
        newest.write_bytes(b"")
    elif damage == "digest":
        md5_path(newest).write_text(f"{'0' * 32} *{newest.name}\n")
    else:
        newest.write_bytes(content[:20] + b"\xff" * 30 + content[50:])
    assert good.exists()
    return root


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=str)
def test_merge_error_names_the_older_image_and_the_command(
    tmp_path: Path, damage: str, options: tuple[str, ...]
) -> None:
    root = damaged(tmp_path, damage)
    before = fingerprint(root)
    outcome = run_cli("merge", root, *options)
    assert outcome.code == 3
    assert f"the image at txid {IMAGE_TXID} is intact, and the edits after it reach txid {NEW_TXID}" in outcome.err
    assert fingerprint(root) == before


@pytest.mark.parameters(1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_suggested_command_makes_an_intact_image(tmp_path: Path, damage: str) -> None:
    root = damaged(tmp_path, damage)
    kept = (root / "current" / image_name(NEW_TXID)).read_bytes()
    hint = next(line for line in run_cli("merge", root).err.splitlines() if line.strip().startswith("next: "))
    command = hint[hint.index("mkdir ") :].replace("&& checkpointer", f"&& {sys.executable} -m checkpointer")
    subprocess.run(command, shell=True, check=True, capture_output=True)
    with ImageFile.open(root / "current" / image_name(NEW_TXID)) as image:
        assert image.txid == NEW_TXID
    assert (root / "damaged" / image_name(NEW_TXID)).read_bytes() == kept


def test_suggested_command_contains_the_configuration(tmp_path: Path) -> None:
    """Some settings affect the replay without being in the edits, so the suggested command needs the configuration."""
    root = damaged(tmp_path, "cut")
    conf = write_site(tmp_path / "a conf", {})
    assert f"checkpointer merge {root} --conf '{conf}'" in run_cli("merge", root, "--conf", conf).err
    found = ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False, conf_dir=conf).value
    assert found is not None
    assert f"checkpointer merge {root} --conf '{conf}'" in found.way_out


@pytest.mark.parametrize("missing", ["edits", "older"])
def test_no_command_is_suggested_without_an_older_image_and_all_edits(tmp_path: Path, missing: str) -> None:
    root = damaged(tmp_path, "cut")
    if missing == "edits":
        (root / "current" / segment_name(31, NEW_TXID)).unlink()
    else:
        (root / "current" / image_name(IMAGE_TXID)).write_bytes(b"")
    outcome = run_cli("merge", root)
    assert outcome.code in (3, 6)
    assert "mkdir" not in outcome.err


@pytest.mark.parametrize("fault", ["denied", "no digest", "other digest file"])
def test_no_command_moves_an_undamaged_image(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = recorded_directory(tmp_path / "nn", "corrupt/image-newest-bad-older-good")
    newest = put_image(root / "current", NEW_TXID)
    if fault == "denied":
        denied = mock.Mock(side_effect=ImageStorageError(f"cannot read {newest}: Permission denied"))
        opened = ImageFile.open
        monkeypatch.setattr(ImageFile, "open", lambda path, **kw: (denied if path == newest else opened)(path, **kw))
    elif fault == "no digest":
        md5_path(newest).unlink()
    else:
        md5_path(newest).write_text("")
    outcome = run_cli("merge", root)
    assert outcome.code
    assert "mkdir" not in outcome.err
    found = ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False)
    assert found.value is None or not found.value.way_out


@pytest.mark.parametrize("fault", ["open", "page"])
def test_io_error_of_the_disk_is_treated_as_damage(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = recorded_directory(tmp_path / "nn", "corrupt/image-newest-bad-older-good")
    newest = put_image(root / "current", NEW_TXID)
    if fault == "open":
        failing = mock.Mock(side_effect=OSError(errno.EIO, "Input/output error", str(newest)))
        monkeypatch.setattr(reader, "map_regular", lambda path: (failing if path == newest else map_regular)(path))
    else:
        monkeypatch.setattr(MappedFile, "lost", property(lambda self: 0 if self._path == newest else -1))
    assert f"mv {newest} {md5_path(newest)}" in run_cli("merge", root).err
    found = ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False).value
    assert found is not None
    assert f"mv {newest} {md5_path(newest)}" in found.way_out
    monkeypatch.undo()
    assert not ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False).value.way_out  # type: ignore[union-attr]
    # the digest of a file that the disk could not read is not cached
    assert content_fault(newest) == ""


def test_older_image_is_searched_only_with_content_and_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = ask_directories([damaged(tmp_path, "cut")], LIMIT)
    asked, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> OlderImage | None:
        asked.set()
        release.wait(LIMIT)
        return older_image(*arguments)

    monkeypatch.setattr(ask_storage, "older_image", slow)
    for content in (False, True):
        found = ask_image(directories, 0.1, content=content, deep=False).value
        assert found is not None
        assert (found.txid, found.way_out) == (IMAGE_TXID, "")
        # the thread may begin only after the limit
        assert asked.wait(LIMIT) if content else not asked.is_set()
    release.set()


def test_suggested_command_does_not_move_rollback_images(tmp_path: Path) -> None:
    root = damaged(tmp_path, "cut")
    put_image(root / "current", NEW_TXID + 1).rename(root / "current" / f"fsimage_rollback_{NEW_TXID + 1:019d}")
    facts = ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False).value
    assert facts is not None
    assert "checkpointer merge" in facts.way_out
    assert "fsimage_rollback" not in facts.way_out
    put_image(root / "current", NEW_TXID)
    facts = ask_image(ask_directories([root], LIMIT), LIMIT, content=True, deep=False).value
    assert facts is not None
    assert (facts.txid, facts.way_out) == (NEW_TXID, "")


@pytest.mark.parametrize("damage", DAMAGES)
def test_check_names_the_older_image_and_the_command(tmp_path: Path, damage: str) -> None:
    root = damaged(tmp_path, damage)
    directories = ask_directories([root], LIMIT)
    found = ask_image(directories, LIMIT, content=True, deep=False).value
    assert found is not None
    assert f"the image at txid {IMAGE_TXID} is intact" in found.way_out or damage == "record"
    assert "checkpointer merge" in found.way_out or damage == "record"
