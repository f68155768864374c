"""Storage directories of a NameNode: what is in them, who may use them, how images get in and out."""
