"""Decisions of the checks of storage directories, space and copies of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkpointer.checks.ask_storage import ask_directories, ask_image
from checkpointer.checks.bounded import ask
from checkpointer.checks.facts import DirectoryFacts, ImageFacts, Observation
from checkpointer.checks.registry import perform
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import State
from checkpointer.storage.formatting import write_version
from checkpointer.storage.inspector import StorageDirectory, StorageState, inspect
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED, UnfinishedStartOver
from hadoop_common.names import checkpoint_name, image_name
from tests.checkpointer.check_facts import BY_NAME, DOWN, INFO, OTHER, ROOT, decide, directory, facts, image


def test_storage_hints_for_a_lost_past_and_a_damaged_image() -> None:
    lost = (directory(lost_pasts=(ROOT / "lost_past/1",)),)
    assert "keep it" in decide("storage", directories=lost).hint
    damaged = image(copies=((ROOT / "current/fsimage_90", DOWN),))
    (outcome,) = perform([BY_NAME["storage"]], facts(directories=lost, image=damaged), Thresholds())
    # `fetch-image` does not write to a storage directory
    assert "fetch-image" not in outcome.hint
    assert "continues from another copy" in outcome.hint


def test_folders_not_compared_are_listed_without_a_warning() -> None:
    folder = ROOT / "not_compared/1"
    found = decide("storage", directories=(directory(not_compared=(folder,)),))
    assert (found.state, found.hint) == (State.OK, "")
    (line,) = (each for each in found.details if str(folder) in each)
    assert "keep the folder until" in line
    assert "set back by mistake" in line


@pytest.mark.parametrize("parent", [LOST_PAST, NOT_COMPARED])
def test_folder_of_an_unfinished_start_over_is_to_be_kept(parent: str) -> None:
    """It may contain the only images, because a file system without hard links moves them there."""
    begun = UnfinishedStartOver("the NameNode was set back", parent, "20260101T000000.000000Z")
    folders = (ROOT / parent / "20250101T000000.000000Z", ROOT / parent / begun.folder)
    lost, other = (folders, ()) if parent == LOST_PAST else ((), folders)
    found = decide("storage", directories=(directory(start_over=begun, lost_pasts=lost, not_compared=other),))
    (line,) = (each for each in found.details if str(folders[1]) in each)
    assert "do not remove the folder" in line
    assert any(str(folders[0]) in each and "do not remove" not in each for each in found.details)
    assert ("1 lost past set aside" in found.summary) == (parent == LOST_PAST)


@pytest.mark.parametrize(("parent", "word"), [(LOST_PAST, "present state"), (NOT_COMPARED, "may be the last copy")])
def test_images_that_are_not_used_are_reported_without_the_daemon(parent: str, word: str) -> None:
    begun = UnfinishedStartOver("the NameNode was set back", parent, "20260101T000000.000000Z")
    for found in (directory(start_over=begun), directory(start_over=begun, listing=ONLY_VERSION)):
        verdict = decide("storage", directories=(found,))
        assert verdict.state is State.WARNING
        assert verdict.summary.startswith("the images here are not used: the NameNode was set back")
        assert word in verdict.hint


NEW = directory(OTHER, StorageState.NOT_FORMATTED)


# a daemon that has not fetched its first image yet
ONLY_VERSION = Observation(StorageDirectory(OTHER, StorageState.HALF_FORMATTED, INFO))
BROKEN = directory(OTHER, listing=Observation(error="no such disk"))


@pytest.mark.parametrize(
    ("directories", "state", "word"),
    [
        ((directory(), directory(OTHER)), State.OK, "intact"),
        ((directory(), BROKEN), State.WARNING, "1 of 2"),
        ((directory(), directory(OTHER, writable=False)), State.WARNING, "1 of 2"),
        ((directory(writable=False),), State.CRITICAL, "no storage directory"),
        ((BROKEN,), State.CRITICAL, "no storage directory"),
        ((NEW,), State.WARNING, "no image yet"),
        ((directory(), NEW), State.WARNING, "no image yet"),
        ((directory(), directory(OTHER, StorageState.MISSING)), State.WARNING, "no image yet"),
        ((directory(OTHER, StorageState.HALF_FORMATTED), directory()), State.CRITICAL, "half-formatted"),
        ((directory(listing=ONLY_VERSION),), State.WARNING, "no image yet"),
        ((directory(), directory(OTHER, listing=ONLY_VERSION)), State.WARNING, "1 directory has no image yet"),
        (
            (
                directory(),
                directory(
                    OTHER,
                    listing=Observation(
                        StorageDirectory(OTHER, StorageState.NORMAL, replace(INFO, cluster_id="CID-2"))
                    ),
                ),
            ),
            State.CRITICAL,
            "cluster_id",
        ),
        ((directory(unusable=("a: cut",)),), State.WARNING, "1 file with the name of an image cannot be used"),
        ((directory(lost_pasts=(ROOT / "lost_past/1",)),), State.WARNING, "1 lost past set aside"),
    ],
)
def test_storage_check(directories: tuple[DirectoryFacts, ...], state: State, word: str) -> None:
    found = decide("storage", directories=directories)
    assert found.state is state
    assert word in found.summary


def test_storage_check_before_the_first_image() -> None:
    """A running daemon holds the lock, and needs no restart."""
    for holder, start in (("", "Start the daemon"), ("12@host", "The daemon's first checkpoint creates an image")):
        new = directory(listing=ONLY_VERSION, holder=holder)
        denied = directory(OTHER, listing=DOWN)
        for directories in ((new,), (new, denied)):
            found = decide("storage", directories=directories)
            assert found.state is State.WARNING
            assert "no image yet" in found.summary
        assert decide("storage", directories=(new,)).hint.startswith(start)


@pytest.mark.parametrize(
    ("used", "new", "start"),
    [("", "", "The next"), ("12@host", "12@host", "The next"), ("12@host", "", "The running daemon does not use")],
)
def test_storage_check_of_a_directory_without_an_image(used: str, new: str, start: str) -> None:
    """A daemon that could not create the directory writes no image there."""
    empty = directory(OTHER, StorageState.MISSING, holder=new)
    found = decide("storage", directories=(directory(holder=used), empty))
    assert (found.state, found.summary) == (State.WARNING, "1 directory has no image yet")
    assert found.hint.startswith(start)


def test_storage_check_after_the_directories_were_removed_under_a_running_daemon() -> None:
    """Without a directory, the check cannot find out whether a daemon is running."""
    found = decide("storage", directories=(directory(OTHER, StorageState.MISSING),))
    assert found.summary == "no image yet"
    assert "If it is already running, `checkpointer status`" in found.hint


def test_storage_hint_is_that_of_the_worst_problem() -> None:
    denied: Observation[StorageDirectory] = Observation(error="cannot be read", hint="Check its permissions.")
    cut, gone = directory(unusable=("a: cut",)), directory(OTHER, listing=denied)
    assert decide("storage", directories=(cut, gone)).hint == "Check its permissions."
    assert "write to the directory" in decide("storage", directories=(cut, directory(OTHER, writable=False))).hint
    assert "are skipped" in decide("storage", directories=(cut, NEW)).hint
    found = decide("storage", directories=(cut, gone), image=image(copies=((ROOT, DOWN),), way_out="Move it."))
    assert (found.state, found.hint) == (State.CRITICAL, "Move it.")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (image(copies=((ROOT, Observation("d41d")), (OTHER, Observation(error="wrong digest")))), State.WARNING),
        (image(copies=((ROOT, Observation(error="wrong digest")),)), State.CRITICAL),
        (image(deep=Observation(0)), State.OK),
        (image(deep=Observation(3)), State.CRITICAL),
        (image(deep=Observation(error="no answer within 1 s")), State.UNKNOWN),
        (Observation(error="there is no image in /data/1"), State.UNKNOWN),
    ],
)
def test_storage_check_of_the_image(found: Observation[ImageFacts], state: State) -> None:
    assert decide("storage", image=found).state is state


def test_hint_for_damaged_records_does_not_lead_to_more_checkpoints() -> None:
    """A checkpoint copies damage that no edit touches, and each image hastens the purge of an intact image."""
    runbook = (Path(__file__).parents[3] / "docs" / "runbook.md").read_text()
    found = decide("storage", image=image(deep=Observation(3)))
    assert "keep the older images" in found.hint
    assert '"Gap in the edits", step 3' in found.hint
    section = runbook.partition("\n## Gap in the edits\n")[2].partition("\n## ")[0]
    assert "-saveNamespace" in section.partition("\n3. ")[2].partition("\n4. ")[0]


def test_a_codec_that_a_namenode_may_lack_is_reported() -> None:
    lz4 = "org.apache.hadoop.io.compress.Lz4Codec"
    found = decide("storage", codec=lz4, image=image(codec="", layout_version=-67))
    assert found.state is State.WARNING
    assert found.summary == "new images use DefaultCodec instead of the configured Lz4Codec"
    assert "lz4-java" in found.hint
    for its_own in (image(codec=lz4, layout_version=-67), image()):
        assert decide("storage", codec=lz4, image=its_own).state is State.OK


def test_storage_check_names_the_lock_holder() -> None:
    assert "in use by 12@host" in decide("storage", directories=(directory(holder="12@host"),)).details[0]


@pytest.mark.parametrize(
    ("free", "state"),
    [(10_000, State.OK), (5000, State.OK), (4999, State.WARNING), (2500, State.WARNING), (2499, State.CRITICAL)],
)
def test_space_check(free: int, state: State) -> None:
    found = decide("space", directories=(directory(free=Observation(free)), directory(OTHER, free=Observation(99_999))))
    assert found.state is state
    assert str(found.metrics[0]) == f"space={free}B;5000:;2500:"


@pytest.mark.parametrize(("inodes", "state"), [(None, State.OK), (16, State.OK), (15, State.CRITICAL)])
def test_space_check_counts_inodes(inodes: int | None, state: State) -> None:
    few = directory(OTHER, free=Observation(99_999), inodes=Observation(inodes))
    found = decide("space", directories=(directory(), few))
    assert found.state is state
    assert (f"15 inodes free on {OTHER}" in found.summary) == (state is State.CRITICAL)


def test_space_of_an_unfinished_image_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next image replaces or completes the unfinished image."""
    (tmp_path / "current").mkdir()
    unfinished = tmp_path / "current" / checkpoint_name(9)
    unfinished.write_bytes(bytes(1 << 16))
    written = unfinished.stat().st_blocks * 512
    assert written > 0
    monkeypatch.setattr("checkpointer.checks.ask_storage.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert ask_directories([tmp_path], 60.0)[0].free == Observation(1000 + written)


def test_a_directory_that_has_lost_its_contents_is_not_new(tmp_path: Path) -> None:
    """The daemon does not use such a directory, so the next checkpoint does not write there."""
    whole, edits = tmp_path / "1", tmp_path / "edits"
    for root in (whole, edits):
        (root / "current").mkdir(parents=True)
        write_version(root, INFO)
    (whole / "current" / image_name(9)).touch()
    unmounted = tmp_path / "2"
    found = ask_directories([whole, unmounted], 60.0, [edits])
    message = f"{unmounted} is empty, but {whole} contains images: its file system may not be mounted"
    verdict = decide("storage", directories=found)
    assert verdict.state is State.WARNING
    assert verdict.summary.startswith("1 of 2 directories cannot be used")
    assert f"{unmounted}: {message}" in verdict.details
    assert "Mount its file system" in verdict.hint
    (edits / "current" / "VERSION").unlink()
    (edits / "current").rmdir()
    verdict = decide("storage", edits_directories=ask_directories([edits], 60.0, [whole]))
    assert (verdict.state, verdict.summary) == (State.CRITICAL, "no directory for edits can be used")
    # an empty folder `current` allows the daemon to format the directory
    (unmounted / "current").mkdir(parents=True)
    assert "no image yet" in decide("storage", directories=ask_directories([whole, unmounted], 60.0)).summary


class HangingError(Exception):
    """A query of a directory on a dead mount."""


def test_a_dead_mount_does_not_hide_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, dead = tmp_path / "new", tmp_path / "dead"

    def listed(root: Path, **options: bool) -> StorageDirectory:
        if root == dead:
            raise HangingError
        return inspect(root, **options)

    def asked(questions: Mapping[Path, Callable[[], object]], limit: float) -> dict[Path, Observation[Any]]:
        answers = {}
        for key, question in questions.items():
            try:
                answers[key] = ask(question)
            except HangingError:
                answers[key] = Observation(error=f"no answer within {limit:g} s", late=True)
        return answers

    monkeypatch.setattr("checkpointer.checks.ask_storage.ask_all", asked)
    for module in ("checks.ask_storage", "storage.directory_history"):
        monkeypatch.setattr(f"checkpointer.{module}.inspect", listed)
    found = ask_directories([new, dead], 20.0)
    assert [each.listing.error for each in found] == ["", "no answer within 20 s"]
    assert f"{new}: missing, not in use" in decide("storage", directories=found).details


def test_a_directory_for_edits_is_not_called_half_formatted() -> None:
    listing = Observation(StorageDirectory(OTHER, StorageState.HALF_FORMATTED, INFO))
    found = decide("storage", edits_directories=(directory(OTHER, listing=listing),))
    assert f"{OTHER}: normal, not in use" in found.details


def test_unreadable_directories_are_not_called_unformatted() -> None:
    found = ask_image([directory(listing=DOWN), directory(OTHER, listing=DOWN)], 60.0, content=True, deep=False)
    assert found == Observation(error="no storage directory can be read")


def test_directory_for_edits_requires_only_the_reserve() -> None:
    assert decide("space", edits_directories=(directory(OTHER, free=Observation(1_500)),)).state is State.OK
    tight = decide("space", edits_directories=(directory(OTHER, free=Observation(400)),))
    assert (tight.state, str(tight.metrics[0])) == (State.CRITICAL, "space=400B;1000:;500:")
    assert str(OTHER) in tight.summary
    assert decide("space", edits_directories=(directory(OTHER, free=DOWN),)).state is State.WARNING


def test_storage_check_of_unusable_directories_for_edits() -> None:
    half = directory(OTHER, StorageState.HALF_FORMATTED)
    assert decide("storage", edits_directories=(half,)).state is State.OK
    third = Path("/data/3")
    found = decide("storage", edits_directories=(half, directory(third, writable=False)))
    assert (found.state, found.summary) == (State.WARNING, "1 of 2 directories for edits cannot be used")
    found = decide("storage", edits_directories=(directory(third, listing=DOWN),))
    assert (found.state, found.summary) == (State.CRITICAL, "no directory for edits can be used")


def test_copy_that_is_not_read_in_time_is_unknown() -> None:
    late: Observation[str] = Observation(error="no answer within 30 s", late=True)
    first, second = ROOT / "current/fsimage_90", OTHER / "current/fsimage_90"
    found = decide("storage", image=image(copies=((first, late),)))
    assert found.state is State.UNKNOWN
    assert "--timeout" in found.summary
    assert decide("storage", image=image(copies=((first, late), (second, Observation("d41d"))))).state is State.UNKNOWN
    assert decide("storage", image=image(copies=((first, late), (second, DOWN)))).state is State.UNKNOWN
    assert decide("storage", image=image(copies=((first, DOWN), (second, DOWN)))).state is State.CRITICAL


def test_space_check_with_given_thresholds_and_without_an_answer() -> None:
    assert decide("space", Thresholds(critical={"space": 20_000.0})).state is State.CRITICAL
    # the image has outgrown the given warning threshold, but a checkpoint still needs 2500 bytes
    tight = decide("space", Thresholds({"space": 2_000.0}), directories=(directory(free=Observation(2_400)),))
    assert (tight.state, str(tight.metrics[0])) == (State.CRITICAL, "space=2400B;2500:;2500:")
    assert decide("space", directories=(directory(free=DOWN),)).state is State.UNKNOWN
    assert decide("space", directories=(directory(free=DOWN), directory(OTHER))).state is State.WARNING
