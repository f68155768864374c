"""Offline merges, and the choice of the merge engine: this process or Spark."""
