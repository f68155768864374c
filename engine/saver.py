"""Saves an image to all storage directories (FSImage.saveFSImageInAllDirs), safe against a kill at any point.

`fsimage.ckpt_TXID` is written, synced and read back. Then its digest file receives the final name, and finally the
image (`image_format.publish.place_image`). Until the image is renamed, the old image remains the newest complete image,
and its digest file is untouched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CheckpointInProgressError, NotSavedError
from engine.healing import HealedFault
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import checkpoint_name, image_name
from image_format.errors import DigestMismatchError, ImageFormatError, ImageStorageError, UnreadableImageError
from image_format.known_digests import remember_digest
from image_format.md5_file import md5_of_file, read_md5_file
from image_format.output import DigestingFileSet
from image_format.publish import place_image
from image_format.reader import ImageFile
from image_format.writer import Sink

__all__ = ["SaveFailure", "SaveResult", "Sink", "save_image"]

_HINT = "Free space on the failing disks, or replace them, then repeat the checkpoint; the old images are intact."

_saving: set[Path] = set()
_saving_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class SaveFailure:
    """A folder that did not receive the image, with the reason."""

    folder: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SaveResult:
    """A saved image: its files, MD5 in hexadecimal, size in bytes, and the folders that failed.

    Attributes:
        existing: valid images of the same txid that already existed and were kept.
    """

    txid: int
    paths: tuple[Path, ...]
    md5: str
    size: int
    failures: tuple[SaveFailure, ...]
    existing: tuple[Path, ...] = ()


def save_image(
    folders: Sequence[Path],
    txid: int,
    write: Callable[[Sink], object],
    *,
    rollback: bool = False,
    confirm: Callable[[], object] | None = None,
) -> SaveResult:
    """Write one image into all folders in parallel, and rename each complete file to its final name.

    A folder that fails is skipped and reported. A folder with a valid image of this txid is not changed; if all folders
    contain such an image, the call fails.

    Args:
        folders: `current` folders of locked storage directories.
        txid: last transaction in the image.
        write: writes the whole image to a sink; an exception aborts the save.
        rollback: whether to name the image `fsimage_rollback_TXID`.
        confirm: called when the digest of the whole image is known, and again when all files are written but not yet
            named; an exception aborts the save.

    Raises:
        NotSavedError: the image could not be saved in any folder, or all folders contain it.
        StorageError: the base image cannot be read.
        CheckpointInProgressError: another thread is saving this txid.
        Exception: raised by `write` or `confirm`; no part of the image remains.
    """
    existing = [folder for folder in folders if _has_valid_image(folder / image_name(txid, rollback))]
    wanted = [folder for folder in folders if folder not in existing]
    if not wanted:
        raise NotSavedError(
            f"{image_name(txid, rollback)} is already in {', '.join(map(str, folders)) or 'no folder at all'}",
            hint="There is nothing to save until new transactions arrive.",
        )
    with _reserved([folder / checkpoint_name(txid) for folder in wanted]) as unfinished:
        try:
            with DigestingFileSet(unfinished) as files:
                write(files.write)
                written = files.close(confirm)
            if confirm is not None:
                # The base image may have become shorter while it was copied.
                confirm()
        except ImageStorageError as error:
            # only a base image that cannot be read makes the namespace unusable
            kind = StorageError if isinstance(error, UnreadableImageError) else NotSavedError
            raise kind(error.message, hint=error.hint or _HINT) from error
        failures = [SaveFailure(each.path.parent, error_text(each.error)) for each in written.failures]
        paths = list(_place_all(written.paths, txid, rollback, written.md5, failures))
    if not paths:
        reasons = "; ".join(map(str, failures))
        raise NotSavedError(f"{image_name(txid, rollback)} could not be saved in any directory: {reasons}", hint=_HINT)
    kept = tuple(folder / image_name(txid, rollback) for folder in existing)
    return SaveResult(txid, tuple(paths), written.md5.hex(), written.size, tuple(failures), kept)


@contextmanager
def _reserved(paths: list[Path]) -> Iterator[list[Path]]:
    """Reserve unfinished files, because only one thread at a time may write a file."""
    resolved = {path.absolute() for path in paths}
    with _saving_guard:
        if taken := resolved & _saving:
            raise CheckpointInProgressError(
                f"{min(taken)} is already being written", hint="Wait until that checkpoint has ended."
            )
        _saving.update(resolved)
    try:
        yield paths
    finally:
        with _saving_guard:
            _saving.difference_update(resolved)


def _has_valid_image(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        return read_md5_file(path) == md5_of_file(path)
    except (DigestMismatchError, ImageStorageError):
        return False


def _place_all(
    unfinished: Sequence[Path], txid: int, rollback: bool, md5: bytes, failures: list[SaveFailure]
) -> Iterator[Path]:
    """Check and name each file; remove failed files, and add them to `failures`."""
    for path in unfinished:
        target = path.with_name(image_name(txid, rollback))
        try:
            _check(path, txid)
            place_image(path, target, md5)
            remember_digest(target, md5)
        except (OSError, ImageFormatError, ImageStorageError) as fault:
            failures.append(SaveFailure(path.parent, _withdraw(path, fault)))
        else:
            yield target


def _check(path: Path, txid: int) -> None:
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
        if image.txid != txid:
            raise ImageFormatError(f"the image is at txid {image.txid}, expected {txid}", file=str(path))


def _withdraw(path: Path, fault: Exception) -> str:
    """Remove the unfinished image of a failed folder; return the reasons for the failures."""
    try:
        path.unlink(missing_ok=True)
    except OSError as second:
        return f"{error_text(fault)}; the cleanup also failed: {error_text(second)}"
    return error_text(fault)


@dataclass(frozen=True, slots=True)
class Timings:
    """Duration of each phase of a checkpoint in seconds; `load` is the loading of the image before the replay."""

    load: float
    replay: float
    save: float


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A saved checkpoint.

    Attributes:
        base_txid, txid: newest transaction of the old and of the new image.
        transactions: number of replayed operations.
        ignored: number of operations without effect, as on a NameNode (`Namespace.ignore`).
        saved: the new image's files, digest and size.
        layout_version: layout version of the new image.
        warnings: messages for the operator about the new image.
        healed: faults of the namespace that were healed in the new image.
        engine: `local` or `spark`.
        rollback: whether the new image is the rollback image of a rolling upgrade.
    """

    base_txid: int
    txid: int
    transactions: int
    inodes: int
    saved: SaveResult
    timings: Timings
    layout_version: int
    warnings: tuple[str, ...] = ()
    rollback: bool = False
    engine: str = "local"
    healed: tuple[HealedFault, ...] = ()
    ignored: int = 0
