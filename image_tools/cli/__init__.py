"""Commands of `checkpointer image` that need no more than an image."""
