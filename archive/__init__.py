"""The archive: base images and every edit that follows them, from which any transaction can be restored.

Replay is fast, so an archive needs few images. An archive is a set of immutable objects in an `object_store`. `frames`
defines their bytes: compressed frames and a footer that describes them. `catalogue` lists the objects and is published
after them. `moments` decides which objects a moment needs, and `retention` decides which moments are kept. Commands and
the daemon use `adding`, `restoring`, `path_log`, `checking` and `pruning`.
"""
