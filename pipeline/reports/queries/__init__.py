"""Queries over the tables of images and edits: every function makes a DataFrame of a DataFrame and runs nothing."""
