"""Storage directories of a NameNode: their content, their users, and the storing and reading of images."""
