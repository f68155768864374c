"""Fills an archive next to a daemon, in a separate process."""
