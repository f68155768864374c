"""Named checks of a checkpointer and its cluster: the facts are gathered first, then pure functions decide."""
