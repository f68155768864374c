"""One line of help for each command of this package, to be read without loading them."""

from __future__ import annotations

SUMMARIES = {
    "export": "Write a table of an image, with whole paths, as Parquet.",
    "lake": "Keep images and edits as Parquet tables: append, list.",
    "report": "Show what fills the namespace and who fills it: tables, CSV, Parquet, HTML.",
}
