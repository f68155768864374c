"""Shadow mode with a simulated NameNode: it compares each image of the NameNode and does not change the NameNode."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import checkpointer.daemon.shadow as shadow_module
import checkpointer.roles.secondary.set_back as set_back_module
from checkpointer.daemon import child_process
from checkpointer.daemon.shadow import FOLDER, ShadowComparer, compare_by_commands
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.set_back.provenance import image_md5, write_provenances
from checkpointer.storage.disk_space import MIN_FREE_SPACE
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.txn_runs import Provenance
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name
from image_format.reader import ImageFile
from image_tools.cli.diff_command import difference_line
from image_tools.compare.comparison import ImageComparison
from node_state.alarm_kinds import kind_named
from node_state.comparisons import shadow_state, weekly_summary
from node_state.history import COMPARISON, DIFFERENT, EQUAL, HistoryEntry
from node_state.state import ShadowState
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.secondary_support import Secondary, image_txids
from tests.checkpointer.set_back_support import OURS, noted
from tests.namenode_stub.namenode_double import NamenodeDouble

WEEK = 7 * 86_400.0
# keeps a base image for each comparison
KEPT = {"dfs__namenode__num__checkpoints__retained": "3"}
# calls that do not change anything
READING = {
    "getTransactionId",
    "versionRequest",
    "getMostRecentCheckpointTxId",
    "getEditLogManifest",
    "isRollingUpgrade",
    "image",
    "look-image",
}


def compare_here(ours: Path, theirs: Path, cancelled: Callable[[], bool]) -> str:
    with ImageFile.open(ours) as a, ImageFile.open(theirs) as b:
        comparison = ImageComparison(a, b)
        return "; ".join(difference_line(comparison.named(each)) for each in comparison.differences())


class Shadow:
    """A secondary in shadow mode whose comparisons run in this process; `at` is seconds since the epoch."""

    def __init__(self, folder: Path, node: NamenodeDouble) -> None:
        self.at = node.checkpointed_at
        self.secondary = Secondary.of(folder, node, checkpointer__shadow="true", **KEPT)
        config = self.secondary.config
        self._forecast = UploadForecast(config)
        self._addresses = config.namenode_http_addresses
        self.comparer = ShadowComparer(
            self.secondary.role,
            config,
            self._forecast,
            self.secondary.service.history,
            stopped=lambda: False,
            compare=compare_here,
            wall=lambda: self.at,
            clock=lambda: self.at,
        )

    def compare(self) -> ShadowState:
        self._forecast.update(self._addresses, lambda: False)
        self.comparer.run()
        return self.comparer.state()

    @property
    def kept(self) -> list[str]:
        folder = self.secondary.folder.parent / FOLDER
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with NamenodeDouble(tmp_path / "name") as running:
        running.started_at = 1
        yield running


@pytest.fixture
def shadow(node: NamenodeDouble, tmp_path: Path) -> Iterator[Shadow]:
    shadow = Shadow(tmp_path, node)
    with shadow.secondary:
        yield shadow


def end_segments(node: NamenodeDouble) -> None:
    """Request a roll, as another checkpointer does."""
    node.roll()


def await_comparison(node: NamenodeDouble, shadow: Shadow, *, made: bool) -> None:
    """Let an image of the NameNode wait for its comparison; `made`: with our newest image, at the same transaction."""
    end_segments(node)
    shadow.secondary.checkpoint()
    node.save_namespace()
    if not made:
        end_segments(node)
    shadow.secondary.checkpoint()


def damage(node: NamenodeDouble) -> None:
    """Rename a directory in the NameNode's newest image."""
    path = node.image(node.image_txids()[-1])
    content = path.read_bytes().replace(b"bairmi", b"damage")
    path.write_bytes(content)
    path.with_name(md5_name(path.name)).write_text(f"{hashlib.md5(content).hexdigest()} *{path.name}\n")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_image_of_the_namenode_is_compared(
    node: NamenodeDouble, shadow: Shadow, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = files(node.folder)
    nothing = shadow.secondary.checkpoint()
    assert nothing.state is TriggerState.SKIPPED, nothing
    end_segments(node)
    # the base of our first image is not compared
    shadow.compare()
    assert shadow.secondary.checkpoint().state is TriggerState.DONE
    assert shadow.compare() == ShadowState()
    assert image_txids(shadow.secondary.folder)[-1] == 47
    assert files(node.folder) == before

    # our image was made at the transaction of the NameNode's image
    node.save_namespace()
    assert shadow.compare() == ShadowState()
    made = shadow.secondary.checkpoint()
    assert made.details["outcome"] == "kept"
    assert "shadow mode" in made.details["warnings"][0]
    assert str(shadow.compare()) == "1 of 1 equal"

    # our image ends later than the NameNode's, so the edits are merged up to the NameNode's transaction
    node.save_namespace()
    theirs = node.image_txids()[-1]
    end_segments(node)
    assert shadow.secondary.checkpoint().details["txid"] > theirs
    state = shadow.compare()
    assert (state.txid, str(state)) == (theirs, "2 of 2 equal")
    assert (shadow.kept, shadow.comparer.alarms()) == ([], [])

    node.save_namespace()
    damage(node)
    shadow.secondary.checkpoint()
    state = shadow.compare()
    assert str(state) == "2 of 3 equal"
    assert "/damage" in state.difference
    (alarm,) = shadow.comparer.alarms()
    assert "/damage" in alarm
    assert f"image diff --ignore-replay-times --limit 0 {shadow.secondary.folder.parent}/shadow" in alarm.hint
    assert kind_named(alarm.kind).name == "shadow"
    assert shadow.kept == [str(state.txid)]
    assert any("/damage" in line for line in caplog.messages)

    # a compared image is not fetched again, and the alarm ends after a week
    asked = len(node.steps)
    assert shadow.compare() == state
    assert node.steps[asked:] == []
    shadow.at += WEEK + 1
    assert shadow.compare() == ShadowState()
    assert shadow.comparer.alarms() == []
    assert "shadow mode compared 3 images in the last week: 2 of 3 equal" in caplog.messages

    assert {step for step in node.steps if not step.startswith(("segment-", "look-segment"))} <= READING
    assert shadow.secondary.role.targets[0].result == "never"


def test_no_refusal_is_expected_of_an_image_that_is_never_offered(
    node: NamenodeDouble, shadow: Shadow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(UploadForecast, "expected_refusals", lambda *_: ["the NameNode will refuse the image"])
    end_segments(node)
    assert shadow.secondary.service.request(force=True, wait=True).state is TriggerState.DONE
    assert "will refuse" not in caplog.text


def test_image_uploaded_by_another_checkpointer_is_compared(node: NamenodeDouble, shadow: Shadow) -> None:
    # at each poll, a roll, its segments and the image that contains them appear together
    assert shadow.secondary.checkpoint().state is TriggerState.SKIPPED
    assert shadow.compare() == ShadowState()
    node.save_namespace()
    assert shadow.secondary.checkpoint().state is TriggerState.DONE
    assert str(shadow.compare()) == "1 of 1 equal"


def test_fetched_image_with_provenance_is_not_compared_with_itself(node: NamenodeDouble, shadow: Shadow) -> None:
    """Like a standby, the daemon has stored a provenance of an image that it fetched from the NameNode."""
    assert shadow.secondary.checkpoint().state is TriggerState.SKIPPED
    folder = shadow.secondary.folder
    image = folder / image_name(image_txids(folder)[-1])
    write_provenances([folder], {image_md5(image): Provenance(noted(*OURS).runs(), None)})
    assert shadow.compare() == ShadowState()


def test_content_of_a_fetched_image_is_not_read_to_find_out_who_made_it(
    node: NamenodeDouble, shadow: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(set_back_module, "content_fault", read.append)
    assert shadow.secondary.checkpoint().state is TriggerState.SKIPPED
    end_segments(node)
    assert shadow.secondary.checkpoint().state is TriggerState.DONE
    fetched = image_name(node.image_txids()[-1])
    assert fetched not in [path.name for path in read]


def test_failed_first_fetch_is_not_repeated_at_every_poll(node: NamenodeDouble, tmp_path: Path) -> None:
    at = 0.0
    config = Secondary.of(tmp_path, node, checkpointer__shadow="true", **KEPT).config
    node.faults["image"] = "digest"
    with Secondary(config, clock=lambda: at) as secondary:
        first = secondary.checkpoint()
        assert first.state is TriggerState.FAILED
        state = secondary.service.status()
        assert (state["imageTxid"], state["transactionsBehind"] is None) == (-1, False), state
        assert "no checkpoint yet" in state["message"]
        sent = node.steps.count("image")
        assert sent >= 1
        del node.faults["image"]
        at = 59.0
        again = secondary.checkpoint()
        assert again.state is TriggerState.FAILED
        assert "the first image has not been fetched yet" in again.message
        assert again.message.endswith("fetched again in 1 s")
        assert node.steps.count("image") == sent
        at = 61.0
        assert secondary.checkpoint().state is TriggerState.SKIPPED
        assert image_txids(secondary.folder) == [node.image_txids()[-1]]


def test_image_of_the_namenode_is_never_compared_with_itself(node: NamenodeDouble, shadow: Shadow) -> None:
    secondary = shadow.secondary
    end_segments(node)
    made = secondary.checkpoint().details["txid"]
    end_segments(node)
    assert secondary.checkpoint().details["txid"] > made
    # the other checkpointer is so slow that it uploads the image of a transaction that our node has already passed
    theirs, ours = node.image(made), secondary.folder / image_name(made)
    before = ours.read_bytes()
    node.take(made, before)
    damage(node)
    secondary.role.keep_up(lambda: False)
    assert ours.read_bytes() == before
    # a fetch after a failed merge replaces our image
    for path in (theirs, theirs.with_name(md5_name(theirs.name))):
        (secondary.folder / path.name).write_bytes(path.read_bytes())
    state = shadow.compare()
    assert (state.txid, str(state)) == (made, "0 of 1 equal")


def test_killed_comparison_leaves_no_files(
    node: NamenodeDouble, shadow: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_segments(node)
    shadow.secondary.checkpoint()
    node.save_namespace()
    damage(node)
    shadow.secondary.checkpoint()
    different = str(shadow.compare().txid)
    end_segments(node)
    made = shadow.secondary.checkpoint().details["txid"]
    node.take(made, (shadow.secondary.folder / image_name(made)).read_bytes())
    node.checkpointed_at += 1
    node.faults["image"] = 500
    with monkeypatch.context() as killed, pytest.raises(Exception, match="500"):
        killed.setattr("shutil.rmtree", lambda *_, **__: None)
        shadow.compare()
    assert len(shadow.kept) == 2
    node.faults["look-image"] = 500
    shadow.at += shadow.secondary.config.period
    with pytest.raises(Exception, match="500"):
        shadow.compare()
    assert shadow.kept == [different]


def test_failed_comparison_is_retried_after_a_wait(node: NamenodeDouble, shadow: Shadow) -> None:
    await_comparison(node, shadow, made=True)
    node.faults["look-image"] = 500
    with pytest.raises(Exception, match="500"):
        shadow.compare()
    asked = len(node.steps)
    shadow.compare()
    assert node.steps[asked:] == []
    del node.faults["look-image"]
    shadow.at += shadow.secondary.config.period
    assert str(shadow.compare()) == "1 of 1 equal"


@pytest.mark.parametrize("made", [True, False])
def test_comparison_does_not_begin_without_space(
    node: NamenodeDouble, shadow: Shadow, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NameNode's image and a merge need space that no checkpoint in progress occupies."""
    await_comparison(node, shadow, made=made)
    folder = shadow.secondary.folder
    (folder / checkpoint_name(99)).write_bytes(bytes(8 << 20))
    asked, present = len(node.steps), shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: present._replace(free=1 << 20))
    with pytest.raises(StorageError, match="no space"):
        shadow.compare()
    assert "image" not in node.steps[asked:]
    assert shadow.kept == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: present)
    shadow.at += shadow.secondary.config.period
    assert str(shadow.compare()) == "1 of 1 equal"


@pytest.mark.parametrize("made", [True, False])
def test_comparison_leaves_the_space_that_a_checkpoint_in_progress_still_needs(
    node: NamenodeDouble, shadow: Shadow, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await_comparison(node, shadow, made=made)
    folder = shadow.secondary.folder
    sizes = [path.stat().st_size for path in folder.glob("fsimage_*") if path.suffix != ".md5"]
    present, free = shutil.disk_usage(folder), MIN_FREE_SPACE + 2 * min(sizes) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: present._replace(free=free))
    with pytest.raises(StorageError, match="no space"):
        shadow.compare()
    # the checkpoint has written its whole image
    (folder / checkpoint_name(99)).write_bytes(bytes(max(sizes)))
    shadow.at += shadow.secondary.config.period
    assert str(shadow.compare()) == "1 of 1 equal"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the interpreter of comparison processes with a shell script."""

    def replace(script: str) -> None:
        (path := tmp_path / "interpreter").write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return replace


def test_comparison_process_has_a_low_priority(command: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[tuple[int, int]] = []
    monkeypatch.setattr(child_process, "lower_session_priority", lambda *values: lowered.append(values))
    command('echo $$ $(nice) "$@"')
    code, output, _ = shadow_module._run(["diff"], lambda: False)
    process, niceness, *words = output.split()
    assert (code, words) == (0, ["-P", "-m", "checkpointer", "image", "diff"])
    assert int(niceness) == min(19, os.nice(0) + 10)
    assert lowered == [(int(process), 10)]


def test_cancelled_comparison_process_is_ended(
    command: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_module, "_SLICE_SECONDS", 0.01)
    begun = tmp_path / "begun"
    command(f"echo $$ > {begun}.tmp; mv {begun}.tmp {begun}; exec sleep 1000")
    with pytest.raises(CheckpointCancelledError):
        shadow_module._run(["diff"], begun.exists)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


@pytest.mark.parametrize("codes", [(1,), (6,), (-9,), (0, 3), (0, -9), (0, 6)])
def test_failed_comparison_process_is_not_a_difference(codes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(codes)
    monkeypatch.setattr(shadow_module, "_run", lambda *_: (next(answers), "opening\n", "not enough memory\n"))
    with pytest.raises(CheckpointError, match=r"not enough memory|signal 9"):
        compare_by_commands(Path("ours"), Path("theirs"), lambda: False)
    assert list(answers) == []


def test_damaged_own_image_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_module, "_run", lambda *_: (3, "error digest\n", ""))
    assert "error digest" in compare_by_commands(Path("ours"), Path("theirs"), lambda: False)


def test_status_and_summary_count_the_comparisons_of_a_week() -> None:
    entries = [
        HistoryEntry(at=WEEK + hour * 3600, kind=COMPARISON, txid=hour, reason=EQUAL, text=EQUAL) for hour in range(168)
    ]
    assert str(shadow_state(entries, 2 * WEEK - 1)) == "168 of 168 equal"
    assert weekly_summary(entries, 1) == "shadow mode compared 168 images in the last week: 168 of 168 equal"
    assert weekly_summary(entries, 2) == "shadow mode did not compare an image in the last week"
    different = HistoryEntry(at=2 * WEEK - 1, kind=COMPARISON, txid=168, reason=DIFFERENT, text="changed /p")
    state = shadow_state([*entries, different], 2 * WEEK)
    assert (state.difference, state.txid, state.compared - state.equal) == ("changed /p", 168, 1)


def test_backup_node_cannot_run_in_shadow_mode() -> None:
    values = {
        "fs.defaultFS": "hdfs://nn:8020",
        "dfs.namenode.name.dir": "/name",
        "checkpointer.shadow": "true",
        "hadoop.user.name": "hdfs",
    }
    with pytest.raises(ConfigurationError, match=r"checkpointer\.shadow.*--role secondary"):
        CheckpointConfig.from_configuration(Configuration.from_mapping(values, {}), Role.BACKUP)
