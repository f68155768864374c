"""Compiled loops (Numba) that write names, inode records, directory entries and transactions."""
