"""The checkpointer: merges an fsimage with the edits behind it and hands the result to the NameNodes."""
