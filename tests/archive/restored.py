"""Directories restored from an archive."""

from __future__ import annotations

from pathlib import Path

from archive.archive import Archive
from archive.moments import only_history, plan_restore, view_of
from archive.restoring import RestoreOptions, fetch_source, restore
from tests.recorded_cases import RECORDED, Case

CASES = [
    Case(path)
    for release in ("hadoop-2.7.3", "hadoop-3.3.6", "hadoop-3.5.0")
    for path in sorted((RECORDED / release).iterdir())
    if (path / "case.json").is_file()
]


def restored(archive: Archive, txid: int, target: Path, branch: str = "", **options: object) -> Path:
    catalogue = archive.catalogue()
    view = view_of(catalogue, branch or only_history(catalogue))
    source = fetch_source(archive, plan_restore(view, txid), target.with_name(target.name + "-source"))
    made = restore(source, target, RestoreOptions(**options))  # type: ignore[arg-type]
    assert made.txid == txid
    return target
