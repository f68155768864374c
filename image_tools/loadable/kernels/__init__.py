"""Kernels that check what a NameNode loads; in a separate folder, so that others stay compiled."""
