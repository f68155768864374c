"""Named checks of a checkpointer and what is around it: facts gathered at the edge, decisions as pure functions."""
