"""Record of a daemon's checkpoints and uploads: one immutable value, replaced at each event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from checkpointer.transfer import UploadResult
from checkpointer.transfer.upload_target import Upload
from engine.merge import MergeResult
from node_state.history import CHECKPOINT, FAILURE, RECOVERY, UPLOAD, HistoryEntry
from node_state.state import CheckpointRecord

_FETCH = "fetch"
_ORDERED_SECONDS = 0.001


class RecordStore:
    """The record, replaced under a lock; `wall` returns seconds since the epoch, and `history` receives each event."""

    def __init__(
        self, wall: Callable[[], float] = time.time, history: Callable[[HistoryEntry], None] = lambda entry: None
    ) -> None:
        self._history = history
        self._wall = wall
        self._lock = threading.Lock()
        self._record = CheckpointRecord()
        # start of the current phase, and duration of the current checkpoint's fetch
        self._phase_at = wall()
        # progress of the current phase; only the working thread changes it
        self._done = 0
        self._fetch_seconds: dict[str, float] = {}
        # duration of the last accepted upload
        self._upload_seconds: dict[str, float] = {}

    @property
    def now(self) -> CheckpointRecord:
        with self._lock:
            return replace(self._record, phase_done=self._done)

    def phase(self, name: str, total: int | None = None) -> None:
        now, before = self._wall(), self.now.phase
        if before == _FETCH and name != _FETCH:
            self._fetch_seconds = {_FETCH: max(0.0, now - self._phase_at)}
        self._phase_at = now
        self._done = 0
        self._update(lambda record: {"phase": name, "phase_since": now, "phase_total": total})

    def advance(self, done: int) -> None:
        """Record the progress of the phase. This method must be fast, because it is called very often."""
        self._done = done

    def looked(self) -> None:
        self._update(lambda record: {"looked_at": self._wall()})

    def saved(self, result: MergeResult, reason: str, latency: float) -> None:
        """Record a checkpoint; `latency` is in seconds (see `CheckpointRecord`)."""
        timings = result.timings
        seconds = self._fetch_seconds | {"load": timings.load, "replay": timings.replay, "save": timings.save}
        self._fetch_seconds = {}
        self._update(
            lambda record: {
                **self._recovery(record),
                "saved_at": self._wall(),
                "saved_txid": result.txid,
                "image_bytes": result.saved.size,
                "last_reason": reason,
                "checkpoints": record.checkpoints + 1,
                "latency_seconds": latency,
                "healed": result.healed,
                "healed_total": record.healed_total + len(result.healed),
                "ignored": result.ignored,
                "ignored_total": record.ignored_total + result.ignored,
                "last_seconds": seconds | self._upload_seconds,
            }
        )
        self._history(
            HistoryEntry(
                at=self._wall(),
                kind=CHECKPOINT,
                txid=result.txid,
                transactions=result.transactions,
                size=result.saved.size,
                reason=reason,
                latency=round(latency, 3),
                seconds={name: round(each, 3) for name, each in seconds.items()},
            )
        )

    def offered(self, upload: Upload) -> None:
        self._history(
            HistoryEntry(
                at=self._wall(),
                kind=UPLOAD,
                text=upload.error or upload.result,
                txid=upload.txid,
                size=upload.size,
                target=upload.address,
                seconds={"upload": round(upload.seconds, 3)},
            )
        )
        self._update(lambda record: {"uploaded_bytes": record.uploaded_bytes + upload.size})
        if upload.error:
            self._update(
                lambda record: {"upload_failures": record.upload_failures + 1, **self._error(record, upload.error)}
            )
        elif upload.result == UploadResult.SUCCESS.name:
            self._upload_seconds = {"upload": upload.seconds}
            self._update(
                lambda record: {
                    **self._recovery(record),
                    "uploads": record.uploads + 1,
                    "uploaded_at": self._wall(),
                    "last_seconds": record.last_seconds and {**record.last_seconds, **self._upload_seconds},
                }
            )

    def outcome(self, outcome: str) -> None:
        """Record the outcome of an offered image."""
        self._update(lambda record: {"last_outcome": outcome})

    def failed(self, message: str, *, is_new: bool = True) -> None:
        """Record a failed attempt; add the failure to the history only if it is new."""
        if is_new:
            self._history(HistoryEntry(at=self._wall(), kind=FAILURE, text=message))
        self._update(lambda record: {"failures": record.failures + 1, **self._error(record, message)})

    def recovered(self, sentence: str) -> None:
        """Record that an operation succeeds again after a failure that is in the history."""
        self._history(HistoryEntry(at=self._wall(), kind=RECOVERY, text=sentence))
        self.resolved()

    def resolved(self) -> None:
        """Record that the last error no longer applies."""
        self._update(self._recovery)

    def job_failed(self, message: str) -> None:
        """Record a fault of a job, which does not count as a failed checkpoint."""
        self._update(lambda record: self._error(record, message))

    def _error(self, record: CheckpointRecord, message: str) -> dict[str, Any]:
        at = self._not_before(record.saved_at, record.uploaded_at, record.recovered_at)
        return {"last_error": message, "last_error_at": at}

    def _recovery(self, record: CheckpointRecord) -> dict[str, Any]:
        """Return the change by which the last error, if there is one, no longer applies."""
        if record.last_error_at is None:
            return {}
        return {"recovered_at": self._not_before(record.last_error_at + _ORDERED_SECONDS)}

    def _not_before(self, *earliest: float | None) -> float:
        """Return the present time, or the latest given time if the clock was set back.

        Readers compare these times: an error applies until a later success.
        """
        return max([self._wall(), *(each for each in earliest if each is not None)])

    def _update(self, changes: Callable[[CheckpointRecord], dict[str, Any]]) -> None:
        with self._lock:
            self._record = replace(self._record, **changes(self._record))
