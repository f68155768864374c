"""Compiled loops (Numba) that make names, inode records, directory entries and transactions."""
