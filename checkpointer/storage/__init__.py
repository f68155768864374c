"""Storage directories of a NameNode: what lies in them, who may use them, how images get in and out."""
