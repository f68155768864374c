"""Filling of an archive next to a daemon, in a process of its own."""
