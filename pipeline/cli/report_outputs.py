"""Outputs of one run of `checkpointer report`: the terminal and any number of files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import echo, printed, terminal_width
from hadoop_common.durable import write_atomically
from hadoop_common.file_faults import hint_for
from hadoop_common.quantities import counted
from pipeline.errors import OutputError

if TYPE_CHECKING:
    from pipeline.reports.model import NamespaceReport

FORMATS = ("terminal", "summary", "csv", "parquet", "json", "html", "prometheus")
_FOLDERS = ("csv", "parquet")
_ENDINGS = {".html": "html", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".prom": "prometheus"}


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """A copy of the report; `path` is None for standard output."""

    kind: str
    path: Path | None = None


def plan_outputs(kind: str, paths: Sequence[Path], *, force: bool) -> tuple[ReportOutput, ...]:
    """Decide the format of each output.

    The ending of a path determines its format; without a known ending, the format is `kind`. Standard output has the
    format `kind`, unless a path has that format.

    Raises:
        click.UsageError: a path has no format, already exists, or cannot be written; or a format that needs a folder
            has no path.
    """
    files = [ReportOutput(_ENDINGS.get(path.suffix.lower(), kind), path) for path in paths]
    if len({path.absolute() for path in paths}) < len(paths):
        raise click.UsageError("--out names the same path twice")
    for output, path in zip(files, paths, strict=True):
        _check_path(path, output.kind, force=force)
    if any(output.kind == kind for output in files):
        return tuple(files)
    if kind in _FOLDERS:
        raise click.UsageError(f"--format {kind} needs --out, the folder to write the files to")
    return (ReportOutput(kind), *files)


def _check_path(path: Path, kind: str, *, force: bool) -> None:
    if kind in {"terminal", "summary"}:
        endings = ", ".join(_ENDINGS)
        raise click.UsageError(f"--out {path}: end the name in one of {endings}, or set --format")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise click.UsageError(f"--out: {folder} is not a directory")
    if not os.access(folder, os.W_OK):
        raise click.UsageError(f"--out: {folder} is not writable")
    if kind in _FOLDERS and path.resolve() in (here := Path.cwd(), *here.parents):
        raise click.UsageError(f"--out {path}: the folder is replaced as a whole; specify a folder below it")
    if path.exists() and not force:
        raise click.UsageError(f"{path} already exists; --force replaces it")
    if path.exists() and path.is_dir() != (kind in _FOLDERS):
        raise click.UsageError(f"{path} is {'a directory' if path.is_dir() else 'not a directory'}")
    others = sorted(each.name for each in (path.iterdir() if path.is_dir() else ()) if not _is_table(each, kind))
    if others:
        raise click.UsageError(f"{path} contains {others[0]}, which is not part of a report; specify another folder")


def _is_table(path: Path, kind: str) -> bool:
    return path.suffix == f".{kind}" and path.is_file()


def write_outputs(report: NamespaceReport, outputs: Sequence[ReportOutput]) -> None:
    """Write every copy, standard output first.

    Raises:
        OutputError: a file cannot be written; earlier copies remain.
    """
    for output in outputs:
        if output.path is None:
            _print(report, output.kind)
        else:
            with _writing(output.path):
                written = _write(report, output.kind, output.path)
            echo(f"{output.path}: {written}", err=True)


def _print(report: NamespaceReport, kind: str) -> None:
    if kind in {"terminal", "summary"}:
        from pipeline.reports.writers.terminal import report_lines, summary_lines

        lines = report_lines if kind == "terminal" else summary_lines
        for line in lines(report, terminal_width()):
            echo(line)
        return
    printed.set(True)
    click.echo(_as_text(report, kind).encode(), nl=kind != "prometheus")


def _write(report: NamespaceReport, kind: str, path: Path) -> str:
    """Write a copy; return the written amount as readable text."""
    if kind in _FOLDERS:
        from pipeline.reports.writers.csv_parquet import write_folder

        return counted(len(write_folder(report, path, kind)), "file")
    write_atomically(path, _as_text(report, kind).encode())
    return counted(len(report.sections), "section")


def _as_text(report: NamespaceReport, kind: str) -> str:
    if kind == "html":
        from pipeline.reports.html import render

        return render(report)
    if kind == "prometheus":
        from pipeline.reports.writers.prometheus import metrics_text

        return metrics_text(report)
    from pipeline.reports.headline import headline
    from pipeline.reports.model import as_json

    return json.dumps({**as_json(report), "headline": as_json(headline(report))}, ensure_ascii=False)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = hint_for(
            error, "Check that the directory exists, is writable and has enough space, or specify another --out."
        )
        raise OutputError(f"cannot write {out}: {error}", hint=hint) from error
