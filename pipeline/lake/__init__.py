"""The lake: images and edits as permanent Delta tables that grow with each checkpoint."""

from __future__ import annotations

from pipeline.errors import LakeError
from pipeline.lake.append import AppendedEdits, ImageOptions, append_edits, append_image
from pipeline.lake.lake import LakeContents, is_lake, lake_contents, require_lake
from pipeline.lake.reading import find_lake_image, images_in_lake, parse_lake_uri, read_lake_edits, read_lake_images
from pipeline.lake.upkeep import join_all, retain_images, vacuum

__all__ = [
    "AppendedEdits",
    "ImageOptions",
    "LakeContents",
    "LakeError",
    "append_edits",
    "append_image",
    "find_lake_image",
    "images_in_lake",
    "is_lake",
    "join_all",
    "lake_contents",
    "parse_lake_uri",
    "read_lake_edits",
    "read_lake_images",
    "require_lake",
    "retain_images",
    "vacuum",
]
