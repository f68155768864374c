"""Kernels that replay the frequent operations; the functions beside this package are their plain twins."""
