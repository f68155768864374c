"""Whether what a checkpointer holds is the past of its NameNode as it is now (docs/lost-past.md)."""
