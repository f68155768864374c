"""Operators' marks on alarms. A mark records the user who silenced or acknowledged a kind of alarm, the reason, and the
time when the mark ends.

The daemon stores marks in the storage directories, so they survive restarts. They change neither readiness nor the
state of a check. A silence suppresses the alert rule of its kind. An acknowledgement suppresses nothing, and ends
together with its alarms.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar

from flask import Blueprint, Response, abort, jsonify, request

from hadoop_common.durable import write_atomically
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from node_state.alarm_kinds import ALARM_KINDS, alarm_keys
from node_state.alarm_marks import AlarmAcknowledgement, AlarmMark, AlarmSilence
from node_state.state import as_json, from_json
from servlets.http_authenticator import request_caller

_LOG = logging.getLogger(__name__)

SILENCES: Final = "checkpointer-silences.json"
ACKNOWLEDGEMENTS: Final = "checkpointer-acknowledgements.json"
_MAX_MINUTES: Final = 30 * 24 * 60.0
_MAX_TEXT: Final = 200
_UNLIMITED: Final = "inf"
_ENDED_SECONDS: Final = 3600.0
_HINT: Final = "Repeat the request after the first checkpoint has formatted the storage directories."

M = TypeVar("M", bound=AlarmMark)


class _AlarmMarks(Generic[M]):
    """Marks by kind of alarm, stored in a file next to each folder of `folders()`; `wall` returns seconds since the
    epoch.

    Readers never wait for a write.
    """

    def __init__(
        self, made: type[M], name: str, folders: Callable[[], Iterable[Path]], wall: Callable[[], float]
    ) -> None:
        self._type = made
        self._name = name
        self._folders = folders
        self._wall = wall
        self._writing = threading.RLock()
        self._publishing = threading.Lock()
        # None before the first directory has been read
        self._marks: dict[str, M] | None = None

    def current(self) -> Mapping[str, M]:
        """Return the marks that have not ended."""
        known = self._marks
        if known is None and (paths := self._paths()):
            known = _latest(map(self._read, paths))
            with self._publishing:
                # a mark that a user set during the read takes precedence
                self._marks = known = known if self._marks is None else self._marks
        now = self._wall()
        return {kind: each for kind, each in (known or {}).items() if each.until is None or each.until > now}

    def _put(self, kind: str, made: M) -> None:
        with self._writing:
            paths = self._paths()
            # A directory that was unavailable may contain other marks. Also store ended marks, because another
            # directory may still contain the mark without its end.
            marks = {**_latest([self._marks or {}, *map(self._read, paths)]), kind: made}
            self._store(paths, marks)
            self._publish(marks)

    def _publish(self, marks: dict[str, M]) -> None:
        with self._publishing:
            self._marks = marks

    def _paths(self) -> list[Path]:
        try:
            return list(dict.fromkeys(folder.parent / self._name for folder in self._folders()))
        except (HdfsError, OSError):
            return []

    def _store(self, paths: Iterable[Path], marks: Mapping[str, M]) -> None:
        text = json.dumps({kind: as_json(each) for kind, each in marks.items()}) + "\n"
        stored = 0
        faults: list[HdfsError | OSError] = []
        for path in paths:
            try:
                write_atomically(path, text.encode())
                stored += 1
            except (HdfsError, OSError) as fault:
                faults.append(fault)
                _LOG.warning("%s cannot be written: %s", path, error_text(fault))
        if not stored:
            raise faults[0] if faults else StorageError(f"no storage directory can store {self._name}", hint=_HINT)

    def _read(self, path: Path) -> dict[str, M]:
        try:
            content = json.loads(path.read_bytes())
            marks = {str(kind): from_json(self._type, each) for kind, each in content.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as fault:
            _LOG.warning("%s cannot be read; its content is lost: %s", path, fault)
            return {}
        for kind in [kind for kind, each in marks.items() if not _has_valid_end(each)]:
            lost = marks.pop(kind)
            _LOG.warning("%s: dropped the mark of %s by %s, whose end is invalid: %r", path, kind, lost.by, lost.until)
        return marks


def _has_valid_end(mark: AlarmMark) -> bool:
    """Return whether the end of a mark is possible; only an acknowledgement may be unlimited (None)."""
    if mark.until is None:
        return True
    if isinstance(mark, AlarmSilence):
        return math.isfinite(mark.until) and mark.until <= mark.since + 60 * _MAX_MINUTES
    return math.isfinite(mark.until)


def _latest(found: Iterable[Mapping[str, M]]) -> dict[str, M]:
    """Return the latest mark of each kind."""
    latest: dict[str, M] = {}
    for marks in found:
        for kind, each in marks.items():
            if kind not in latest or each.since > latest[kind].since:
                latest[kind] = each
    return latest


class AlarmSilences(_AlarmMarks[AlarmSilence]):
    def __init__(self, folders: Callable[[], Iterable[Path]], wall: Callable[[], float] = time.time) -> None:
        super().__init__(AlarmSilence, SILENCES, folders, wall)

    def silence(self, kind: str, by: str, minutes: float, reason: str, *, alarms: Iterable[str] = ()) -> None:
        """Silence a kind of alarm for the next `minutes`; 0 ends the silence of this kind.

        Args:
            alarms: keys of the present alarms of this kind (`AlarmSilence`).

        Raises:
            HdfsError, OSError: no directory can store the silence.
        """
        now = self._wall()
        until = now + 60 * minutes
        self._put(kind, AlarmSilence(by=by, since=now, until=until, reason=reason, alarms=tuple(sorted(alarms))))
        if minutes:
            _LOG.info("alarms of the kind %s are silenced by %s for %g minutes: %s", kind, by, minutes, reason)
        else:
            _LOG.info("alarms of the kind %s are no longer silenced: ended by %s", kind, by)


class AlarmAcknowledgements(_AlarmMarks[AlarmAcknowledgement]):
    """Acknowledgements of a daemon's alarms.

    An acknowledgement ends at the requested time, or when none of its alarms has been raised for an hour. An alarm that
    returns within that hour is still acknowledged: after a restart, for example, some alarms are raised only after
    several attempts.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self,
        folders: Callable[[], Iterable[Path]],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(AlarmAcknowledgement, ACKNOWLEDGEMENTS, folders, wall)
        self._clock = clock
        self._raised_at: dict[str, float] = {}

    def acknowledge(self, kind: str, by: str, minutes: float | None, reason: str, *, alarms: Iterable[str]) -> None:
        """Acknowledge the alarms of a kind for the next `minutes`, or until the alarms end if that is earlier.

        Args:
            minutes: maximum duration; None means unlimited, and 0 ends the acknowledgement.
            alarms: keys of the present alarms of this kind.

        Raises:
            HdfsError, OSError: no directory can store the acknowledgement.
        """
        now = self._wall()
        until = None if minutes is None else now + 60 * minutes
        made = AlarmAcknowledgement(by=by, since=now, until=until, reason=reason, alarms=tuple(sorted(alarms)))
        with self._writing:
            self._put(kind, made)
            self._raised_at.pop(kind, None)
        if minutes == 0:
            _LOG.info("alarms of the kind %s are no longer acknowledged: ended by %s", kind, by)
        else:
            _LOG.info("alarms of the kind %s are %s", kind, made)

    def observe(self, kinds: Mapping[str, str]) -> None:
        """End the acknowledgements of alarms that have ended; `kinds` maps present alarms to their kinds.

        Raises:
            HdfsError, OSError: no directory can store the end of an acknowledgement.
        """
        with self._writing:
            now = self._clock()
            for kind, each in self.current().items():
                if not alarm_keys(kinds, kind).isdisjoint(each.alarms):
                    self._raised_at[kind] = now
                elif now - self._raised_at.setdefault(kind, now) >= _ENDED_SECONDS:
                    del self._raised_at[kind]
                    ended = replace(each, until=self._wall())
                    # publish the end even if no directory can store it, because an alarm that begins now is a new alarm
                    self._publish({**(self._marks or {}), kind: ended})
                    _LOG.info("alarms of the kind %s have ended, and so has their acknowledgement", kind)
                    self._put(kind, ended)


def alarm_marks_blueprint(
    silences: AlarmSilences, acknowledgements: AlarmAcknowledgements, raised: Callable[[], Mapping[str, str]]
) -> Blueprint:
    """Return the blueprint of POST /silence?kind=KIND&minutes=60&reason=TEXT&by=NAME; POST /acknowledge has the same
    parameters.

    A duration of 0 minutes ends a silence or an acknowledgement. An acknowledgement without `minutes` lasts until its
    alarms end. `raised` returns the present alarms with their kinds.
    """
    blueprint = Blueprint("alarm_marks", __name__)

    @blueprint.post("/silence")
    def post_silence() -> Response:
        kind, minutes, reason = _parameters("60")
        silences.silence(kind, _caller(), minutes, reason, alarms=alarm_keys(raised(), kind))
        what = f"silenced for {minutes:g} minutes" if minutes else "no longer silenced"
        return _answer(HTTPStatus.OK, f"alarms of the kind {kind} are {what}")

    @blueprint.post("/acknowledge")
    def post_acknowledge() -> Response:
        kind, minutes, reason = _parameters(_UNLIMITED)
        alarms = alarm_keys(raised(), kind)
        if minutes and not alarms:
            text = f"no alarm of the kind {kind} is active: an alarm can be silenced in advance, but not acknowledged"
            return _answer(HTTPStatus.CONFLICT, text)
        limit = None if math.isinf(minutes) else minutes
        acknowledgements.acknowledge(kind, _caller(), limit, reason, alarms=alarms)
        until = "until they end" if limit is None else f"for {minutes:g} minutes"
        what = f"acknowledged {until}" if minutes else "no longer acknowledged"
        return _answer(HTTPStatus.OK, f"alarms of the kind {kind} are {what}")

    return blueprint


def _parameters(default: str) -> tuple[str, float, str]:
    """Return the kind, minutes and reason of the request; respond with 400 if a parameter is missing or invalid."""
    kind, reason = request.values.get("kind", ""), _short(request.values.get("reason", ""))
    text = request.values.get("minutes", "") or default
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if kind not in ALARM_KINDS:
        _refuse(f"kind is {kind[:80]!a}, expected one of {', '.join(ALARM_KINDS)}")
    # an infinite duration is valid only as the default
    if not 0 <= minutes <= _MAX_MINUTES and text != default:
        _refuse(f"minutes must be a number from 0 to {_MAX_MINUTES:.0f}")
    if minutes and not reason:
        _refuse("a reason is required")
    return kind, minutes, reason


def _caller() -> str:
    caller = request_caller()
    proven = caller.principal if caller is not None else ""
    return proven or _short(request.values.get("by", "")) or (request.remote_addr or "unknown")


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def _refuse(message: str) -> NoReturn:
    abort(_answer(HTTPStatus.BAD_REQUEST, message))


def _answer(status: HTTPStatus, message: str) -> Response:
    states = {HTTPStatus.OK: "done", HTTPStatus.CONFLICT: "nothing raised"}
    answer = jsonify({"state": states.get(status, "bad request"), "message": message})
    answer.status_code = status
    return answer
