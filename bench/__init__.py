"""Benchmarks. They measure ratios within one run, which tests do not assert."""

import os

from image_format.compiling.mode import VARIABLE, Mode

# only compiled code is measured
os.environ.setdefault(VARIABLE, Mode.COMPILED.value)
