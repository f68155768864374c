"""Verification of an image during other work: its result, and its end when the result is no longer needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.errors import CheckpointCancelledError, ReplayError
from engine.image_verification import ImageVerification
from engine.merge import merge
from hadoop_common.errors import StorageError
from image_format.errors import RecordError
from image_format.reader import ImageFile
from tests.engine.image_builder import ImageBuilder, numbered
from tests.engine.op_makers import mkdir


@pytest.fixture
def image(tmp_path: Path) -> Iterator[ImageFile]:
    with ImageFile.open(ImageBuilder(-67).save(tmp_path), verify_md5=False) as opened:
        yield opened


def refuse(_: object) -> None:
    raise RecordError("no NameNode loads it")


@pytest.mark.parametrize("cause", [SystemExit(2), KeyboardInterrupt(), GeneratorExit()])
def test_check_that_fails_does_not_confirm_the_image(image: ImageFile, cause: BaseException) -> None:
    def stop(_: object) -> None:
        raise cause

    with ImageVerification(image) as check:
        check.then = stop
        with pytest.raises(RuntimeError, match=type(cause).__name__):
            check.confirm()


def test_image_fault_replaces_the_replay_error(image: ImageFile) -> None:
    with pytest.raises(RecordError), ImageVerification(image) as check:
        check.then = refuse
        raise ReplayError("OP_MKDIR", 7, "it does not fit")


@pytest.mark.parametrize("cause", [CheckpointCancelledError("cancelled"), StorageError("no room")])
def test_cancellation_does_not_start_the_check(image: ImageFile, cause: Exception) -> None:
    with pytest.raises(type(cause)), ImageVerification(image) as check:
        check.then = refuse
        raise cause
    assert check.fault is None


@pytest.mark.parametrize("cause", [CheckpointCancelledError("cancelled"), StorageError("no room"), None])
def test_check_stops_early_if_no_caller_waits_for_it(image: ImageFile, cause: Exception | None) -> None:
    """Without an early end, the thread would delay the closing of the image."""
    running = threading.Event()

    def work(check_wanted: Callable[[], None]) -> None:
        while True:
            check_wanted()
            running.set()

    with suppress(CheckpointCancelledError, StorageError), ImageVerification(image) as check:
        check.then = work
        check.start()
        running.wait()
        if cause is not None:
            raise cause
    assert isinstance(check.fault, CheckpointCancelledError)


def test_digest_can_be_cancelled_after_each_slice(image: ImageFile) -> None:
    slices: list[int] = []

    def give_up() -> None:
        slices.append(1)
        if len(slices) == 3:
            raise CheckpointCancelledError("nobody waits")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("image_format.reader._SLICE", 16)
        with pytest.raises(CheckpointCancelledError):
            image.verify_md5(give_up)
    assert len(slices) == 3


def test_threads_of_a_small_merge_keep_their_priority(image: ImageFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of low priority that runs Python would keep the interpreter lock while other threads use the cores."""
    stepped: list[int] = []
    monkeypatch.setattr(os, "nice", stepped.append)
    merge(image.path, numbered([mkdir("/d", 17000)], image.txid), [image.path.parent])
    assert stepped == []
