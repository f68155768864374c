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
def test_a_check_that_ends_without_a_verdict_confirms_nothing(image: ImageFile, cause: BaseException) -> None:
    def stop(_: object) -> None:
        raise cause

    with ImageVerification(image) as check:
        check.then = stop
        with pytest.raises(RuntimeError, match=type(cause).__name__):
            check.confirm()


def test_the_verdict_explains_a_fault_of_the_body(image: ImageFile) -> None:
    with pytest.raises(RecordError), ImageVerification(image) as check:
        check.then = refuse
        raise ReplayError("OP_MKDIR", 7, "it does not fit")


@pytest.mark.parametrize("cause", [CheckpointCancelledError("cancelled"), StorageError("no room")])
def test_a_cancellation_does_not_begin_a_check(image: ImageFile, cause: Exception) -> None:
    with pytest.raises(type(cause)), ImageVerification(image) as check:
        check.then = refuse
        raise cause
    assert check.fault is None


@pytest.mark.parametrize("cause", [CheckpointCancelledError("cancelled"), StorageError("no room"), None])
def test_a_check_that_nobody_waits_for_ends_early(image: ImageFile, cause: Exception | None) -> None:
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


def test_each_slice_of_the_digest_may_be_the_last(image: ImageFile) -> None:
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


def test_no_thread_of_a_small_merge_steps_back(image: ImageFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of low priority that runs Python would keep the interpreter lock while other threads use the cores."""
    stepped: list[int] = []
    monkeypatch.setattr(os, "nice", stepped.append)
    merge(image.path, numbered([mkdir("/d", 17000)], image.txid), [image.path.parent])
    assert stepped == []
