"""Fast check of whether a NameNode loads an image."""

from __future__ import annotations

from image_tools.loadable.check import LoadFault, check_loadable, load_faults
from image_tools.loadable.inodes import InodePieces

__all__ = ["InodePieces", "LoadFault", "check_loadable", "load_faults"]
