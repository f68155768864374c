"""Compiled loops (Numba) over section bytes; every kernel has a plain twin in the tests."""
