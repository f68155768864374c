"""Records random work on a real NameNode: an image, the edits that follow it, and a checkpoint of both."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hadoop_common.names import image_name, parse_image
from journal.segment_file import list_segments, select_segments
from tests.interop.hadoop_conf import write_web_applications
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import JvmPipe, java_command

_MAIN = "interop.RandomRecorder"
_LOGGED = 4000
_MOST = 40
"""Limit on the recordings of one JVM, in which each NameNode leaves some memory allocated."""


@dataclass(frozen=True)
class Recording:
    """A recording.

    Attributes:
        current: the NameNode's folder with VERSION, images and edits.
        checkpoint: the SecondaryNameNode's folder; without a checkpoint, the new image is missing.
        refusal: the reason why the SecondaryNameNode made no image, "" if it made an image.
        ended: whether the NameNode exited because of faults in the first image that it saved, as Hadoop 3 does
            (FSImage.saveNamespace). In this case, the only complete image is the image at txid 0.
    """

    current: Path
    checkpoint: Path
    refusal: str
    ended: bool


def images(folder: Path) -> list[int]:
    """Return the txids of a folder's images, ascending; none if the folder is missing."""
    found = map(parse_image, (path.name for path in folder.iterdir())) if folder.is_dir() else ()
    return sorted(image.txid for image in found if image is not None)


def storage_before(recording: Recording, folder: Path) -> tuple[Path, int]:
    """Make a storage directory with the state before Hadoop's checkpoint; return the directory and the txid of the
    checkpoint.
    """
    # the first image is the image at txid 0, which formatting wrote
    base = images(recording.current)[0 if recording.ended else 1]
    # the segment ends where the NameNode saved, or where the SecondaryNameNode rolled
    first = select_segments(list_segments(recording.current), base + 1)[0]
    assert first.last is not None
    current = folder / "current"
    current.mkdir(parents=True)
    for path in (first.path, *(recording.current / f"{image_name(base)}{end}" for end in ("", ".md5"))):
        shutil.copy(path, current)
    shutil.copy(recording.current / "VERSION", current)
    (current / "seen_txid").write_text(f"{base + 1}\n")
    return folder, first.last


class Recorder:
    """A JVM that records; see tests/interop/java/RandomRecorder.java. Not thread-safe.

    Args:
        folder: folder for the JVM's log and the recordings.
        release: release of the NameNode.

    Raises:
        MissingHadoopError: Java, the jars or the compiled program are missing.
    """

    def __init__(self, folder: Path, release: HadoopRelease = SERVER) -> None:
        self._folder = folder
        self._release = release
        self._log = folder / "recorder.log"
        self._recorded = 0
        write_web_applications(folder)
        self._jvm = self._started()

    def _started(self) -> JvmPipe:
        class_path, archive = self._release.class_path(self._folder), self._release.class_archive()
        command = java_command(class_path, _MAIN, heap="512m", work=self._folder, archive=archive)
        return JvmPipe(command, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.close()

    def record(self, mode: str, seed: int, steps: int) -> Recording:
        """Record `steps` operations of a mode (`snapshot`, `mixed+slices` …); the seed fixes the requests."""
        if self._recorded and self._recorded % _MOST == 0:
            self._jvm.close()
            self._jvm = self._started()
        self._recorded += 1
        place = self._folder / f"{mode}-{seed}"
        place.mkdir()
        verdict, _, reason = self._jvm.ask(f"record\t{place}\t{mode}\t{seed}\t{steps}").partition("\t")
        if verdict not in ("ok", "refused", "ended"):
            log = self._log.read_text(encoding="utf-8", errors="replace")[-_LOGGED:]
            raise AssertionError(f"{mode} {seed} was not recorded: {verdict} {reason}\n{log}")
        return Recording(place / "name" / "current", place / "secondary" / "current", reason, verdict == "ended")
