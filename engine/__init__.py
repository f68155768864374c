"""The merge: a namespace over an image, the replay of edits on it, and the new image (docs/architecture.md)."""
