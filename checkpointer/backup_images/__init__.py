"""Backup images: the NameNode's offer, the fetch, and the folder that stores them."""
