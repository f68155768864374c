"""Checks that what a checkpointer holds belongs to the NameNode's present past (docs/lost-past.md)."""
