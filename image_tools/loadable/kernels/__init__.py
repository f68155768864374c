"""Kernels that check what a NameNode loads; in a folder of their own, so that others stay compiled."""
