"""Regenerates the screenshots of the console in docs/images: `python -m tests.console.screenshots [FOLDER]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from console.action_panel import DaemonActions
from console.blueprint import console_blueprint
from console.history_panels import HistoryPanels
from console.process_panels import process_panels
from console.sources import ConsoleSources
from hadoop_common.access import AccessControl
from node_state.history import CHECKPOINT, FAILOVER, FAILURE, HistoryEntry
from node_state.state import as_json
from servlets.application import create_application
from servlets.http_server import HttpServer
from tests.browser import browser
from tests.console.console_support import daemon_state

_IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
_SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "console": ("", {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "light"}),
    "console-dark": ("console/charts", {"viewport": {"width": 1280, "height": 960}, "color_scheme": "dark"}),
    "console-phone": ("", {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True}),
}


def _history() -> list[HistoryEntry]:
    """Return four days of hourly checkpoints with a failure and a failover."""
    now = time.time()
    found = []
    for number in range(96):
        at = now - 3600 * (96 - number)
        slow = 1 + (number % 24) / 12
        seconds = {"load": 1.5, "replay": round(2.2 * slow, 1), "save": 3.1, "upload": round(1.4 * slow, 1)}
        size, merged = 900_000_000 + number * 900_000, int(200_000 * slow)
        found.append(HistoryEntry(at=at, kind=CHECKPOINT, transactions=merged, size=size, txid=number, seconds=seconds))
    found.append(HistoryEntry(at=now - 3600 * 40, kind=FAILOVER, text="nn2 became active instead of nn1"))
    found.append(HistoryEntry(at=now - 3600 * 39.5, kind=FAILURE, text="cannot connect to nn2:8020"))
    return sorted(found, key=lambda each: each.at)


def main(folder: Path) -> None:
    """Write one PNG of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    history = HistoryPanels(_history)
    actions = DaemonActions(lambda: ())
    sources = ConsoleSources(
        lambda: as_json(daemon_state()),
        panels=history.overview,
        private_panels=lambda: (*actions.panels(), *process_panels()),
        pages={"charts": ("History", history.page)},
        actions=actions.all,
    )
    application = create_application(console_blueprint(sources, AccessControl()))
    with HttpServer(application, "127.0.0.1", 0) as server, browser() as running:
        for name, (path, options) in _SHOTS.items():
            context = running.new_context(reduced_motion="reduce", **options)
            page = context.new_page()
            page.goto(f"{server.url}/{path}")
            page.screenshot(path=folder / f"{name}.png")
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _IMAGES)
