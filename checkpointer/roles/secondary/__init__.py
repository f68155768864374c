"""What a secondary does at a NameNode: agree with its signature, fetch image and edits, keep them."""
