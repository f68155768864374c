"""Imported once by the server that children are forked from: all modules are loaded and all kernels compiled then."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import tests.checkpointer.kill_harness
import tests.checkpointer.secondary_support
import tests.faults.scenes  # noqa: F401
from checkpointer.merging.offline import merge_directory, plan_directory
from tests.checkpointer.storage_support import recorded_directory

with tempfile.TemporaryDirectory() as _folder:
    merge_directory(plan_directory(recorded_directory(Path(_folder) / "name")))

# A collection in a child would look through all of it, and copy its pages.
gc.collect()
gc.freeze()
