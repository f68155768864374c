"""One line of help for each command of this package, available without importing the commands."""

from __future__ import annotations

SUMMARIES = {
    "export": "Write a table of an image, with full paths, as Parquet.",
    "lake": "Keep images and edits as Delta tables: append, list, report, optimize.",
    "report": "Report on space, owners, changes and damage of a namespace: text, CSV, Parquet, HTML.",
}
