"""Reads from the namespace that a standby or a backup node keeps up to date."""
