"""A small active NameNode: a namespace in one process, a real edit log, and the image servlet for checkpoints."""
