"""Shadow mode: comparison of each new image of a NameNode with the contents of our image at the same transaction.

If this daemon made a checkpoint at that transaction, our image is that checkpoint. Otherwise the daemon merges the
edits up to that transaction into our newest earlier image. Both images are made from the same edits, but by independent
code. The daemon verifies every record of our image, and compares the images in separate processes with a low priority.

A comparison waits until our newest image is as new as the NameNode's. The daemon does not compare the NameNode's first
image, because our images are derived from it. Both images of the newest difference remain in `shadow` below the first
storage directory; `shadow/comparing` is temporary.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from checkpointer.daemon.child_process import start_low_priority
from checkpointer.daemon.history import DaemonHistory
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.errors import ProgressPendingError
from checkpointer.roles.role import CheckpointRole
from checkpointer.set_back.provenance import held_images, image_md5, read_provenances
from checkpointer.storage.disk_space import require_space, unfinished_bytes
from checkpointer.transfer import TransferCancelledError, download_image
from checkpointer.transfer.download import newest_image
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.loaded_image import next_layout
from engine.merge import merge
from engine.observer import CancellableObserver
from hadoop_common.back_off import BackOff
from hadoop_common.child_module import child_module
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import image_name
from hadoop_common.recurring_fault import Alarm, with_next
from hadoop_common.throttle import Throttle
from node_state.comparisons import comparisons, last_compared, shadow_state, week_of, weekly_summary
from node_state.history import COMPARISON, DIFFERENT, EQUAL, HistoryEntry
from node_state.state import ShadowState
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)

FOLDER = "shadow"
_OURS, _THEIRS = "ours", "namenode"
_WORK = "comparing"
_MD5 = ".md5"
_SLICE_SECONDS = 0.5
_DIFFERENT_EXIT = 1
_NICE = 10
_RETRIED = (
    "The daemon retries. If the retry fails, make sure that the host has free memory and space for temporary files, "
    "and run `checkpointer image verify` on the NameNode's newest image."
)

# Returns "" for two images of equal meaning, otherwise the first difference and the number of differences.
Compare = Callable[[Path, Path, Callable[[], bool]], str]


def difference_hint(folder: Path) -> str:
    """Return the next step after a difference whose images are in `folder`."""
    images = f"{folder}/{_OURS}/fsimage_* {folder}/{_THEIRS}/fsimage_*"
    return (
        "Keep shadow mode on, and list all differences: "
        f"checkpointer image diff --ignore-replay-times --limit 0 {images}; report them with both images and the edits "
        "of that time."
    )


def compare_by_commands(ours: Path, theirs: Path, cancelled: Callable[[], bool]) -> str:
    """Verify our image, then compare both images (`Compare`), in separate processes.

    Raises:
        CheckpointError: a process failed, for example because memory ran out, or the NameNode's image cannot be read.
        CheckpointCancelledError: `cancelled()` became true.
    """
    code, output, errors = _run(["verify", str(ours)], cancelled)
    if code not in (0, ExitCode.BAD_IMAGE):
        raise CheckpointError(f"{ours} cannot be verified: {_failure(code, errors)}", hint=_RETRIED)
    if code:
        return f"our image does not pass `checkpointer image verify`: {_first_line(output or errors)}"
    code, output, errors = _run(["diff", str(ours), str(theirs), "--ignore-replay-times", "--limit", "1"], cancelled)
    if code not in (0, _DIFFERENT_EXIT) or not output:
        raise CheckpointError(f"{ours} and {theirs} cannot be compared: {_failure(code, errors)}", hint=_RETRIED)
    return "" if code == 0 else f"{_first_line(output)}; {output.splitlines()[-1]}"


def _run(words: list[str], cancelled: Callable[[], bool]) -> tuple[int, str, str]:
    """Run `checkpointer image` with these arguments; return its exit code, output and errors."""
    with start_low_priority(child_module("checkpointer", "image", *words), _NICE) as child:
        while True:
            try:
                output, errors = child.communicate(timeout=_SLICE_SECONDS)
            except subprocess.TimeoutExpired:
                if cancelled():
                    child.kill()
                    raise CheckpointCancelledError("cancelled during a comparison") from None
            else:
                return child.returncode, output, errors


def _failure(code: int, errors: str) -> str:
    return f"signal {-code} ended the process" if code < 0 else _first_line(errors)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no output")


class ShadowComparer:
    """The job of shadow mode. One thread calls `run`; any thread may call the other methods.

    Args:
        stopped: returns whether the daemon is stopping.
        wall: seconds since the epoch.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        role: CheckpointRole,
        config: CheckpointConfig,
        forecast: UploadForecast,
        history: DaemonHistory,
        *,
        stopped: Callable[[], bool],
        compare: Compare = compare_by_commands,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role = role
        self._config = config
        self._forecast = forecast
        self._history = history
        self._stopped = stopped
        self._compare = compare
        self._wall = wall
        self._clock = clock
        # storage time of the newest image that needs no further comparison, by the NameNode's address
        self._settled: dict[str, float] = {}
        self._week: int | None = None
        self._back_off = BackOff(config.poll_interval, config.period)
        self._failures = 0
        # reading of `clock` before which a failed comparison is not repeated
        self._retry_at = -math.inf

    # ---- observation ---------------------------------------------------------------------------------------

    def state(self) -> ShadowState:
        """Return the comparisons of the last 7 days."""
        return shadow_state(self._compared(), self._wall())

    def alarms(self) -> list[Alarm]:
        """Return an alarm for the newest difference of the last 7 days."""
        since = self._wall() - 7 * 86_400
        for entry in reversed(self._compared()):
            if entry.reason == DIFFERENT and entry.at > since:
                text = f"the image at txid {entry.txid} of {entry.target} differs from ours: {entry.text}"
                return [Alarm(text, difference_hint(self._folder(entry.txid or 0)), "shadow")]
        return []

    def _compared(self) -> list[HistoryEntry]:
        return comparisons(self._history.entries())

    # ---- work ----------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Compare each NameNode's newest image unless it was compared before, and log a summary of each completed week.

        Raises:
            HdfsError: an image could not be fetched, made or compared; later calls will retry with increasing delays.
            OSError: a temporary file could not be written.
        """
        self._log_week()
        if self._clock() < self._retry_at:
            return False
        for address in self._config.namenode_http_addresses:
            reported = self._forecast.reported_at(address)
            if reported is None or self._settled.get(address) == reported:
                continue
            try:
                settled = self._compare_newest(address)
            except (CheckpointCancelledError, TransferCancelledError, ProgressPendingError):
                return False
            except Exception:
                # do not fetch a large image again at every poll
                self._failures += 1
                self._retry_at = self._clock() + self._back_off.wait(self._failures)
                raise
            self._failures = 0
            if settled:
                self._settled[address] = reported
        return False

    def _log_week(self) -> None:
        compared, now = self._compared(), week_of(self._wall())
        if self._week is None:
            self._week = week_of(compared[-1].at) if compared else now
        if now > self._week:
            _LOG.info("%s", weekly_summary(compared, self._week))
            self._week = now

    def _compare_newest(self, address: str) -> bool:
        """Compare a NameNode's newest image; return False if the comparison must wait for one of our images."""
        if self._role.image_folders():
            # images left by a killed process could occupy the space for our next image
            shutil.rmtree(self._folder(_WORK), ignore_errors=True)
        timeout = self._config.transfer_timeout
        txid = newest_image(address, timeout=timeout, cancel=self._stopped)
        if txid <= last_compared(self._history.entries()):
            return True
        if self._role.progress().image_txid < txid:
            return False
        made, base = self._made_here(txid), self._base_before(txid)
        if made is None and base is None:
            _LOG.info("none of our images precedes txid %d, so comparisons begin with the next image", txid)
            return True
        work = self._folder(_WORK)
        try:
            finding = self._compare_at(txid, address, work, made, base)
            self._keep_images(txid, work, different=bool(finding))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._note(txid, address, finding)
        return True

    def _keep_images(self, txid: int, work: Path, *, different: bool) -> None:
        """Move the images of a difference to their folder, and remove the images of older differences."""
        kept = self._folder(txid)
        # left by a comparison whose result was not recorded
        shutil.rmtree(kept, ignore_errors=True)
        if different:
            work.rename(kept)
            for other in kept.parent.iterdir():
                if other != kept:
                    shutil.rmtree(other, ignore_errors=True)

    def _compare_at(
        self, txid: int, address: str, folder: Path, made: Path | None, base: tuple[int, Path] | None
    ) -> str:
        ours, theirs = folder / _OURS, folder / _THEIRS
        ours.mkdir(parents=True)
        theirs.mkdir()
        name = image_name(txid)
        if made is not None:
            for each in (name, name + _MD5):
                os.link(made.parent / each, ours / each)
            if not self._is_made(ours / name):
                raise CheckpointError(f"{made} was replaced just now", hint="No action is needed: the daemon retries.")
        elif base is not None:
            self._require_space(folder, base[1])
            self._merge(base, txid, ours)
        self._require_space(folder, ours / name)
        download_image(
            address,
            txid,
            self._role.storage_info(),
            [theirs],
            timeout=self._config.transfer_timeout,
            throttle=Throttle(self._config.transfer_bandwidth, count=self._role.counter.add_received),
            cancel=self._stopped,
        )
        return self._compare(ours / name, theirs / name, self._stopped)

    def _require_space(self, folder: Path, image: Path) -> None:
        """Check that `folder` has space for an image as large as `image`, and for the rest of the next checkpoint."""
        written = unfinished_bytes(self._role.image_folders()[0])
        require_space([folder], image, reserved=max(0, image.stat().st_size - written))

    def _merge(self, base: tuple[int, Path], txid: int, folder: Path) -> None:
        base_txid, image = base
        layout = next_layout(image, self._role.storage_info().layout_version)
        result = merge(
            image,
            self._role.operations(base_txid + 1, txid),
            [folder],
            replace(self._config.merge_settings, layout_version=layout),
            expected=txid - base_txid,
            observer=CancellableObserver(self._stopped),
        )
        if result.txid != txid:
            hint = "The daemon retries; if the retry fails, check the edits that the daemon reads."
            raise CheckpointError(f"the edits end at txid {result.txid}, expected {txid}", hint=hint)

    def _note(self, txid: int, address: str, finding: str) -> None:
        reason = DIFFERENT if finding else EQUAL
        entry = HistoryEntry(
            at=self._wall(), kind=COMPARISON, text=finding or EQUAL, txid=txid, target=address, reason=reason
        )
        self._history.note(entry)
        fields = {"txid": txid, "target": address, "result": reason}
        if not finding:
            _LOG.info("the image at txid %d of %s equals ours, %s", txid, address, self.state(), extra=fields)
            return
        text = f"the image at txid {txid} of {address} differs from ours: {finding}"
        _LOG.error("%s", with_next(text, difference_hint(self._folder(txid))), extra=fields)

    # ---- our images ----------------------------------------------------------------------------------------

    def _folder(self, name: int | str) -> Path:
        """Return the folder for both images of the running comparison, or of a difference at the txid `name`."""
        return self._role.image_folders()[0].parent / FOLDER / str(name)

    def _path(self, txid: int) -> Path | None:
        """Return the path of our image at `txid` in the first storage directory that contains it."""
        paths = (folder / image_name(txid) for folder in self._role.image_folders())
        return next((path for path in paths if path.is_file()), None)

    def _made_here(self, txid: int) -> Path | None:
        """Return the image at `txid` if it exists and this daemon made it, otherwise None."""
        # hard links require the same file system
        path = self._role.image_folders()[0] / image_name(txid)
        return path if path.is_file() and self._is_made(path) else None

    def _is_made(self, image: Path) -> bool:
        """Return whether this daemon made the image."""
        provenance = read_provenances(self._role.image_folders()).get(image_md5(image))
        return provenance is not None and provenance.made

    def _base_before(self, txid: int) -> tuple[int, Path] | None:
        """Return the newest stored image before `txid`."""
        for held in held_images(self._role.image_folders()):
            if held.txid < txid and (path := self._path(held.txid)) is not None:
                return held.txid, path
        return None
