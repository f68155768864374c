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
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from node_state.alarm_kinds import ALARM_KINDS, alarm_keys
from node_state.state import AlarmSilence, as_json, from_json
from servlets.http_authenticator import request_caller

_LOG = logging.getLogger(__name__)

NAME: Final = "checkpointer-silences.json"
_MAX_MINUTES: Final = 30 * 24 * 60.0
_MAX_TEXT: Final = 200
_HINT: Final = "Silence the alarm again after the first checkpoint has formatted the storage directories."


class AlarmSilences:
    """The silences by kind, in a file next to each folder of `folders()`; `wall` gives seconds since the epoch.

    Writing never delays a reader.
    """

    def __init__(self, folders: Callable[[], Iterable[Path]], wall: Callable[[], float] = time.time) -> None:
        self._folders = folders
        self._wall = wall
        self._writing = threading.Lock()
        self._publishing = threading.Lock()
        # None until a directory was read
        self._silences: dict[str, AlarmSilence] | None = None

    def current(self) -> Mapping[str, AlarmSilence]:
        """Return the silences that have not ended."""
        known = self._silences
        if known is None and (paths := self._paths()):
            known = _latest(map(_read, paths))
            with self._publishing:
                # a silence that was made during the reading has priority
                self._silences = known = known if self._silences is None else self._silences
        now = self._wall()
        return {kind: each for kind, each in (known or {}).items() if each.until > now}

    def silence(self, kind: str, by: str, minutes: float, reason: str, *, alarms: Iterable[str] = ()) -> AlarmSilence:
        """Silence a kind of alarm for `minutes` from now; 0 ends its silence.

        Args:
            alarms: keys of the alarms of this kind now (`AlarmSilence`).

        Raises:
            HdfsError, OSError: no directory keeps it.
        """
        with self._writing:
            now, paths = self._wall(), self._paths()
            made = AlarmSilence(by=by, since=now, until=now + 60 * minutes, reason=reason, alarms=tuple(sorted(alarms)))
            # A directory that was away may have silences of its own. The end of a silence is kept too: another
            # directory may still have its beginning.
            silences = {**_latest([self._silences or {}, *map(_read, paths)]), kind: made}
            _store(paths, silences)
            with self._publishing:
                self._silences = silences
        _LOG.info("alarms of the kind %s are silenced by %s for %g minutes: %s", kind, by, minutes, reason)
        return made

    def _paths(self) -> list[Path]:
        try:
            return list(dict.fromkeys(folder.parent / NAME for folder in self._folders()))
        except (HdfsError, OSError):
            return []


def _latest(found: Iterable[Mapping[str, AlarmSilence]]) -> dict[str, AlarmSilence]:
    """Return the latest silence of each kind."""
    latest: dict[str, AlarmSilence] = {}
    for silences in found:
        for kind, silence in silences.items():
            if kind not in latest or silence.since > latest[kind].since:
                latest[kind] = silence
    return latest


def _store(paths: Iterable[Path], silences: Mapping[str, AlarmSilence]) -> None:
    """Write the file of each directory.

    Raises:
        HdfsError, OSError: no directory keeps it.
    """
    text = json.dumps({kind: as_json(each) for kind, each in silences.items()}) + "\n"
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
        raise faults[0] if faults else StorageError("no storage directory can keep the silence", hint=_HINT)


def _read(path: Path) -> dict[str, AlarmSilence]:
    try:
        content = json.loads(path.read_bytes())
        return {str(kind): from_json(AlarmSilence, each) for kind, each in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as fault:
        _LOG.warning("%s cannot be read, its silences are lost: %s", path, fault)
        return {}


def silences_blueprint(silences: AlarmSilences, raised: Callable[[], Mapping[str, str]]) -> Blueprint:
    """Make the blueprint of POST /silence?kind=KIND&minutes=60&reason=TEXT&by=NAME; 0 minutes end the silence.

    `raised` returns the present alarms with their kinds.
    """
    blueprint = Blueprint("silences", __name__)

    @blueprint.post("/silence")
    def post_silence() -> Response:
        kind, reason = request.values.get("kind", ""), _short(request.values.get("reason", ""))
        try:
            minutes = float(request.values.get("minutes", "60"))
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
        by = proven or _short(request.values.get("by", "")) or (request.remote_addr or "unknown")
        silences.silence(kind, by, minutes, reason, alarms=alarm_keys(raised(), kind))
        what = f"silenced for {minutes:g} minutes" if minutes else "no longer silenced"
        return _answer(HTTPStatus.OK, f"alarms of the kind {kind} are {what}")

    return blueprint


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def _answer(status: HTTPStatus, message: str) -> Response:
    answer = jsonify({"state": "done" if status is HTTPStatus.OK else "bad request", "message": message})
    answer.status_code = status
    return answer
