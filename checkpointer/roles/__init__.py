"""Roles of the daemon, with a folder for each role."""
