"""The backup node: the stream of edits from a NameNode, and a namespace that follows the stream (BackupImage)."""
