"""Counts of images and edits for reports: each task makes small tables from its part, and the driver merges them."""
