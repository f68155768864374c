"""Merges without a daemon, and the choice of what merges: this process or Spark."""
