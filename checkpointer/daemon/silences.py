"""Silences of alarms: who silenced a kind of alarm, until when and why; kept in the storage directories over restarts.

A silence changes neither readiness nor the state of a check. It marks the alarm in the console and in `check`, and
stops its alert rule.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, jsonify, request

from hadoop_common.durable import write_atomically
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from node_state.alarm_kinds import ALARM_KINDS
from node_state.state import AlarmSilence, as_json, from_json
from servlets.http_authenticator import request_caller

_LOG = logging.getLogger(__name__)

NAME: Final = "checkpointer-silences.json"
_MAX_MINUTES: Final = 30 * 24 * 60.0
_MAX_TEXT: Final = 200


class AlarmSilences:
    """The silences by kind, in a file next to each folder of `folders()`; `wall` gives seconds since the epoch."""

    def __init__(self, folders: Callable[[], Iterable[Path]], wall: Callable[[], float] = time.time) -> None:
        self._folders = folders
        self._wall = wall
        self._lock = threading.Lock()
        self._silences: dict[str, AlarmSilence] | None = None

    def current(self) -> Mapping[str, AlarmSilence]:
        """Return the silences that have not ended."""
        with self._lock:
            now = self._wall()
            return {kind: each for kind, each in self._loaded().items() if each.until > now}

    def silence(self, kind: str, by: str, minutes: float, reason: str) -> AlarmSilence:
        """Silence a kind of alarm for `minutes` from now; 0 ends its silence.

        Raises:
            HdfsError, OSError: no directory keeps it.
        """
        with self._lock:
            now = self._wall()
            made = AlarmSilence(by=by, since=now, until=now + 60 * minutes, reason=reason)
            # the end of a silence is kept too: another directory may still have its beginning
            silences = {**self._loaded(), kind: made}
            self._store(silences)
            self._silences = silences
        _LOG.info("alarms of the kind %s are silenced by %s for %g minutes: %s", kind, by, minutes, reason)
        return made

    def _loaded(self) -> dict[str, AlarmSilence]:
        """Return the latest silence of each kind in any directory."""
        if self._silences is None:
            found: dict[str, AlarmSilence] = {}
            for path in self._paths():
                for kind, silence in _read(path).items():
                    if kind not in found or silence.since > found[kind].since:
                        found[kind] = silence
            self._silences = found
        return self._silences

    def _store(self, silences: Mapping[str, AlarmSilence]) -> None:
        text = json.dumps({kind: as_json(each) for kind, each in silences.items()}) + "\n"
        stored = 0
        faults: list[HdfsError | OSError] = []
        for path in self._paths():
            try:
                write_atomically(path, text.encode())
                stored += 1
            except (HdfsError, OSError) as fault:
                faults.append(fault)
                _LOG.warning("%s cannot be written: %s", path, error_text(fault))
        if not stored and faults:
            raise faults[0]

    def _paths(self) -> list[Path]:
        try:
            return list(dict.fromkeys(folder.parent / NAME for folder in self._folders()))
        except (HdfsError, OSError):
            return []


def _read(path: Path) -> dict[str, AlarmSilence]:
    try:
        content = json.loads(path.read_bytes())
        return {str(kind): from_json(AlarmSilence, each) for kind, each in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as fault:
        _LOG.warning("%s cannot be read, its silences are lost: %s", path, fault)
        return {}


def silences_blueprint(silences: AlarmSilences) -> Blueprint:
    """Make the blueprint of POST /silence?kind=KIND&minutes=60&reason=TEXT&by=NAME; 0 minutes end the silence."""
    blueprint = Blueprint("silences", __name__)

    @blueprint.post("/silence")
    def post_silence() -> Response:
        kind, reason = request.args.get("kind", ""), _short(request.args.get("reason", ""))
        try:
            minutes = float(request.args.get("minutes", "60"))
        except ValueError:
            minutes = math.nan
        if kind not in ALARM_KINDS:
            return _answer(HTTPStatus.BAD_REQUEST, f"kind is {kind[:80]!a}, expected one of {', '.join(ALARM_KINDS)}")
        if not 0 <= minutes <= _MAX_MINUTES:
            return _answer(HTTPStatus.BAD_REQUEST, f"minutes must be a number from 0 to {_MAX_MINUTES:.0f}")
        if minutes and not reason:
            return _answer(HTTPStatus.BAD_REQUEST, "a reason is required")
        caller = request_caller()
        proven = caller.principal if caller is not None else ""
        by = proven or _short(request.args.get("by", "")) or (request.remote_addr or "unknown")
        silences.silence(kind, by, minutes, reason)
        what = f"silenced for {minutes:g} minutes" if minutes else "no longer silenced"
        return _answer(HTTPStatus.OK, f"alarms of the kind {kind} are {what}")

    return blueprint


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def _answer(status: HTTPStatus, message: str) -> Response:
    answer = jsonify({"state": "done" if status is HTTPStatus.OK else "bad request", "message": message})
    answer.status_code = status
    return answer
