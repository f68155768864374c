"""Kernels that replay the frequent operations; the functions next to this package are their plain twins."""
