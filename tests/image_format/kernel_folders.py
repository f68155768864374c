"""The folders with kernels."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


FOLDERS = (
    "image_format/kernels",
    "engine/replay/kernels",
    "image_tools/dump/kernels",
    "image_tools/kernels",
    "image_tools/loadable/kernels",
    "image_tools/verify/kernels",
    "pipeline/kernels",
)
