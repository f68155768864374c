"""The secondary's work with a NameNode: compare its signature with our storage, fetch image and edits, prove the
past.
"""
