"""Serves reads from the namespace that a standby or backup keeps up to date."""
