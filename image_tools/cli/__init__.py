"""The commands of `checkpointer image`, which need only an image."""
