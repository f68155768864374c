"""A daemon's history: the events in its record, and the events that polls detect."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from flask import Blueprint, Response, jsonify, request

from checkpointer.daemon.history_file import HistoryFile
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.roles.role import CheckpointRole
from checkpointer.set_back.start_over import LostPast
from hadoop_common.errors import HdfsError
from hadoop_common.product import product_version
from hadoop_common.quantities import parse_float
from hadoop_common.recurring_fault import RecurringFault
from node_state.history import KEPT_DAYS, RESTART, HistoryEntry, HistoryMark, events_between, known, recent
from node_state.state import as_json

_LOG = logging.getLogger(__name__)
_HINT = "Report this problem and include the daemon's log; checkpoints are not affected."


class DaemonHistory:
    """The history of one role; `wall` returns seconds since the epoch. `note` and `observe` do not raise."""

    def __init__(self, role: CheckpointRole, forecast: UploadForecast, wall: Callable[[], float] = time.time) -> None:
        self._role = role
        self._forecast = forecast
        self._wall = wall
        self._file = HistoryFile(role.image_folders)
        self._mark = HistoryMark()
        self._started_at = wall()
        self._started = False
        self._fault = RecurringFault(_LOG, "the history is complete again")

    def note(self, entry: HistoryEntry) -> None:
        try:
            self._begin()
            self._file.append(entry)
        except Exception as bug:
            self._failed(bug)

    def observe(self) -> None:
        """Append the events since the last poll, derived from the difference between the states. Only one thread at a
        time may call this method.
        """
        try:
            self._begin()
            now = HistoryMark(self._active(), self._layout(), self._lost_past())
            for event in events_between(self._mark, now, self._wall()):
                self._file.append(event)
            self._mark = known(self._mark, now)
        except Exception as bug:
            self._failed(bug)

    def _failed(self, bug: Exception) -> None:
        self._fault.occurred(f"the history is incomplete: {type(bug).__name__}: {bug}", hint=_HINT, bug=bug)

    def entries(self, days: float = KEPT_DAYS) -> Sequence[HistoryEntry]:
        """Return the entries of the last `days`, oldest first."""
        return recent(self._file.entries(), self._wall(), days)

    def _begin(self) -> None:
        """Append an entry for the start of the process before all other entries."""
        if not self._started:
            text = f"hdfs-checkpointer {product_version()} started as {self._role.name}"
            # a secondary's directories may not be formatted yet
            self._started = self._file.append(HistoryEntry(at=self._started_at, kind=RESTART, text=text))

    def _active(self) -> str | None:
        addresses = [target.address for target in self._role.targets]
        active = [each for each in addresses if self._forecast.state_of(each) == "active"]
        return active[0] if len(active) == 1 else None

    def _layout(self) -> tuple[int, int] | None:
        try:
            info = self._role.storage_info()
        except (HdfsError, OSError):
            return None
        return info.layout_version, info.c_time

    def _lost_past(self) -> tuple[float, str] | None:
        # the details of every role have this attribute, except the details of roles in tests
        lost: LostPast | None = getattr(self._role.details(), "lost_past", None)
        # a node without its images also starts over, but does not set anything aside
        return None if lost is None or not lost.set_aside else (lost.at, lost.reason)


def history_json(entries: Sequence[HistoryEntry]) -> dict[str, Any]:
    return {"entries": as_json(entries)}


def history_blueprint(history: DaemonHistory) -> Blueprint:
    """Return the blueprint of GET /history; its `days` parameter limits the entries."""
    blueprint = Blueprint("history", __name__)

    @blueprint.get("/history")
    def get_history() -> Response:
        try:
            days = parse_float(request.args.get("days", str(KEPT_DAYS)))
        except ValueError:
            answer = jsonify({"state": "bad request", "message": "days is not a number"})
            answer.status_code = 400
            return answer
        return jsonify(history_json(history.entries(days)))

    return blueprint
