"""Archiving in a separate process that a daemon starts."""
