"""Detection of a NameNode that was set back: checks that images and edits belong to its present past
(docs/lost-past.md).
"""
