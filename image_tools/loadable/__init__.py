"""Whether a NameNode loads an image: what it refuses, found at the speed of a scan."""

from __future__ import annotations

from image_tools.loadable.check import LoadFault, check_loadable, load_faults

__all__ = ["LoadFault", "check_loadable", "load_faults"]
