"""Storage directories of a NameNode: their contents and users, and the storage of images in them."""
