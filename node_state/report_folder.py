"""The folder of a daemon's reports, with `report_TIME_TXID.html` and `.json` for each image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hadoop_common.durable import TEMPORARY_SUFFIX

_NAME = re.compile(rf"report_(\d{{8}}T\d{{6}}Z)_(\d{{19}})\.(?:html|json)(?:{re.escape(TEMPORARY_SUFFIX)})?")
_UNFINISHED = timedelta(days=1)
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class KeptReport:
    """A report in the folder.

    Attributes:
        time: time when the daemon began to make the report, in UTC.
        txid: transaction id of the image.
        page: the HTML page. `data` is the same report as JSON; the daemon's process writes it after the page.
    """

    time: datetime
    txid: int
    page: Path

    @classmethod
    def named(cls, folder: Path, time: datetime, txid: int) -> KeptReport:
        """Return a new report of an image."""
        return cls(time, txid, folder / f"report_{time.astimezone(UTC).strftime(_TIME)}_{txid:019d}.html")

    @property
    def name(self) -> str:
        return self.page.name

    @property
    def data(self) -> Path:
        return self.page.with_suffix(".json")


def list_reports(folder: Path) -> list[KeptReport]:
    """Return the complete reports in a folder, newest first; empty if the folder does not exist.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return []
    found = {report for name in names if (report := _parse(folder, name)) is not None}
    complete = [report for report in found if {report.page.name, report.data.name} <= names]
    return sorted(complete, key=lambda report: (report.time, report.txid), reverse=True)


def surplus_files(folder: Path, retained: int, now: datetime) -> list[Path]:
    """Return the files of all reports except the newest report.

    Incomplete reports of the last day are not returned, because another daemon may be making them.

    Raises:
        OSError: the folder cannot be read.
    """
    complete = list_reports(folder)
    kept = {path for report in complete[:retained] for path in (report.page, report.data)}
    surplus = []
    for path in folder.iterdir():
        report = _parse(folder, path.name)
        if report is None or path in kept:
            continue
        if report in complete or now - report.time > _UNFINISHED:
            surplus.append(path)
    return surplus


def _parse(folder: Path, name: str) -> KeptReport | None:
    """Return the report to which a file belongs, or None for other files."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        time = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return KeptReport.named(folder, time, int(match[2]))
