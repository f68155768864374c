"""Roles of the daemon, a folder for each."""
