"""Benchmarks: ratios measured in one run, never asserted by tests."""

import os

from image_format.compiling.mode import VARIABLE, Mode

# measure only compiled code
os.environ.setdefault(VARIABLE, Mode.COMPILED.value)
