"""The checkpointer: merges an fsimage with the edits after it and hands the result to the NameNodes."""
