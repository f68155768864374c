"""The checkpointer, which merges an fsimage with the edits that follow it and uploads the result to the NameNodes."""
