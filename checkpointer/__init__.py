"""The checkpointer: merges an fsimage with the edits that follow and uploads the result to the NameNodes."""
