"""Compiled sums of subtrees."""
