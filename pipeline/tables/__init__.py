"""The tables that images and edits are read as."""
