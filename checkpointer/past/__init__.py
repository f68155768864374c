"""Checks that a checkpointer's images and edits belong to the NameNode's present past (docs/lost-past.md)."""
