"""Kernels that check whether a NameNode loads records; in a separate folder, so that other kernels stay compiled."""
