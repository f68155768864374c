"""Commands of `checkpointer` that run on Spark."""
