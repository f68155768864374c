"""Named checks of a checkpointer and its cluster. The facts are gathered first; then pure functions evaluate them."""
