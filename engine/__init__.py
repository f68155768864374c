"""The merge: loads an image as a namespace, replays edits onto it, and writes the new image (docs/architecture.md)."""
