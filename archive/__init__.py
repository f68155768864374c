"""The archive: base images and every edit that follows them, from which any transaction can be restored.

Replay is fast, so edits are the delta between images. An archive is a set of immutable objects in an `object_store`.
`objects` defines their bytes: compressed frames and a footer that describes them. `catalogue` lists the objects and is
published after them. `history` decides which objects a moment needs, `retention` which moments are kept. Commands and
the daemon use `adding`, `restoring`, `path_log`, `checking` and `pruning`.
"""
