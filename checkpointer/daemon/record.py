"""What a daemon remembers of its checkpoints and uploads: one immutable record, replaced at each event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkpointer.roles.role import Upload
from checkpointer.transfer import UploadResult
from engine.healing import Healed
from engine.merge import MergeResult

__all__ = ["Record", "RecordKeeper"]


@dataclass(frozen=True, slots=True)
class Record:
    """What the status page tells; times are seconds since the epoch, None for never, each of an event's end.

    Attributes:
        looked_at: when it was last found out how far image and edits are.
        saved_at: when an image was last complete on disk.
        uploaded_at: when a NameNode last took one.
        latency_seconds: from the trigger of the last checkpoint until its image had its name.
        healed: what the last checkpoint healed; `healed_total`: how often something was, since the start.
        last_outcome: how the image that was offered last fared, a `Taking`'s value, "" before the first.
        uploads, upload_failures, uploaded_bytes: over all NameNodes since the start.
    """

    phase: str = "idle"
    looked_at: float | None = None
    saved_at: float | None = None
    saved_txid: int | None = None
    saved_bytes: int | None = None
    uploaded_at: float | None = None
    upload_seconds: float | None = None
    last_error: str = ""
    last_error_at: float | None = None
    last_reason: str = ""
    last_outcome: str = ""
    checkpoints: int = 0
    failures: int = 0
    uploads: int = 0
    upload_failures: int = 0
    uploaded_bytes: int = 0
    last_seconds: Mapping[str, float] | None = None
    latency_seconds: float | None = None
    healed: tuple[Healed, ...] = ()
    healed_total: int = 0


class RecordKeeper:
    """The record and its lock; `wall` gives seconds since the epoch."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._record = Record()

    @property
    def now(self) -> Record:
        """The record as it is."""
        with self._lock:
            return self._record

    def phase(self, name: str) -> None:
        self._update(lambda record: {"phase": name})

    def looked(self) -> None:
        self._update(lambda record: {"looked_at": self._wall()})

    def saved(self, result: MergeResult, reason: str, latency: float) -> None:
        """A checkpoint was made; `latency` is in seconds, see `Record`."""
        timings = result.timings
        self._update(
            lambda record: {
                "saved_at": self._wall(),
                "saved_txid": result.txid,
                "saved_bytes": result.saved.size,
                "last_reason": reason,
                "checkpoints": record.checkpoints + 1,
                "latency_seconds": latency,
                "healed": result.healed,
                "healed_total": record.healed_total + len(result.healed),
                "last_seconds": {"load": timings.load, "replay": timings.replay, "save": timings.save},
            }
        )

    def offered(self, upload: Upload) -> None:
        """A NameNode answered, or did not."""
        self._update(lambda record: {"uploaded_bytes": record.uploaded_bytes + upload.size})
        if upload.error:
            self._update(lambda record: {"upload_failures": record.upload_failures + 1, **self._error(upload.error)})
        elif upload.result == UploadResult.SUCCESS.name:
            self._update(
                lambda record: {
                    "uploads": record.uploads + 1,
                    "uploaded_at": self._wall(),
                    "upload_seconds": upload.seconds,
                }
            )

    def fared(self, outcome: str) -> None:
        """What became of an image that was offered is known."""
        self._update(lambda record: {"last_outcome": outcome})

    def failed(self, message: str) -> None:
        self._update(lambda record: {"failures": record.failures + 1, **self._error(message)})

    def job_failed(self, message: str) -> None:
        """What went wrong beside checkpoints, which alone are counted."""
        self._update(lambda record: self._error(message))

    def _error(self, message: str) -> dict[str, Any]:
        return {"last_error": message, "last_error_at": self._wall()}

    def _update(self, changes: Callable[[Record], dict[str, Any]]) -> None:
        with self._lock:
            self._record = replace(self._record, **changes(self._record))
