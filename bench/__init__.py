"""Benchmarks: ratios measured in one run, never asserted by tests."""

import os

from image_format.compiling.mode import VARIABLE, Mode

# only compiled code is measured
os.environ.setdefault(VARIABLE, Mode.COMPILED.value)
