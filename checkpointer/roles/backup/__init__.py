"""The backup node's parts: the stream of edits from a NameNode, and how it stays in step with it (BackupImage)."""
