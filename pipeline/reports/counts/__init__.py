"""Counts of images and edits for reports: small tables that tasks make of their part, and that the driver merges."""
