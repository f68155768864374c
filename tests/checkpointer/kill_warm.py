"""Loads all modules and compiles all kernels in advance; imported once by the server that forks children."""

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

# A garbage collection in a child would touch, and therefore copy, all of its pages.
gc.collect()
gc.freeze()
