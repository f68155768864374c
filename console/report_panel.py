"""Daily reports of a daemon, for administrators: a list, and each report in its stored form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from flask import Response

from console.model import PageCell, Panel, cell
from console.words import count_text, time_text
from node_state.report_folder import KeptReport

Reports = Callable[[], Sequence[KeptReport]]

FOLDER: Final = "console/reports"
_MAX_ROWS: Final = 7
# The report contains names from the namespace, so its script must not act on behalf of this server.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data:; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def report_panels(reports: Reports) -> Sequence[Panel]:
    """Return a panel that lists the latest reports; no panel before the first report."""
    rows = tuple(
        (
            cell(time_text(each.time.timestamp())),
            cell(count_text(each.txid)),
            PageCell("Report", link=f"{FOLDER}/{each.page.name}"),
            PageCell("JSON", link=f"{FOLDER}/{each.data.name}"),
        )
        for each in reports()[:_MAX_ROWS]
    )
    return (Panel("reports", "Reports", columns=("Made", "Image", "Page", "Data"), rows=rows),) if rows else ()


def report_response(reports: Reports, name: str) -> Response | None:
    """Return a report's page or data, or None if the report does not exist.

    Raises:
        OSError: the report cannot be read.
    """
    for report in reports():
        for path, kind in ((report.page, "text/html"), (report.data, "application/json")):
            if path.name == name:
                try:
                    content = path.read_bytes()
                except FileNotFoundError:
                    return None
                return Response(content, content_type=f"{kind}; charset=utf-8", headers=_HEADERS)
    return None
