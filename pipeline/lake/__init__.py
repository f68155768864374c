"""The lake: images and edits as permanent Parquet tables that grow with each checkpoint."""

from __future__ import annotations

from pipeline.errors import LakeBusyError, LakeError
from pipeline.lake.append import AppendedEdits, append_edits, append_image, retain_images
from pipeline.lake.tables import LakeContents, images_in_lake, lake_contents, read_lake_edits, read_lake_images

__all__ = [
    "AppendedEdits",
    "LakeBusyError",
    "LakeContents",
    "LakeError",
    "append_edits",
    "append_image",
    "images_in_lake",
    "lake_contents",
    "read_lake_edits",
    "read_lake_images",
    "retain_images",
]
