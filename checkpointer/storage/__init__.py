"""Storage directories of a NameNode: their content, their users, and how images are stored and read."""
