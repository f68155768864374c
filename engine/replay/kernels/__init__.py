"""Kernels that replay the frequent operations; the modules next to this package contain their plain twins."""
