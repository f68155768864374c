"""Forms that offer the command line's actions to administrators; the change guard admits or refuses each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, jsonify

from console.background import BackgroundWork
from console.check_page import CheckRow, check_panel
from console.model import ActionField, ConsoleAction, Panel

_KIND: Final = ActionField("kind", "Kind of alarm", kind="hidden")
_WHY: Final = (ActionField("reason", "Reason"), ActionField("by", "Your name"))
_ALARM_ACTIONS: Final = (
    ConsoleAction(
        "acknowledge",
        "Acknowledge",
        "acknowledge",
        "Acknowledge all present alarms of this kind? Their alert continues.",
        (_KIND, ActionField("minutes", "Minutes (empty: until it ends)", "", "number"), *_WHY),
        on_alarm=True,
    ),
    ConsoleAction(
        "silence",
        "Silence",
        "silence",
        "Silence all alarms of this kind? Their alert stops.",
        (_KIND, ActionField("minutes", "Minutes", "480", "number"), *_WHY),
        on_alarm=True,
    ),
)
_DAEMON_ACTIONS: Final = (
    ConsoleAction(
        "checkpoint", "Checkpoint now", "checkpoint?force=true&wait=false", "Make a checkpoint now and upload it?"
    ),
    ConsoleAction(
        "cancel",
        "Cancel checkpoints",
        "cancel",
        "Stop the running checkpoint or upload at its next safe point, and block new checkpoints during this time?",
        (ActionField("minutes", "Minutes", "2", "number"), ActionField("reason", "Reason")),
    ),
)
_VERIFY: Final = ConsoleAction(
    "verify",
    "Verify the newest image",
    "console/verify",
    "Check every record of the newest image? For a large image, this reads the whole file and takes minutes.",
)


class DaemonActions:
    """Panel of actions, and the background verification of the newest image by `verify`.

    Args:
        verify: None if this process cannot verify images.

    Attributes:
        all: every action, including the actions on alarms.
    """

    def __init__(self, verify: Callable[[], Sequence[CheckRow]] | None) -> None:
        self._work = None if verify is None else BackgroundWork("verify", verify, float("inf"))
        self._shown = _DAEMON_ACTIONS if verify is None else (*_DAEMON_ACTIONS, _VERIFY)
        self.all = (*self._shown, *_ALARM_ACTIONS)

    def panels(self) -> Sequence[Panel]:
        """Return the actions, and the result of the last verification."""
        text = "Each action asks for confirmation. `checkpointer checkpoint` and `checkpointer check` do the same work."
        found = [Panel("actions", "Actions", text=text, actions=self._shown)]
        if self._work is not None and self._work.running:
            found.append(Panel("verified", "Newest image", text="The newest image is being verified."))
        elif self._work is not None and self._work.last().at is not None:
            found.append(check_panel("verified", "Newest image", self._work.last()))
        return found

    def blueprint(self) -> Blueprint:
        """Create the blueprint of POST /console/verify."""
        blueprint = Blueprint("verify", __name__)
        work = self._work

        @blueprint.post("/console/verify")
        def post_verify() -> Response:
            if work is None or not work.begin():
                answer = jsonify({"state": "busy", "message": "the newest image is already being verified"})
                answer.status_code = HTTPStatus.CONFLICT
                return answer
            return jsonify({"state": "started", "message": "the verification of the newest image was started"})

        return blueprint
